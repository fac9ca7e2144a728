"""Table servers as Ray actors (Moritz et al., arXiv 1712.05889).

Ray's messages are pickles: whoever may speak to a cluster runs code on it. A cluster that is started here asks for a
token of its own, drawn at the start, which other processes of the job get over MPI. Of one that RAY_ADDRESS names Ray's
own rules hold: a network of its own, and Ray's token authentication (RAY_AUTH_MODE=token). Tokens do not encrypt.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdl.distributed.group import RankError
from pdl.distributed.tables.client import ServerLost
from pdl.distributed.tables.server import Order, TableServer
from pdl.distributed.tables.shard import TableSpec
from pdl.errors import UsageError

NAMESPACE = "pdl-tables"


class TableActor:
    """A `TableServer` behind calls that may wait, each answered with when this server was born."""

    def __init__(
        self,
        number: int,
        specs: Sequence[Mapping[str, Any]],
        workers: int,
        order: Mapping[str, Any],
        folder: str | None,
    ) -> None:
        place = None if folder is None else Path(folder)
        self.server = TableServer(number, [TableSpec.of(each) for each in specs], workers, Order(**order), place)
        self.born = secrets.token_hex(8)
        self._news = asyncio.Event()

    async def pull(self, clock: int, wanted: Mapping[str, Any], touch: bool) -> tuple[str, Any]:
        """Rows, once the pushes are in that they must have."""
        while touch and not self.server.ready(clock):
            await self._news.wait()
        return self.born, self.server.pull(wanted, touch)

    async def push(self, *arguments: Any) -> tuple[str, Any]:
        """`TableServer.push`."""
        saved = self.server.push(*arguments)
        self._news.set()
        self._news = asyncio.Event()
        return self.born, saved

    async def other(self, name: str, *arguments: Any) -> tuple[str, Any]:
        """Any other call of a server."""
        calls = {each: getattr(self.server, each) for each in ("applied", "saved", "items", "stats", "snapshot")}
        return self.born, calls[name](*arguments)

    async def process(self) -> int:
        """Its number."""
        return os.getpid()


class RayServer:
    """One of them, as a client calls it."""

    def __init__(self, handle: Any, timeout: float) -> None:
        self.handle, self.timeout = handle, timeout

    def send(self, name: str, *arguments: Any) -> Any:
        """The reference of the answer."""
        if name in ("pull", "push"):
            return getattr(self.handle, name).remote(*arguments)
        return self.handle.other.remote(name, *arguments)

    def receive(self, ticket: Any) -> tuple[str, Any]:
        """The answer."""
        import ray

        try:
            born, answer = ray.get(ticket, timeout=self.timeout)
        except ray.exceptions.ActorDiedError as error:  # for good: it could not be made anew
            raise RankError(f"tables: a server is lost: {error}") from error
        except ray.exceptions.RayActorError as error:
            raise ServerLost(str(error).splitlines()[0]) from error
        except ray.exceptions.GetTimeoutError as error:
            raise RankError(
                f"tables: no answer for {self.timeout:g} s; a server hangs, or rows wait for a worker that has gone"
            ) from error
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        return str(born), answer


def start(
    count: int, specs: Sequence[TableSpec], workers: int, order: Order, folder: Path | None, job: str
) -> tuple[str, str]:
    """Start `count` servers of a job in the cluster that RAY_ADDRESS names, else in one on this machine; address and
    token ("" of a cluster that was there) by which others connect. Ray starts a server that is lost anew."""
    address = os.environ.get("RAY_ADDRESS")
    token = "" if address or "ray" in sys.modules else secrets.token_hex(32)
    ray = _ray(token)
    _connect(address, count)
    made = ray.remote(TableActor)
    plain, rule = [spec.plain() for spec in specs], asdict(order)
    for number in range(count):
        options = made.options(
            name=f"{job}-{number}", num_cpus=1, max_restarts=-1, max_task_retries=0, max_concurrency=1000,
            scheduling_strategy="SPREAD",
        )  # fmt: skip
        _kept.append(options.remote(number, plain, workers, rule, None if folder is None else str(folder)))
    return str(ray.get_runtime_context().gcs_address), token


def connect(address: str, token: str, count: int, job: str, timeout: float) -> list[RayServer]:
    """The servers of a job, from any process."""
    ray = _ray(token)
    _connect(address, count)
    return [RayServer(ray.get_actor(f"{job}-{number}", namespace=NAMESPACE), timeout) for number in range(count)]


def stop(count: int, job: str) -> None:
    """End the servers of a job."""
    ray = _ray()
    if not ray.is_initialized():
        return
    for number in range(count):
        try:
            ray.kill(ray.get_actor(f"{job}-{number}", namespace=NAMESPACE))
        except ValueError:  # it is gone
            continue
    _kept.clear()


_kept: list[Any] = []  # an actor ends with its last handle


def _connect(address: str | None, count: int) -> None:
    import ray

    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "namespace": NAMESPACE}
    if address is None:
        _init(num_cpus=count, include_dashboard=False, **quiet)
    else:
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, ray.exceptions.RayError) as error:
            raise RankError(
                f"tables: no connection to the Ray cluster at {address}: {error}; all processes need its token "
                "(RAY_AUTH_TOKEN), before Ray is imported"
            ) from error


def _init(**options: Any) -> None:
    """`ray.init`, again where the machine was too busy for Ray's 30 s."""
    import ray

    for left in (2, 1, 0):
        try:
            ray.init(**options)
            return
        except Exception as error:  # Ray raises no other kind
            ray.shutdown()
            if not left or "timed out during startup" not in str(error):
                raise RankError(f"tables: Ray does not start here: {error}") from error


def _ray(token: str = "") -> Any:
    if token and "ray" not in sys.modules:  # Ray looks once, when it is imported
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token)
    try:
        import ray
    except ImportError as error:
        raise UsageError("distributed.tables needs Ray: pip install 'pdl-core[ray]'") from error
    return ray


__all__ = ["RayServer", "TableActor", "connect", "start", "stop"]
