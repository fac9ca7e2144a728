"""The Open Inference Protocol over gRPC, on the loop of the server: deadlines are those of the calls, and a call that
is given up gives up its request.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import PackageError, UsageError
from pdl.serving.errors import Refused, bad
from pdl.serving.http import EXTENSIONS, about, index
from pdl.serving.messages import METHODS, PACKAGE, SERVICE, messages
from pdl.serving.models import Version
from pdl.serving.service import Facts, Service
from pdl.serving.tensors import (
    DTYPES,
    MOST_PORTS,
    NAMES,
    checked_dtype,
    checked_shape,
    from_bytes,
    from_data,
    port_of,
    require_all,
    seconds_in,
)
from pdl.version import __version__

CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents",
}  # fmt: skip
_OPEN = ("ServerLive", "ServerReady")


def needed() -> Any:
    """grpc; PackageError where it is not installed."""
    try:
        import google.protobuf  # noqa: F401
        import grpc.aio
    except ImportError:
        raise PackageError("--grpc needs grpcio and protobuf: pip install 'pdl-core[serve,grpc]'") from None
    return grpc


class Rpc:
    """The service; errors of a request are statuses with the same texts as over HTTP."""

    def __init__(self, service: Service) -> None:
        self.service, self.grpc, self.kinds = service, needed(), messages()
        from google.protobuf.message import DecodeError

        self.unreadable = DecodeError
        self._tokens = [f"Bearer {token}" for token in service.settings.tokens]
        self.server: Any = None

    async def start(self, where: Any) -> int:
        """Listen; the port. UsageError where it cannot be had."""
        grpc, most = self.grpc, self.service.settings.request
        options = [
            ("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 1),
            ("grpc.max_concurrent_streams", 256), ("grpc.max_metadata_size", 16 << 10),
        ]  # fmt: skip
        self.server = grpc.aio.server(options=options, maximum_concurrent_rpcs=self.service.settings.connections)
        handlers = {name: self._handler(name) for name in METHODS}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{PACKAGE}.{SERVICE}", handlers),))
        shown = f"[{where.host}]" if ":" in where.host else where.host
        address = f"{shown}:{where.grpc}"
        try:
            if where.cert:
                pair = Path(where.key).read_bytes(), Path(where.cert).read_bytes()
                port = self.server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
            else:
                port = self.server.add_insecure_port(address)
        except RuntimeError:
            port = 0
        if not port:
            raise UsageError(f"--grpc {where.grpc}: cannot listen there; choose another port")
        await self.server.start()
        return int(port)

    async def stop(self, seconds: float) -> None:
        """Take no more calls; those under way have so many seconds."""
        await self.server.stop(seconds)

    def _handler(self, name: str) -> Any:
        call = getattr(self, f"_{''.join(f'_{c.lower()}' if c.isupper() else c for c in name)[1:]}")
        request, response = (getattr(self.kinds, f"{name}{side}") for side in ("Request", "Response"))

        async def run(body: bytes, context: Any) -> Any:
            return await self._call(name, call, request, response, body, context)

        return self.grpc.unary_unary_rpc_method_handler(run, response_serializer=response.SerializeToString)

    async def _call(
        self, name: str, call: Callable[..., Awaitable[Any]], asked: Any, made: Any, body: bytes, context: Any
    ) -> Any:
        service = self.service
        said = dict(context.invocation_metadata() or ())
        carrier = {key: said[key] for key in ("traceparent", "tracestate") if isinstance(said.get(key), str)}
        facts = service.begin("grpc", carrier)
        held = len(body)
        service.held += held
        try:
            if self._tokens and name not in _OPEN:
                token = str(said.get("authorization", ""))
                if not any(hmac.compare_digest(token.encode(), each.encode()) for each in self._tokens):
                    raise Refused(401, "token", "a token is needed: authorization: Bearer TOKEN")
            if service.held > service.settings.held:
                raise Refused(429, "memory", "the server holds as many bytes of requests as it may; try again", retry=1)
            try:
                given = asked.FromString(body)
            except self.unreadable:
                raise bad(f"the body is no message {name}Request") from None
            answer: Any = await call(made, given, facts, context)
            return answer
        except asyncio.CancelledError:
            facts.status, facts.reason = 499, "cancelled"
            raise
        except Exception as error:
            refused = service.failed(facts, error)
        finally:
            service.held -= held
            service.end(facts)
        await context.abort(getattr(self.grpc.StatusCode, refused.code), str(refused))

    # -- the methods ---------------------------------------------------------------------------------------------------
    async def _server_live(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        return made(live=True)

    async def _server_ready(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        return made(ready=self.service.models.ready and not self.service.draining)

    async def _model_ready(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        entry = self.service.models.entry(given.name)
        return made(ready=given.version in entry.versions if given.version else bool(entry.versions))

    async def _server_metadata(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        return made(name="pdl", version=__version__, extensions=EXTENSIONS)

    async def _model_metadata(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        return made(**about(self.service, self.service.models.find(given.name, given.version)))

    async def _repository_index(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        found = [each for each in index(self.service) if not given.ready or each["state"] == "READY"]
        return made(models=found)

    async def _repository_model_load(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        self._may_control(given.model_name)
        if faults := await self.service.reload(given.model_name):
            raise bad("; ".join(faults))
        return made()

    async def _repository_model_unload(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        self._may_control(given.model_name)
        await asyncio.get_running_loop().run_in_executor(None, self.service.models.unload, given.model_name)
        return made()

    def _may_control(self, name: str) -> None:
        if not self.service.settings.control or self.service.alone is False:
            raise Refused(403, "control", "models are not loaded by call here; HTTP with --control, or SIGHUP, does it")
        self.service.models.entry(name)

    async def _model_infer(self, made: Any, given: Any, facts: Facts, context: Any) -> Any:
        version = self.service.models.find(given.model_name, given.model_version)
        facts.model, facts.version, facts.counted, facts.id = version.name, version.version, version, given.id[:256]
        if version.session is None:
            raise bad(f"{version.name} answers inputs of its pipeline alone: POST /predict over HTTP")
        arrays = _arrays(given, version)
        names = [each.name for each in given.outputs] or None
        if names and (unknown := [name for name in names if name not in {port.name for port in version.outputs}]):
            raise bad(f"{unknown[0]!r:.60} is no output of this model")
        seconds = seconds_in(_parameters(given.parameters))
        left = context.time_remaining()
        if left is not None:
            seconds = max(1e-3, min(left, seconds or left))
        version, outputs = await self.service.infer(facts, version, arrays, seconds, None)
        facts.version = version.version
        chosen = {name: outputs[name] for name in names or outputs}
        return made(
            model_name=version.name, model_version=version.version, id=given.id,
            outputs=[{"name": name, "datatype": NAMES[y.dtype], "shape": y.shape} for name, y in chosen.items()],
            raw_output_contents=[y.tobytes() for y in chosen.values()],
        )  # fmt: skip


def _arrays(given: Any, version: Version) -> dict[str, Array]:
    raw = given.raw_input_contents
    if len(given.inputs) > MOST_PORTS or (raw and len(raw) != len(given.inputs)):
        raise bad(f"{len(given.inputs)} inputs with {len(raw)} raw contents")
    arrays: dict[str, Array] = {}
    for number, each in enumerate(given.inputs):
        port = port_of(version.inputs, each.name, arrays)  # type: ignore[arg-type]
        dtype = checked_dtype(port, port.name, each.datatype)
        shape = checked_shape(port, port.name, list(each.shape))
        if raw:
            arrays[port.name] = from_bytes(port.name, dtype, shape, raw[number])
        elif each.datatype in CONTENTS:
            values = getattr(each.contents, CONTENTS[each.datatype])
            if len(values) > int(np.prod(shape)):
                raise bad(f"input {port.name!r}: {len(values)} numbers for shape {list(shape)}")
            arrays[port.name] = from_data(port, port.name, DTYPES[each.datatype], shape, list(values))
        else:
            raise bad(f"input {port.name!r}: {each.datatype} is sent as raw_input_contents")
    require_all(version.inputs, arrays)
    return arrays


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: getattr(each, kind) for name, each in given.items() if (kind := each.WhichOneof("parameter_choice"))}
