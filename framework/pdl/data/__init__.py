"""Data sets, samplers, the loader, transforms, and checks before training.

`pdl.data.transforms` and `pdl.data.image` need OpenCV and are loaded when named.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pdl.data.buckets import BucketBatchSampler, bucket_sizes
from pdl.data.by_class import ByClass
from pdl.data.checks import check
from pdl.data.collating import collate
from pdl.data.dataset import (
    ArrayDataset,
    Batch,
    ConcatDataset,
    Dataset,
    Few,
    IterableDataset,
    Sample,
    StandIn,
    Subset,
    TupleDataset,
    as_dataset,
    digest,
    sample_name,
)
from pdl.data.faults import DataFault, Fault, fault
from pdl.data.folding import Fold
from pdl.data.loader import DataLoader
from pdl.data.pipeline import Compose, Pipeline, Transform
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.data.sampler import (
    BatchSampler,
    ClassBatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    WeightedSampler,
    labels_of,
)
from pdl.data.shards import Shards, write_counts
from pdl.data.shuffling import ShardSampler
from pdl.data.splits import check_ratios, stable_split, stratified_split
from pdl.data.store import cached_arrays, data_root, file_hash, find, to_get, under_roots
from pdl.habits import missing_from

if TYPE_CHECKING:
    from pdl.data import image, transforms  # noqa: F401 - loaded when named

__all__ = [
    "ArrayDataset", "Batch", "BatchRandom", "BatchSampler", "BucketBatchSampler", "ByClass", "ClassBatchSampler",
    "Compose", "ConcatDataset", "DataFault", "DataLoader", "Dataset", "Fault", "Few", "Fold", "IterableDataset",
    "Pipeline", "RandomSampler", "Sample", "SampleRandom", "Sampler", "SequentialSampler", "ShardSampler", "Shards",
    "StandIn", "Subset", "Transform", "TupleDataset", "WeightedSampler", "as_dataset", "bucket_sizes", "cached_arrays",
    "check", "check_ratios", "collate", "data_root", "digest", "fault", "file_hash", "find", "labels_of", "sample_name",
    "stable_split", "stratified_split", "to_get", "under_roots", "write_counts",
]


if not TYPE_CHECKING:
    _missing = missing_from(__name__)

    def __getattr__(name: str) -> Any:
        if name in ("transforms", "image"):
            return importlib.import_module(f"pdl.data.{name}")
        return _missing(name)
