"""A recipe's training step as a program, without training: for `pdl graph` and `pdl info`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from pdl import random
from pdl.config import Config
from pdl.errors import DataError, TraceError
from pdl.hub.pretrained import deferred
from pdl.nn import Module
from pdl.ops.cost import multiply_adds
from pdl.ops.precision import autocast
from pdl.program import CompiledStep, Program, trace, verify
from pdl.program.passes import FORWARD, run_passes
from pdl.train.assembly import assemble
from pdl.train.freeze import Frozen
from pdl.train.recipe import Recipe
from pdl.train.task import Loss, Task


class TracedRecipe:
    """The model of a recipe (fresh weights) and the first batch of its training data.

    task    makes the task of the recipe: `Run.task` one that knows the names which a run has learned
    """

    def __init__(self, config: Config, task: Callable[[Recipe], Task] | None = None) -> None:
        recipe = Recipe(config)
        self.settings = recipe.settings
        self.task: Task = recipe.task.build() if task is None else task(recipe)
        with random.fork_seed(self.settings.seed):
            with deferred():
                parts = assemble(self.task, recipe, seed=self.settings.seed, splits=("train",))
            self.model: Module = parts.model
            self.batch: Any = next(iter(parts.loaders["train"]), None)
        if self.batch is None:
            raise DataError("data.train: there is no batch, so there is no shape to make a program for")
        Frozen(self.model, self.settings.freeze).train()

    def loss(self, batch: Any) -> Loss:
        """The training loss, in the recipe's precision."""
        with autocast() if self.settings.precision == "bf16" else nullcontext():
            return self.task.step(self.model, batch)

    def forward(self) -> Program:
        """Model and loss, without gradients; TraceError where the code cannot be traced."""
        name = type(self.model).__name__
        return run_passes(verify(trace(self.loss, self.batch, name=name, modules=[self.model])), FORWARD)

    def step(self) -> Any:
        """The compiled step: forward, loss and gradients; TraceError where the code cannot be traced."""
        compiled = CompiledStep(self.loss, self.model, name=type(self.model).__name__)
        made = compiled.program_for(self.batch)
        if made is None:
            assert compiled.stopped is not None
            raise compiled.stopped
        return made


def flops(program: Program) -> int:
    """Operations of the products in a program, two for each multiply-add."""
    return 2 * sum(
        multiply_adds(n.op, tuple(v and v.spec for v in n.inputs), tuple(v.spec for v in n.outputs))
        for n in program.nodes
    )


def step_facts(config: Config, task: Callable[[Recipe], Task] | None = None) -> dict[str, Any]:
    """Parameters, operations and planned memory of a recipe's training step, as plain values.

    arena_bytes      the program's one block: activations, gradients, the batch
    parameter_bytes  the weights
    peak_bytes       the block and all tensors that the program reads (weights, running statistics), without the
                     optimiser's state
    """
    recipe = TracedRecipe(config, task)
    facts: dict[str, Any] = {"parameters": sum(p.size for p in recipe.model.parameters())}
    try:
        made = recipe.step()
    except TraceError as error:
        return facts | {"program": f"none, the step runs in eager mode: {error}"}
    executable = made.executable
    program = executable.program
    return facts | {
        "batch": [[*v.spec.shape] for v in program.inputs],
        "nodes": len(program.nodes),
        "flops": flops(program),
        "arena_bytes": executable.plan.arena_bytes,
        "parameter_bytes": sum(p._data.nbytes for p in recipe.model.parameters()),
        "peak_bytes": executable.peak_bytes,
    }
