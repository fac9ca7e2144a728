"""Several who train: what each sees of the others, and what is left of a server that was lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pdl.distributed.group import RankError
from pdl.distributed.tables.cache import HotRows
from pdl.distributed.tables.client import Here, ServerLost, TableClient
from pdl.distributed.tables.keys import Initial
from pdl.distributed.tables.server import Order, TableServer, stand_at
from pdl.distributed.tables.shard import TableSpec
from pdl.errors import DataError, UsageError

SPECS = [TableSpec("a", 4, Initial("normal", 0.0, 1.0), "Adagrad"), TableSpec("b", 1, Initial(), "SGD")]
TOGETHER = [replace(spec, family="a") for spec in SPECS]


def batch(step, worker):
    rng = np.random.default_rng([step, worker])
    return {
        spec.name: (keys := np.unique(rng.integers(0, 50, 20)), rng.normal(size=(len(keys), spec.columns)), 0.1)
        for spec in SPECS
    }


def learn(clients, steps):
    for step in steps:
        for client in clients:
            client.begin(step)
            for name, (keys, _, _) in batch(step, client.worker).items():
                client.rows(name, keys)
        for client in clients:
            client.push(batch(step, client.worker))
    for client in clients:
        client.settle()


def made(order, workers=2, servers=3, folder=None, specs=SPECS, **options):
    there = [TableServer(number, specs, workers, order, folder) for number in range(servers)]
    clients = [
        TableClient(specs, [Here(each) for each in there], worker=w, workers=workers, order=order, **options)
        for w in range(workers)
    ]
    for client in clients:
        client.start()
    return there, clients


def whole(client):
    return {name: client.whole(name, 50) for name in ("a", "b")}


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_sync_is_one_update_by_the_sum_of_all():
    _, (one, two) = made(Order("sync"))
    learn([one, two], range(6))
    _, (alone,) = made(Order("sync"), workers=1, servers=1)
    for step in range(6):
        parts = [batch(step, worker) for worker in range(2)]
        updates = {}
        for name in ("a", "b"):
            sums = {}
            for part in parts:
                for key, value in zip(part[name][0].tolist(), part[name][1].astype(np.float32), strict=True):
                    sums[key] = sums[key] + value if key in sums else value
            keys = np.array(sorted(sums))
            updates[name] = keys, np.stack([sums[key] for key in keys.tolist()]), 0.1
        alone.begin(step)
        alone.push(updates)
    assert same(whole(one), whole(alone))
    assert same(whole(two), whole(one))
    assert one.calls == 6 * 3 * 3  # of each server, a step: a call for each table's rows, and one push


@pytest.mark.parametrize("mode", ["sync", "async", "ssp", "geo"])
def test_tables_of_one_family_learn_what_they_learn_apart(mode, tmp_path):
    """Rows are made in all of them, and learn by what each table is told of its keys; snapshots hold the family."""
    _, apart = made(Order(mode, merge=4))
    learn(apart, range(8))
    _, clients = made(Order(mode, merge=4), folder=tmp_path, specs=TOGETHER)
    learn(clients, range(4))
    clients[0].snapshot("step-4")
    if mode != "geo":  # whose rows are partly in those who train
        _, clients = made(Order(mode, merge=4), folder=tmp_path, specs=TOGETHER)
    learn(clients, range(4, 8))
    assert same(whole(clients[0]), whole(apart[0]))
    stats = clients[0].stats()
    assert stats["a"]["rows"] == stats["b"]["rows"] == 50
    few = [replace(spec, rows_in_memory=4) for spec in TOGETHER]
    _, spilling = made(Order(mode, merge=4), folder=tmp_path / "few", specs=few)
    learn(spilling, range(8))
    assert same(whole(spilling[0]), whole(apart[0]))


def test_keys_of_a_family_are_looked_up_once():
    (server,), (client,) = made(Order("async"), workers=1, servers=1, specs=TOGETHER)
    family, counts = server.shards["a"].family, []
    assert server.shards["b"].family is family
    find = family.places.find
    family.places.find = lambda keys: counts.append(len(keys)) or find(keys)
    index = np.array([7, 3, 3, 9])
    client.prefetch({"a": (index, None), "b": (index.copy(), None)}, 0)
    client.prefetch({}, 1)
    updates = {}
    for name, spec in client.specs.items():
        keys, sums = np.empty(4, np.int64), np.empty((4, spec.columns), np.float32)
        client.read(name, index, np.empty_like(sums))
        client.combine(keys, sums, index, np.ones_like(sums))
        updates[name] = keys[:3], sums[:3], 0.5
    client.push(updates)
    assert counts == [3]
    assert client.whole("b", 10).ravel().tolist() == [0, 0, 0, -1, 0, 0, 0, -0.5, 0, -0.5]
    with pytest.raises(UsageError, match="a and b are looked up by the same keys, so admit must be the same"):
        TableServer(0, [TOGETHER[0], replace(TOGETHER[1], admit=2)], 1, Order())


def test_clocks_say_who_waits():
    keys = {"a": np.arange(5)}
    for order, clock, ready in (
        (Order("sync"), 0, True), (Order("sync"), 1, False), (Order("ssp", 2), 2, True), (Order("ssp", 2), 3, False),
        (Order("async"), 9, True), (Order("geo"), 9, True),
    ):  # fmt: skip
        server = TableServer(0, SPECS, 2, order)
        assert server.ready(clock) == ready
        server.push(0, 1, 0, batch(0, 0))
        assert server.ready(clock) == ready  # one of two
        server.push(1, 1, 0, batch(0, 1))
        assert server.ready(clock) or clock > 2
    with pytest.raises(RankError, match="rows of step 4 wait"):
        Here(server := TableServer(0, SPECS, 2, Order())).send("pull", 4, keys, True, None)
    assert server.clocks == [0, 0]


def test_pushes_count_once_and_in_their_order():
    one, other = (TableServer(0, SPECS, 1, Order("async")) for _ in range(2))
    for index in (1, 2, 3):
        one.push(0, index, index - 1, batch(index, 0))
    for index in (2, 1, 1, 3, 2):
        other.push(0, index, index - 1, batch(index, 0))
    for name in ("a", "b"):
        assert all(np.array_equal(x, y) for x, y in zip(one.items(name), other.items(name), strict=True))


def test_geo_merges_the_mean_of_what_each_has_learned():
    _, clients = made(Order("geo", merge=4))
    learn(clients, range(4))
    merged = whole(clients[0])
    alone = []
    for worker in range(2):
        _, (client,) = made(Order("geo", merge=4), workers=1)
        for step in range(4):
            client.begin(step)
            for name, (keys, _, _) in batch(step, worker).items():
                client.rows(name, keys)
            client.push(batch(step, worker))
        client.settle()
        alone.append(whole(client))
    for name, value in merged.items():
        start = SPECS[name == "b"].initial(np.arange(50), value.shape[1])
        assert np.allclose(value - start, sum(each[name] - start for each in alone) / 2, atol=1e-6)


def test_hot_rows_are_as_old_as_they_may_be():
    hot, keys = HotRows(64, 2), np.array([3, 70, 900])
    hot.put(keys, np.ones((3, 2), np.float32), 5)
    out = np.zeros((4, 2), np.float32)
    assert hot.fill(np.array([3, 4, 70, 900]), out, 5).tolist() == [True, False, True, True]
    assert out.sum() == 6
    assert not hot.fill(keys, out[:3], 6).any()
    _, (client,) = made(Order("ssp", staleness=3), workers=1, cache_rows=10**5)
    pulled = []
    for step in range(8):
        client.begin(step)
        client.rows("a", np.arange(10))
        client.push({name: (np.empty(0, np.int64), np.empty((0, s.columns)), 0.1) for name, s in client.specs.items()})
        pulled.append(client.pulled)
    assert pulled == [10, 10, 10, 10, 20, 20, 20, 20]


def test_rows_that_are_asked_for_before_are_those_of_the_step():
    _, (client,) = made(Order("async"), workers=1)
    client.begin(0)
    client.prefetch({"a": (np.arange(0, 30, 2), None)}, 1)
    client.begin(1)
    client.prefetch({"a": (np.arange(30, 40), None)}, 2)
    calls = client.calls
    index = np.array([4, 4, 7, -1, 28, 0])
    out = np.empty((6, 4), np.float32)
    client.read("a", index[[0, 1, 4, 5]], out[:4])
    assert client.calls == calls
    client.read("a", index, out, padding=0)
    rows = SPECS[0].initial(np.array([4, 4, 7, 7, 28, 0]), 4)
    rows[[3, 5]] = 0
    assert np.array_equal(out, rows)


class Mortal(Here):
    """A server that is lost at some calls, and back from its latest snapshot."""

    def __init__(self, make, dies):
        super().__init__(make())
        self.make, self.dies, self.count, self.lives = make, set(dies), 0, 0

    def receive(self, ticket):
        self.count += 1
        if self.count in self.dies:
            self.server, self.lives = self.make(), self.lives + 1
            raise ServerLost("killed")
        return str(self.lives), ticket


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_nothing_is_lost_with_a_server(mode, tmp_path):
    _, (plain,) = made(Order(mode), workers=1)
    learn([plain], range(20))
    make = [lambda n=n: TableServer(n, SPECS, 1, Order(mode), tmp_path) for n in range(3)]
    servers = [Mortal(make[0], ()), Mortal(make[1], (5, 6, 40)), Mortal(make[2], (17, 30))]
    said = []
    client = TableClient(SPECS, servers, order=Order(mode), replay_megabytes=0.002, notify=said.append)
    client.start()
    learn([client], range(20))
    assert [each.lives for each in servers] == [0, 3, 2]
    assert len(said) >= 4
    assert same(whole(client), whole(plain))
    assert (tmp_path / "server-1/latest.safetensors").is_file()


def test_a_snapshot_is_gone_on_from(tmp_path):
    _, (plain,) = made(Order(), workers=1)
    learn([plain], range(9))
    _, (client,) = made(Order(), workers=1, folder=tmp_path)
    learn([client], range(5))
    client.snapshot("step-5")
    learn([client], range(5, 7))
    client.snapshot("step-7")
    stand_at(tmp_path, 3, "step-5")
    _, (again,) = made(Order(), workers=1, folder=tmp_path)
    learn([again], range(5, 9))
    assert same(whole(again), whole(plain))
    with pytest.raises(DataError, match=r"step-6\.safetensors: not there"):
        stand_at(tmp_path, 3, "step-6")
    (tmp_path / "server-0/latest.safetensors").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="damaged"):
        made(Order(), workers=1, folder=tmp_path)


def test_a_server_without_snapshots_takes_its_rows_with_it():
    server = Mortal(lambda: TableServer(0, SPECS, 1, Order()), (3,))
    client = TableClient(SPECS, [server])
    with pytest.raises(RankError, match="its rows are gone"):
        learn([client], range(3))
