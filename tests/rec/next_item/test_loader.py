"""Loaders against slow loops that say what they must give."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.data import DataLoader
from pdl.data.negatives import Negatives
from pdl.errors import ConfigError, UsageError
from pdl.train.recipe import Data
from pdl_rec.next_item.loader import (
    ByLength,
    Prefixes,
    SessionParallel,
    Stretches,
    WithNegatives,
    loader_of,
    sizes_up_to,
)
from tests.rec.next_item.made import sessions

ROWS = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=14)


def slow_parallel(rows: list[list[int]], slots: int) -> list[list[tuple[int, int, bool]]]:
    """The session-parallel batches of Hidasi et al., slot by slot: (item, next item, does the session begin)."""
    waiting = [row for row in rows if len(row) > 1]
    slot: list[list[int]] = [[] for _ in range(slots)]
    begins = [False] * slots
    steps: list[list[tuple[int, int, bool]]] = []
    while True:
        for k in range(slots):
            begins[k] = len(slot[k]) < 2 and bool(waiting)
            if begins[k]:
                slot[k] = waiting.pop(0)
        if all(len(held) < 2 for held in slot):
            return steps
        steps.append([(h[0], h[1], b) if len(h) > 1 else (0, 0, False) for h, b in zip(slot, begins, strict=True)])
        slot = [held[1:] for held in slot]


@given(ROWS, st.integers(1, 6))
def test_parallel_sessions_are_those_of_the_slow_loop(rows: list[list[int]], slots: int) -> None:
    loader = SessionParallel(sessions(*rows, times=True), slots, order="time")
    steps = [list(zip(*(b[name].tolist() for name in ("items", "targets", "reset")), strict=True)) for b in loader]
    assert steps == slow_parallel(rows[::-1], slots)  # the last begins first


@given(ROWS, st.integers(2, 6), st.integers(2, 3), st.integers(0, 4))
def test_processes_have_their_places_of_parallel_sessions(
    rows: list[list[int]], slots: int, world: int, taken: int
) -> None:
    world = min(world, slots)
    shared = [SessionParallel(sessions(*rows), slots, seed=3) for _ in range(world)]
    for rank, loader in enumerate(shared):
        loader.share(rank, world)
    alone = SessionParallel(sessions(*rows), slots, seed=3)
    for whole, *parts in zip(alone, *shared, strict=True):
        for rank, part in enumerate(parts):
            assert part["places"].tolist() == list(range(rank, slots, world))
            assert all((part[k] == whole[k][part["places"]]).all() for k in ("items", "targets", "reset"))
            assert part["filled"] == whole["filled"] == np.float32(np.mean(whole["targets"] > 0))
    shared[0].set_epoch(0)
    states = [shared[0].state_dict() for _ in islice(shared[0], taken)]
    alone.load_state_dict(states[-1] if states else shared[0].state_dict())  # gone on with by one process
    assert len(list(alone)) == max(0, len(shared[0]) - taken)


@given(ROWS, st.integers(1, 6), st.integers(0, 3))
def test_an_epoch_of_parallel_sessions_has_each_pair_once(rows: list[list[int]], slots: int, epoch: int) -> None:
    loader = SessionParallel(sessions(*rows), slots, seed=3)
    loader.set_epoch(epoch)
    batches = list(loader)
    pairs = Counter((i, t) for b in batches for i, t in zip(b["items"].tolist(), b["targets"].tolist(), strict=True))
    pairs.pop((0, 0), None)
    assert pairs == Counter(pair for row in rows for pair in pairwise(row))
    assert sum(int(b["reset"].sum()) for b in batches) == sum(len(row) > 1 for row in rows)


def test_order_of_epochs() -> None:
    held = sessions(*([k, k] for k in range(1, 30)))
    loader = SessionParallel(held, 4, seed=1)
    first, second = ([b["items"].tolist() for b in loader] for _ in range(2))
    assert first != second
    loader.set_epoch(0)
    assert [b["items"].tolist() for b in loader] == first
    assert len(first) == len(loader) == 8
    with pytest.raises(ConfigError, match="no times"):
        SessionParallel(held, 4, order="time")


def many(seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return sessions(*(rng.integers(1, 50, rng.integers(1, 12)).tolist() for _ in range(60)))


HERE, LOADED = Data({"batch_size": 8}), Data({"batch_size": 8, "workers": 2})


def loaders(kind: str) -> Any:
    made = {
        "parallel": lambda: SessionParallel(many(), 4, seed=5),
        "pairs": lambda: loader_of(Prefixes(many(), 5, sizes=[2, 5]), LOADED, training=True, seed=5),
        "sequences": lambda: loader_of(Stretches(many(), 5, sizes=[2, 5]), HERE, training=True, seed=5),
        "negatives": lambda: WithNegatives(SessionParallel(many(), 4, seed=5), Negatives(49, seed=5), 7),
        "negatives of pairs": lambda: WithNegatives(
            loader_of(Prefixes(many(), 5), LOADED, training=True, seed=5), Negatives(49, seed=5), 7
        ),
    }
    return made[kind]()


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(
        x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x) for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("kind", ["parallel", "pairs", "sequences", "negatives", "negatives of pairs"])
@pytest.mark.parametrize("taken", [0, 1, 7])
def test_a_loader_goes_on_where_it_stood(kind: str, taken: int) -> None:
    whole, cut, other = loaders(kind), loaders(kind), loaders(kind)
    for each in (whole, cut):
        each.set_epoch(2)
    batches, seen = list(whole), []
    for batch in islice(cut, taken):
        seen.append(batch)
        state = cut.state_dict()
    if taken:
        other.load_state_dict(state)
    other.set_epoch(2)
    assert same(seen, batches[:taken])
    assert same(list(other), batches[taken:])


def test_a_position_of_other_sessions_is_refused() -> None:
    state = SessionParallel(many(), 4).state_dict()
    with pytest.raises(UsageError, match="slots=4, this loader has slots=5"):
        SessionParallel(many(), 5).load_state_dict(state)


@given(ROWS, st.integers(1, 5), st.booleans())
def test_prefixes(rows: list[list[int]], longest: int, sized: bool) -> None:
    sizes = sizes_up_to(longest) if sized else None
    data = Prefixes(sessions(*rows), longest, sizes=sizes)
    expected = [(row[max(0, k - longest) : k], row[k]) for row in rows for k in range(1, len(row))]
    assert len(data) == len(expected)
    for i, (prefix, target) in enumerate(expected):
        sample = data[i]
        found = sample["items"].tolist()
        assert found[: len(prefix)] == prefix
        assert not any(found[len(prefix) :])
        assert sample["target"] == target
        assert len(found) == min(s for s in sizes or [len(prefix)] if s >= len(prefix))


@given(ROWS, st.integers(1, 5))
def test_stretches_have_each_pair_once(rows: list[list[int]], longest: int) -> None:
    data = Stretches(sessions(*rows), longest)
    pairs: Counter[tuple[int, int]] = Counter()
    for i in range(len(data)):
        sample = data[i]
        assert 1 <= len(sample["items"]) <= longest
        assert sample["items"][1:].tolist() == sample["targets"][:-1].tolist()
        pairs.update(zip(sample["items"].tolist(), sample["targets"].tolist(), strict=True))
    assert pairs == Counter(pair for row in rows for pair in pairwise(row))


@given(ROWS, st.integers(1, 5), st.integers(0, 2))
def test_batches_by_length_are_full_and_of_few_shapes(rows: list[list[int]], size: int, epoch: int) -> None:
    data = Prefixes(sessions(*rows, [1, 2]), 8, sizes=sizes_up_to(8))
    sampler = ByLength(data, size, shuffle=True, seed=2)
    batches = sampler.batches(epoch)
    assert len(batches) == len(sampler)
    assert all(len(b) == size for b in batches)
    assert sorted(i for b in batches for i in b.tolist() if i >= 0) == list(range(len(data)))
    shapes = {data.get_batch(b)["items"].shape for b in batches}
    assert shapes <= {(size, 2), (size, 4), (size, 8)}
    for batch in batches:
        made = data.get_batch(batch)
        assert ((made["target"] == 0) == (batch < 0)).all()
        assert (made["items"][:, 0] > 0).all()


def test_evaluation_goes_from_short_to_long_and_names_its_samples() -> None:
    data = Prefixes(sessions([1, 2, 3, 4], [5, 6], [7, 8]), 9)
    batches = list(DataLoader(data, sampler=ByLength(data, 2, shuffle=False)))
    assert [b["index"].tolist() for b in batches] == [[0, 3], [4, 1], [2]]
    assert batches[1]["items"].tolist() == [[7, 0], [1, 2]]
    assert batches[1]["target"].tolist() == [8, 3]


def test_negatives_differ_from_batch_to_batch_and_epoch_to_epoch() -> None:
    loader = WithNegatives(SessionParallel(many(), 4), Negatives(49, seed=1), 30)
    drawn = [tuple(batch["negatives"].tolist()) for _ in range(2) for batch in loader]
    assert len(set(drawn)) == len(drawn)
    assert {item for row in drawn for item in row} == set(range(1, 50))


def test_processes_share_samples_and_have_the_same_negatives() -> None:
    whole, *parts = (loaders("negatives of pairs") for _ in range(3))
    for rank, part in enumerate(parts):
        part.share(rank, 2)
    for batch, *shares in zip(whole, *parts, strict=True):
        targets = np.zeros_like(batch["target"])
        for rank, share in enumerate(shares):
            assert np.array_equal(share["negatives"], batch["negatives"])
            targets[rank::2] = share["target"]
        assert np.array_equal(targets, batch["target"])
    with pytest.raises(UsageError, match="4 sessions side by side cannot be shared among 5"):
        loaders("negatives").share(0, 5)


@pytest.mark.parametrize("longest", [1, 2, 3, 8, 50, 200, 1000])
def test_sizes_are_few_and_reach_the_longest(longest: int) -> None:
    sizes = sizes_up_to(longest)
    assert len(sizes) <= 7
    assert sizes[-1] == longest
    assert sizes == sorted(set(sizes))
