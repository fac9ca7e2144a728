"""Table servers as Ray actors (Moritz et al., arXiv 1712.05889): Ray starts them, anew where they are lost, and says
where they are; rows travel past it (`pdl.distributed.tables.channel`).

Ray's messages are pickles: whoever may speak to a cluster runs code on it. A cluster that is started here asks for a
token of its own, drawn at the start, which other processes of the job get over MPI. Of one that RAY_ADDRESS names Ray's
own rules hold: a network of its own, and Ray's token authentication (RAY_AUTH_MODE=token). Tokens do not encrypt.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdl.distributed.group import RankError
from pdl.distributed.tables.blocks import Blocks
from pdl.distributed.tables.channel import Far, Service
from pdl.distributed.tables.client import ServerLost
from pdl.distributed.tables.server import Order, TableServer
from pdl.distributed.tables.shard import TableSpec
from pdl.errors import UsageError
from pdl.threads import set_num_threads

NAMESPACE = "pdl-tables"


class TableActor:
    """A `TableServer` and the `Service` by which it is called."""

    def __init__(
        self,
        number: int,
        specs: Sequence[Mapping[str, Any]],
        workers: int,
        order: Mapping[str, Any],
        folder: str | None,
        key: str,
    ) -> None:
        import ray

        set_num_threads(1)  # a server has one core
        place = None if folder is None else Path(folder)
        server = TableServer(number, [TableSpec.of(each) for each in specs], workers, Order(**order), place)
        host = ray.util.get_node_ip_address()
        self.service = Service(server, secrets.token_hex(8), bytes.fromhex(key), host)
        self.key = key

    def reach(self) -> tuple[str, int, str]:
        """Host, port and key of the service."""
        return (*self.service.address, self.key)

    def process(self) -> int:
        """Its number."""
        return os.getpid()


class RayServer(Far):
    """One of them: Ray says where it is, and starts it anew where it is lost."""

    def __init__(self, handle: Any, blocks: Blocks, timeout: float) -> None:
        super().__init__(self._reach, blocks, timeout)
        self.handle = handle

    def _reach(self) -> tuple[str, int, bytes]:
        import ray

        try:
            host, port, key = ray.get(self.handle.reach.remote(), timeout=self.timeout)
        except ray.exceptions.ActorDiedError as error:  # for good: it could not be made anew
            raise RankError(f"tables: a server is lost: {error}") from error
        except ray.exceptions.RayActorError as error:
            raise ServerLost(str(error).splitlines()[0]) from error
        except ray.exceptions.GetTimeoutError as error:
            raise RankError(f"tables: a server does not start within {self.timeout:g} s") from error
        return str(host), int(port), bytes.fromhex(key)


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
    plain, rule, key = [spec.plain() for spec in specs], asdict(order), secrets.token_hex(32)
    for number in range(count):
        options = made.options(
            name=f"{job}-{number}", num_cpus=1, max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        _kept.append(options.remote(number, plain, workers, rule, None if folder is None else str(folder), key))
    return str(ray.get_runtime_context().gcs_address), token


def connect(address: str, token: str, count: int, job: str, timeout: float) -> list[RayServer]:
    """The servers of a job, from any process."""
    ray = _ray(token)
    _connect(address, count)
    handles = [ray.get_actor(f"{job}-{number}", namespace=NAMESPACE) for number in range(count)]
    blocks = Blocks()
    return [RayServer(handle, blocks, timeout) for handle in handles]


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
