"""Batches of matching: what a query holds, what its item is told from, and that a resumed epoch goes on as it would
have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pdl.data import DataLoader
from pdl_rec.data.interactions import Interactions
from pdl_rec.matching.loader import Histories, Pairs, Queries, Reading
from pdl_rec.steps.words import spelled, trigrams

USERS, ITEMS = 4, 12
RNG = np.random.default_rng(0)
PAIRS = np.array([(u, i) for u in range(1, USERS + 1) for i in RNG.permutation(np.arange(1, ITEMS + 1))[: 3 + u]])
TRAIN = Interactions(PAIRS[:, 0], PAIRS[:, 1], None, RNG.permutation(len(PAIRS)) * 86400.0)
FIELDS = {"age": np.array([[0], [3], [1], [2], [1]])}
OWN = {u: set(PAIRS[PAIRS[:, 0] == u, 1].tolist()) for u in range(1, USERS + 1)}


def reading(*inputs: str, length: int = 4) -> Reading:
    return Reading(inputs, FIELDS, length)


def pairs(**options: Any) -> Pairs:
    settings: dict[str, Any] = {"others": "own", "k": 3, "alpha": 0.0, "log_draws": False, "before": "others"}
    read = options.pop("reading", reading("user", "history", "age", "example_age"))
    return Pairs(TRAIN, read, USERS, ITEMS, **{**settings, **options}, seed=1)


def by_time(user: int) -> list[int]:
    rows = np.flatnonzero(TRAIN.users == user)
    assert TRAIN.times is not None
    return TRAIN.items[rows[np.argsort(TRAIN.times[rows])]].tolist()


def test_a_query_holds_what_the_model_reads() -> None:
    rows = np.arange(len(TRAIN))
    batch = pairs().get_batch(rows)
    assert list(batch["query"]) == ["user", "history", "age", "example_age"]
    np.testing.assert_array_equal(batch["query"]["user"], TRAIN.users)
    np.testing.assert_array_equal(batch["query"]["age"], FIELDS["age"][TRAIN.users])
    assert TRAIN.times is not None
    age = (TRAIN.times.max() - TRAIN.times) / 86400
    np.testing.assert_allclose(batch["query"]["example_age"][:, 0], age)


@pytest.mark.parametrize("length", [2, 4, 20])
def test_a_history_never_holds_the_item_that_is_looked_for(length: int) -> None:
    read = reading("history", length=length)
    for epoch in range(3):
        data = pairs(reading=read)
        data.set_epoch(epoch)
        batch = data.get_batch(np.arange(len(TRAIN)))
        for user, item, row in zip(TRAIN.users, TRAIN.items, batch["query"]["history"], strict=True):
            rest = OWN[user] - {item}
            known = row[row > 0].tolist()
            assert len(known) == len(set(known)) == min(length, len(rest))
            assert set(known) <= rest
            assert (row[len(known) :] == 0).all()


def test_a_history_of_what_came_before_ends_before_the_item() -> None:
    batch = pairs(before="before", reading=reading("history", length=3)).get_batch(np.arange(len(TRAIN)))
    for user, item, row in zip(TRAIN.users, TRAIN.items, batch["query"]["history"], strict=True):
        ordered = by_time(user)
        assert row[row > 0].tolist() == ordered[: ordered.index(item)][-3:]


def test_no_other_of_a_query_is_one_that_its_user_has() -> None:
    rows = np.arange(len(TRAIN))
    own = pairs().get_batch(rows)["others"]
    assert own.shape == (len(TRAIN), 3)
    assert all(not set(row) & OWN[user] for row, user in zip(own.tolist(), TRAIN.users.tolist(), strict=True))
    shared = pairs(others="shared", k=50).get_batch(rows)
    assert shared["others"].shape == (50,)
    in_batch = pairs(others="in_batch").get_batch(rows)
    assert "others" not in in_batch
    every = pairs(others="all").get_batch(rows)
    for batch, items in ((shared, shared["others"]), (in_batch, TRAIN.items), (every, np.arange(ITEMS + 1))):
        expected = [
            [i in OWN[user] and not (batch is every and i == item) for i in items.tolist()]
            for user, item in zip(TRAIN.users.tolist(), TRAIN.items.tolist(), strict=True)
        ]
        np.testing.assert_array_equal(batch["known"], expected)


def test_log_draws_say_how_often_an_item_is_drawn() -> None:
    counts = np.bincount(TRAIN.items, minlength=ITEMS + 1)
    shares = np.sqrt(counts) / np.sqrt(counts).sum()
    batch = pairs(others="shared", k=6, alpha=0.5, log_draws=True).get_batch(np.arange(5))
    np.testing.assert_allclose(batch["log_draws"], np.log(6 * shares[batch["others"]]), rtol=1e-5)
    batch = pairs(others="in_batch", log_draws=True).get_batch(np.arange(5))
    expected = np.log(4 * counts[TRAIN.items[:5]] / counts.sum())  # of the other queries
    np.testing.assert_allclose(batch["log_draws"], expected, rtol=1e-5)


@pytest.mark.parametrize("others", ["own", "shared", "in_batch", "all"])
def test_a_resumed_epoch_goes_on_with_the_same_batches(others: str) -> None:
    def batches(loader: DataLoader) -> list[list[np.ndarray]]:
        return [[*batch["query"].values(), *(batch[n] for n in batch if n != "query")] for batch in loader]

    def loader(workers: int) -> DataLoader:
        return DataLoader(pairs(others=others), batch_size=5, shuffle=True, seed=3, workers=workers)

    whole, broken = loader(0), loader(1)
    first, second = batches(whole), batches(whole)
    assert any(not np.array_equal(a, b) for a, b in zip(first[0], second[0], strict=True))
    broken.set_epoch(1)
    waiting = iter(broken)
    next(waiting)
    state = broken.state_dict()
    waiting.close()  # type: ignore[attr-defined]
    resumed = loader(1)
    resumed.load_state_dict(state)
    for mine, its in zip(batches(resumed), second[1:], strict=True):
        for a, b in zip(mine, its, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_evaluation_asks_for_each_user_with_all_that_is_relevant() -> None:
    new = {user: min(set(range(1, ITEMS + 1)) - OWN[user]) for user in OWN}
    had = min(OWN[4])  # of user 4, who has nothing else in this split
    held = Interactions(np.array([1, 1, 1, 1, 3, 0, 2, 4]), np.array([0, new[1], new[1], 0, 0, 2, new[2], had]))
    held = replace(held, known=TRAIN)
    expected = {1: [0, 0, new[1]], 2: [new[2]], 3: [0]}
    queries = Queries(held, reading("user", "history"), USERS, ITEMS, repeat=False)
    assert queries.users.tolist() == [1, 2, 3], "user 0 is nobody, and user 4 has nothing new"
    batch = queries.get_batch(np.arange(len(queries)))
    for row, user in enumerate(queries.users.tolist()):
        assert batch["relevant"][row].tolist() == expected[user]
        assert set(batch["excluded"][row].tolist()) == OWN[user]
        assert batch["query"]["history"][row][:4].tolist() == by_time(user)[-4:]
    again = Queries(held, reading("user"), USERS, ITEMS, repeat=True)
    assert again.users.tolist() == [1, 2, 3, 4]
    assert again.get_batch(np.arange(3))["excluded"] is None
    cold = Queries(held, reading("history"), USERS, ITEMS, repeat=False)
    assert cold.users.tolist() == [0, 1, 2, 3], "a model of histories answers whom it does not know"


def test_histories_of_nothing_are_empty() -> None:
    empty = Histories.of(None, 3)
    assert empty.newest(np.array([0, 2]), 2).tolist() == [[0, 0], [0, 0]]


def test_words_become_their_trigrams() -> None:
    table = trigrams(["web", "we", "Web"], 1000)
    assert table.shape == (4, 3)
    assert (table[0] == 0).all()
    assert set(table[1]) == set(table[3]), "case does not count"
    assert len(set(table[1]) & set(table[2])) == 1, "both have #we"
    both = spelled(np.array([[1, 2], [2, 0], [0, 0]]), table)
    assert both.shape == (3, 5)
    assert (both[0] > 0).all()
    assert both[1].tolist() == [*table[2][table[2] > 0].tolist(), 0, 0, 0]
