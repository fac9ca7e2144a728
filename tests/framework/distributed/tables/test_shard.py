"""Rows by key: made when touched, updated as those of a dense table, admitted, forgotten, in a file, kept."""

from __future__ import annotations

import numpy as np
import pytest

from pdl import optim
from pdl.distributed.tables.growing import Growing
from pdl.distributed.tables.keys import Dealt, Initial, Places
from pdl.distributed.tables.shard import OPTIMIZERS, Shard, TableSpec
from pdl.distributed.tables.table import LocalTable
from pdl.errors import ShapeError, UsageError
from pdl.kernels import keys as kernels
from pdl.ops.sparse import SparseGrad
from pdl.tensor import Tensor

NORMAL = Initial("normal", 1.0, 0.5, seed=3)


def test_places_are_those_of_a_dict():
    rng, places, known = np.random.default_rng(0), Places(4), {}
    for _ in range(30):
        keys = np.unique(rng.integers(0, 2**62, 300) >> rng.integers(0, 55))
        new = keys[places.find(keys) < 0]
        places.put(new, new + 5)
        known.update(zip(new.tolist(), (new + 5).tolist(), strict=True))
        gone = rng.choice(list(known), len(known) // 4, replace=False)
        places.drop(gone)
        for key in gone.tolist():
            del known[key]
        assert places.find(keys).tolist() == [known.get(key, -1) for key in keys.tolist()]
    held = dict(zip(*(array.tolist() for array in places.items()), strict=True))
    assert held == known
    assert places.count == len(known)


def test_a_table_of_places_grows_where_it_lies():
    """Full enough that keys are pushed on, around the end too; each is found without crossing a free slot."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        before = int(rng.integers(2, 40))
        size = before * int(rng.integers(1, 4))
        slots, keys = np.zeros((size, 2), np.int64), rng.choice(10_000, int(rng.integers(1, before)), replace=False)
        kernels.put(slots[:before], keys, keys + 1, 1)
        gone = keys[: len(keys) // 3]
        assert kernels.drop(slots[:before], gone, 1) == len(gone)
        kernels.grow(slots, before, 1)
        places = np.empty_like(keys)
        kernels.find(places, slots, keys, 1)
        assert places.tolist() == [-1] * len(gone) + (keys[len(gone) :] + 1).tolist()
        assert np.count_nonzero(slots[:, 0]) == len(keys) - len(gone)
    with pytest.raises(ShapeError, match="16 slots cannot have been 17"):
        kernels.grow(np.zeros((16, 2), np.int64), 17, 1)


@pytest.mark.parametrize("viewed", [False, True])
def test_arrays_grow_and_keep_what_they_have(viewed):
    growing = Growing((3,), np.float32, 5)
    growing.array[...] = 1
    held, moved = [], 0
    for rows in (8, 90_000, 200_000, 500_000):
        before = len(growing.array)
        at = growing.array.__array_interface__["data"][0]
        held += [growing.array[:1]] if viewed else []
        growing.grow(rows)
        moved += at != growing.array.__array_interface__["data"][0]
        assert growing.array.shape == (rows, 3)
        assert growing.array[:before].min() == 1
        assert not growing.array[before:].any()
        growing.array[before:] = 1
    assert moved or not viewed, "a view would see what it does not know"
    assert all(view.tolist() == [[1, 1, 1]] for view in held)


def test_sums_by_place():
    rng = np.random.default_rng(0)
    for columns, rows, n in ((1, 5, 40), (16, 300, 900), (7, 3, 5000), (3, 4, 0)):
        back, g = rng.integers(-1, rows, n), rng.normal(size=(n, columns)).astype(np.float32)
        values, expected = np.full((rows, columns), np.nan, np.float32), np.zeros((rows, columns), np.float32)
        kernels.sum(values, back, g)
        np.add.at(expected, back[back >= 0], g[back >= 0])
        assert np.array_equal(values, expected)
    with pytest.raises(ShapeError, match="place 4 is outside the 4 rows"):
        kernels.sum(np.empty((4, 1), np.float32), np.array([0, 4]), np.ones((2, 1), np.float32))


def test_rows_begin_alike_whoever_makes_them_and_as_they_are_said_to():
    keys = np.arange(20_000)
    values = NORMAL(keys, 8)
    assert np.array_equal(NORMAL(keys[::-7], 8), values[::-7])
    assert abs(values.mean() - 1) < 0.01
    assert abs(values.std() - 0.5) < 0.01
    assert abs(np.corrcoef(values.T) - np.eye(8)).max() < 0.03
    uniform = Initial("uniform", -2.0, 1.0, zero=4)(keys, 3)
    assert -2 <= uniform.min() < -1.99
    assert 0.99 < uniform.max() <= 1
    assert not uniform[4].any()


def test_keys_are_dealt_out_to_servers_each_once():
    rng = np.random.default_rng(0)
    for high, padding in ((300, 7), (2**62, None)):
        index = rng.integers(-high // 10, high, 5000)
        dealt = Dealt(index, 3, padding)
        named = (index >= 0) & (index != (-1 if padding is None else padding))
        assert np.array_equal(dealt.back >= 0, named)
        assert np.array_equal(dealt.keys[dealt.back[named]], index[named])
        assert np.array_equal(dealt.ordered, np.unique(index[named]))
        again = Dealt(rng.permutation(dealt.keys), 3)  # a key's server hangs on the key alone
        assert dealt.starts == again.starts
        assert all((np.diff(dealt.keys[dealt.of(server)]) > 0).all() for server in range(3))
        assert min(np.diff(dealt.starts)) > 0.25 * len(dealt.keys)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_those_of_a_whole_table(name):
    """While it grows, in another order of rows, with the state of each optimiser."""
    options = {"SGD": {"momentum": 0.9}, "Adagrad": {"initial_accumulator_value": 0.1}, "RMSprop": {"momentum": 0.5}}
    rng, more = np.random.default_rng(1), options.get(name, {})
    whole = Tensor(NORMAL(np.arange(400), 4), requires_grad=True)
    reference = getattr(optim, name)([whole], lr=0.1, weight_decay=0.01, **more)
    group = {key: value for key, value in reference.param_groups[0].items() if key not in ("names", "params")}
    shard = Shard(TableSpec("t", 4, NORMAL, name, group))
    for step in range(12):
        keys = np.unique(rng.integers(0, 400, 60))
        gradients = rng.normal(size=(len(keys), 4)).astype(np.float32)
        assert np.array_equal(shard.pull(keys), whole.data[keys])
        lr = reference.param_groups[0]["lr"] = 0.1 / (1 + step)
        shard.push(keys, gradients, lr)
        whole.grad = SparseGrad((400, 4), Tensor(keys), Tensor(gradients))
        reference.step()
    found, values = shard.items()
    assert shard.family.rows == len(found)
    assert np.array_equal(values, whole.data[found])


def test_rows_are_admitted_when_they_come_again():
    shard, keys = Shard(TableSpec("t", 2, NORMAL, "SGD", admit=3)), np.arange(5)
    for _ in range(2):
        shard.pull(keys)
        shard.push(keys, np.ones((5, 2), np.float32), 1.0)
    assert shard.family.rows == 0
    assert shard.dropped == 10
    shard.pull(keys[:2])
    shard.push(keys, np.ones((5, 2), np.float32), 1.0)
    assert shard.family.rows == 2
    assert np.array_equal(shard.pull(keys, touch=False)[:2], NORMAL(keys[:2], 2) - 1)


def test_rows_that_nobody_touches_begin_anew():
    shard, keys = (
        Shard(TableSpec("t", 2, NORMAL, "Adagrad", {"initial_accumulator_value": 0.5}, forget=8)),
        np.arange(6),
    )
    shard.push(keys, np.ones((6, 2), np.float32), 1.0)
    for _ in range(12):
        shard.push(keys[:3], np.ones((3, 2), np.float32), 1.0)
    assert shard.family.rows == 3
    assert np.array_equal(shard.pull(keys)[3:], NORMAL(keys[3:], 2))
    assert (shard.state["sum"][shard.family.places.find(keys[3:])] == 0.5).all()


def test_cold_rows_are_in_a_file_and_nothing_else_is_different(tmp_path):
    rng = np.random.default_rng(2)
    near = Shard(TableSpec("t", 4, NORMAL, "Adam"))
    far = Shard(TableSpec("t", 4, NORMAL, "Adam", rows_in_memory=100), tmp_path / "rows")
    for _ in range(40):
        keys = np.unique(rng.zipf(1.3, 50) % 3000)
        gradients = rng.normal(size=(len(keys), 4)).astype(np.float32)
        assert np.array_equal(far.pull(keys), near.pull(keys))
        near.push(keys, gradients, 0.1)
        far.push(keys, gradients, 0.1)
        assert far.family.places.count <= 100
    assert far.family.rows == near.family.rows > 300
    again = Shard(TableSpec("t", 4, NORMAL, "Adam", rows_in_memory=50), tmp_path / "again")
    again.family.load_state_dict(far.family.state_dict())
    keys = np.sort(near.items()[0])[::40]
    for shard in (near, again):
        shard.push(keys, np.ones((len(keys), 4), np.float32), 0.1)
    assert np.array_equal(again.pull(keys), near.pull(keys))
    assert not list(tmp_path.iterdir())


def test_a_table_of_a_billion_rows_costs_what_is_touched():
    table = LocalTable(8, optimizer="Adagrad", options={"lr": 0.1, "rowwise": True})
    keys = np.random.default_rng(0).integers(0, 10**9, 20_000)
    before = table.pull(keys)
    table.push(keys, np.ones((len(keys), 8), np.float32))
    assert table.rows == len(np.unique(keys))
    assert table.bytes < 20_000 * 300
    assert np.allclose(table.pull(keys) - before, -0.1, atol=1e-5)


def test_what_is_wrong_is_said():
    with pytest.raises(UsageError, match="LAMB is no optimiser of rows"):
        TableSpec("t", 4, optimizer="LAMB")
    with pytest.raises(ShapeError, match="integers from 0 on"):
        LocalTable(4).pull([3, -1])
    adam = Shard(TableSpec("t", 4, optimizer="Adam"))
    adam.pull(np.arange(3))
    with pytest.raises(UsageError, match="12 numbers a row, not 4"):
        Shard(TableSpec("t", 4)).family.load_state_dict(adam.family.state_dict())
