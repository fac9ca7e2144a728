"""What a run of an embedding answers by: of one on pairs more than its bundle, which answers for pairs alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from pdl.export.deployment import Deployment
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources
from pdl.runtime.steps.labels import Probabilities, TopNames
from pdl.vocabulary import Vocabulary
from pdl_graph.node_table import NODES
from pdl_graph.steps.nodes import NodeOrPair


class NodesAndPairs:
    """A run that knows the nodes most like a node and the probability of an edge between two.

    deployments  how it answers for a "node" and for a "pair", made on first use
    """

    def __init__(
        self,
        deployments: Mapping[str, Callable[[], Deployment]],
        vocabularies: Mapping[str, Vocabulary],
        top: Mapping[str, Any],
    ) -> None:
        query, names, probabilities = NodeOrPair(NODES), TopNames(**top), Probabilities()
        for each in (query, names, probabilities):
            each.bind(Resources(["edge"], vocabularies))
        self.pipeline = Pipeline({"query": [query]}, {"similarity": [names], "logit": [probabilities]})
        self._deployed = {kind: cache(make) for kind, make in deployments.items()}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Of nodes [n, 1] their similarity to all, of pairs [n, 2] the logit of an edge."""
        return self._deployed["pair" if inputs["query"].shape[1] == 2 else "node"]().run(inputs)
