"""Calls of servers in other processes: the same rows as those of servers here, by shared memory or by the socket."""

from __future__ import annotations

import multiprocessing
import socket

import numpy as np
import pytest

from pdl.distributed.group import RankError
from pdl.distributed.tables.blocks import Blocks, Window
from pdl.distributed.tables.channel import Far, Service
from pdl.distributed.tables.client import ServerLost, TableClient
from pdl.distributed.tables.server import Order, TableServer
from pdl.errors import DataError, DtypeError
from tests.framework.distributed.tables.test_client import SPECS, batch, learn, made, same, whole

KEY = b"k" * 32


def serve(number, order, folder, pipe):
    server = TableServer(number, SPECS, 1, order, folder)
    service = Service(server, f"life of {multiprocessing.current_process().pid}", KEY, "127.0.0.1")
    pipe.send(service.address)
    pipe.recv()  # until it is killed


class Process:
    """A server in a process, started anew where it is asked for and gone."""

    def __init__(self, *arguments):
        self.arguments, self.running = arguments, None

    def __call__(self):
        if self.running is None or not self.running.is_alive():
            ours, theirs = multiprocessing.Pipe()
            self.running = multiprocessing.get_context("fork").Process(target=serve, args=(*self.arguments, theirs))
            self.running.daemon = True
            self.running.start()
            self.address, self.pipe = ours.recv(), ours
        return (*self.address, KEY)

    def kill(self):
        self.running.kill()
        self.running.join()
        self.pipe.close()


class Elsewhere(Blocks):
    """Memory that no server finds."""

    def __init__(self):
        super().__init__()
        self.proof = bytes(32)


@pytest.mark.parametrize("blocks", [Blocks, Elsewhere])
def test_servers_far_away_give_and_keep_what_servers_here_do(blocks, tmp_path):
    """One of them is killed on the way, and comes back from its latest snapshot."""
    order, memory = Order("async"), blocks()
    _, (plain,) = made(order, workers=1)
    processes = [Process(number, order, tmp_path) for number in range(3)]
    servers = [Far(each, memory, 60.0) for each in processes]
    said = []
    client = TableClient(SPECS, servers, order=order, replay_megabytes=0.002, notify=said.append)
    client.start()
    for steps in (range(7), range(7, 20)):
        learn([plain], steps)
        learn([client], steps)
        processes[1].kill()
    assert same(whole(client), whole(plain))
    assert client.stats() == plain.stats()
    assert client.pulled == plain.pulled
    assert len(said) == 2
    assert all(each._here == (blocks is Blocks) for each in servers)
    with pytest.raises(RankError, match="KeyError: 'c'"):
        client._call(client.lines[0], "items", "c")
    client.close()
    for each in processes:
        each.kill()


def single(worker):
    return {name: (keys, g.astype(np.float32), lr) for name, (keys, g, lr) in batch(0, worker).items()}


def test_rows_wait_for_those_who_must_have_pushed():
    """Two workers of one server, each with a thread of it."""
    server = TableServer(0, SPECS, 2, Order("sync"))
    service = Service(server, "one", KEY, "127.0.0.1")
    one, two = (Far(lambda: (*service.address, KEY), Blocks(), 20.0) for _ in range(2))
    keys, rows = np.arange(5), np.zeros((5, 4), np.float32)
    with pytest.raises(DtypeError, match="not float64"):
        one.send("push", 0, 1, 0, batch(0, 0), False)
    one.receive(one.send("push", 0, 1, 0, single(0), False))
    asked = one.send("pull", 1, {"a": keys}, True, {"a": rows})
    assert two.receive(two.send("applied", 1)) == ("one", 0)
    two.receive(two.send("push", 1, 1, 0, single(1), False))
    one.receive(asked)
    with pytest.raises(DataError, match="without a folder"):
        one.receive(one.send("snapshot", "step-1"))
    assert np.array_equal(rows, server.pull({"a": keys}, False)["a"])
    slow = Far(lambda: (*service.address, KEY), Blocks(), 0.2)
    with pytest.raises(RankError, match=r"no answer for 0\.2 s"):
        slow.receive(slow.send("pull", 9, {"a": keys}, True, {"a": rows}))
    for each in (one, two, slow):
        each.close()
    service.close()


def test_who_has_no_key_gets_no_answer():
    service = Service(TableServer(0, SPECS, 1, Order()), "one", KEY, "127.0.0.1")
    stranger = Far(lambda: (*service.address, b"guessed"), Blocks(), 20.0)
    with pytest.raises(ServerLost):
        stranger.receive(stranger.send("stats"))
    with socket.create_connection(service.address, timeout=20.0) as raw:
        raw.sendall(b"\xff" * 64)
        while raw.recv(1 << 10):
            pass  # it hangs up
    friend = Far(lambda: (*service.address, KEY), Blocks(), 20.0)
    assert friend.receive(friend.send("applied", 0)) == ("one", 0)
    friend.close()
    service.close()


def test_blocks_are_used_again_and_seen_by_others():
    blocks = Blocks()
    window = Window.open(blocks.path, blocks.proof)
    assert Window.open(blocks.path, bytes(32)) is None
    first = blocks.empty((300, 4), np.float32)
    first[...] = 3
    at = blocks.find(first)
    assert (window.array(at, (300, 4), np.dtype("<f4")) == 3).all()
    window.array(at + 1600, (4,), np.dtype("<f4"))[...] = 7
    assert (first[100] == 7).all()
    assert blocks.find(first[100:]) == at + 1600
    assert blocks.find(first[:, 1:]) is None
    assert blocks.find(np.zeros(3)) is None
    del first
    assert blocks.find(blocks.empty((301, 4), np.float32)) == at
    large = blocks.empty((1 << 23,), np.float32)  # more than a slab
    large[-1] = 5
    assert window.array(blocks.find(large), (1 << 23,), np.dtype("<f4"))[-1] == 5
    with pytest.raises(ValueError, match="outside"):
        window.array(1 << 40, (4,), np.dtype("<f4"))
