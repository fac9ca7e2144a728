"""Batches of so many samples from each of some classes."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.data import ClassBatchSampler
from pdl.errors import UsageError

LABELS = np.repeat(np.arange(7), [2, 3, 4, 5, 6, 2, 20])


def test_every_batch_has_as_many_of_each_class() -> None:
    sampler = ClassBatchSampler(LABELS, classes=3, samples=2, seed=1)
    batches = sampler.batches(0)
    assert len(batches) == len(sampler) == len(LABELS) // 6
    for batch in batches:
        own = LABELS[batch].reshape(3, 2)
        assert (own == own[:, :1]).all()
        assert len(set(own[:, 0])) == 3
        assert len(set(batch.tolist())) == 6
    turns = np.bincount(np.concatenate([LABELS[b][::2] for b in batches]))
    assert turns.max() - turns.min() <= 1  # classes come equally often
    seen = np.concatenate(batches)
    of_three = seen[LABELS[seen] == 3]
    assert len(set(of_three.tolist())) == min(len(of_three), 5)  # all of a class before one comes again
    np.testing.assert_array_equal(np.stack(batches), np.stack(sampler.batches(0)))
    assert (np.stack(batches) != np.stack(sampler.batches(1))).any()


@pytest.mark.parametrize(("classes", "samples"), [(8, 2), (3, 3)])
def test_what_the_data_cannot_give(classes: int, samples: int) -> None:
    with pytest.raises(UsageError, match="there are 7 classes, the smallest with 2 samples"):
        ClassBatchSampler(LABELS, classes=classes, samples=samples)
