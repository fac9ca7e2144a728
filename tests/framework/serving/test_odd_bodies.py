"""Bodies of HTTP and gRPC that nobody should send: each is answered, or refused with a reason."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.framework.serving.asking import Asked, served

APP = Asked(served())
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 8, 2**31, 2**63, 2**64, 10**40, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "image",
    "FP32", "INT8", "BF16", "\ud800", "x" * 300, "1" * 5000, [], {}, [[]], [None], [1.0], ["1"], {"name": "image"},
    [1, 8, 8, 1], [0.5] * 64, [[0.5] * 8] * 8, [True] * 64, ["0.5"] * 64, [10**400], {"binary_data_size": 256},
)  # fmt: skip
PLACES = (
    ("inputs",), ("inputs", 0), ("inputs", 0, "name"), ("inputs", 0, "shape"), ("inputs", 0, "shape", 0),
    ("inputs", 0, "datatype"), ("inputs", 0, "data"), ("inputs", 0, "data", 5), ("inputs", 0, "parameters"),
    ("inputs", 0, "parameters", "binary_data_size"), ("outputs",), ("outputs", 0), ("outputs", 0, "name"),
    ("outputs", 0, "parameters"), ("outputs", 0, "parameters", "binary_data"), ("parameters",),
    ("parameters", "timeout"), ("parameters", "binary_data_output"), ("id",),
)  # fmt: skip
SIZES = st.sampled_from((None, "0", "-1", "10", "256", "99999", "9" * 5000, "1e3", "", "\xb2", "0x10", "+7"))


def whole(binary: bool) -> dict[str, Any]:
    parameters = {"binary_data_size": 256} if binary else {}
    data = {} if binary else {"data": [0.5] * 64}
    tensor = {"name": "image", "shape": [1, 8, 8, 1], "datatype": "FP32", "parameters": parameters, **data}
    wanted = {"name": "logits", "parameters": {"binary_data": binary}}
    return {"id": "a", "inputs": [tensor], "outputs": [wanted], "parameters": {"timeout": 0}}


def put(value: Any, place: tuple[Any, ...], odd: Any, drop: bool) -> None:
    """Put something odd there, or leave it out; nothing where an odd thing is on the way already."""
    for each in place[:-1]:
        try:
            value = value[each]
        except (TypeError, LookupError):
            return
    last = place[-1]
    if isinstance(value, dict) and drop:
        value.pop(last, None)
    elif isinstance(value, dict if isinstance(last, str) else list) and (isinstance(last, str) or last < len(value)):
        value[last] = deepcopy(odd)


@st.composite
def bodies(draw: Any) -> tuple[bytes, str | None]:
    """A body, and what the header says of its JSON."""
    binary = draw(st.booleans())
    said = whole(binary)
    changes = st.tuples(st.sampled_from(PLACES), st.sampled_from(ODD), st.booleans())
    for place, odd, drop in draw(st.lists(changes, max_size=3)):
        put(said, place, odd, drop)
    text = json.dumps(said).encode()
    body = text + (np.ones(64, np.float32).tobytes() if binary else b"")
    size = draw(SIZES) if draw(st.booleans()) else str(len(text)) if binary else None
    return damaged(body, draw(DAMAGES)), size


DAMAGES = st.lists(
    st.tuples(st.sampled_from(("cut", "other", "more", "fewer")), st.integers(0, 999), st.binary(max_size=3)),
    max_size=2,
)


def damaged(body: bytes, damages: list[tuple[str, int, bytes]]) -> bytes:
    for kind, at, data in damages:
        head, rest = body[: at % (len(body) + 1)], body[at % (len(body) + 1) :]
        body = head + {"cut": b"", "other": data + rest[len(data) :], "more": data + rest, "fewer": rest[1:]}[kind]
    return body


LOOP = asyncio.new_event_loop()
APP.service.coming = lambda: 1  # each is alone, and runs where it is read


@settings(max_examples=200, deadline=None)
@given(bodies())
def test_damaged_and_odd_bodies_are_answered_or_refused_with_a_reason(asked: tuple[bytes, str | None]) -> None:
    body, size = asked
    headers: Any = {} if size is None else {"inference_header_content_length": size}

    async def ask() -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(60):
            return await APP.ask("POST", "/v2/models/m/infer", body, **headers)

    status, told, said = LOOP.run_until_complete(ask())
    if status == 200:
        text = said[: int(told.get("inference-header-content-length", len(said)))]
        assert json.loads(text)["model_name"] == "m"
    else:
        assert status == 400 or (status == 504 and b"timeout" in body), (status, said)
        assert len(json.loads(said)["error"]) > 10
    assert APP.service.under_way == APP.service.held == 0


# -- gRPC --------------------------------------------------------------------------------------------------------------
TEXTS = ("", "m", "other", "1", "7", "image", "logits", "FP32", "INT8", "BF16", "x" * 300)
NUMBERS = (-(2**63), -1, 0, 1, 8, 10, 2**31, 2**63 - 1)
REFUSALS = ("OK", "INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED", "DEADLINE_EXCEEDED")


@st.composite
def calls(draw: Any) -> tuple[str, bytes]:
    """A method, and what is sent to it."""
    from pdl.serving.messages import METHODS, messages

    name = draw(st.sampled_from((*METHODS, *["ModelInfer"] * 9)))
    given: Any = getattr(messages(), f"{name}Request")()
    texts, odd = st.sampled_from(TEXTS), st.booleans()
    if name == "ModelInfer":
        given.model_name = "m"
        tensor = given.inputs.add(name="image", datatype="FP32", shape=[1, 8, 8, 1])
        if draw(odd):
            tensor.contents.fp32_contents.extend([0.5] * 64)
        else:
            given.raw_input_contents.append(np.ones(64, np.float32).tobytes())
        for change in draw(st.lists(st.integers(0, 9), max_size=3)):
            text, number = draw(texts), draw(st.sampled_from(NUMBERS))
            if change < 3:
                setattr(*((given, "model_name"), (tensor, "name"), (tensor, "datatype"))[change], text)
            elif change == 3:
                tensor.shape[number % 4 if tensor.shape else 0 :] = [number] * (number % 3)
            elif change == 4:
                given.raw_input_contents.append(text.encode())
            elif change == 5:
                del given.raw_input_contents[:]
                tensor.contents.int64_contents.extend([number] * 3)
            elif change == 6:
                tensor.contents.fp32_contents.extend([float("nan"), float("inf"), 1e38])
            elif change == 7:
                given.parameters["timeout"].int64_param = number
            elif change == 8:
                given.parameters["timeout"].string_param = text
            else:
                given.outputs.add(name=text)
    else:
        for field in given.DESCRIPTOR.fields:
            if field.type == field.TYPE_STRING:
                setattr(given, field.name, draw(texts))
    return name, damaged(given.SerializeToString(), draw(DAMAGES))


def test_damaged_and_odd_calls_are_answered_or_refused_with_a_reason() -> None:
    grpc = pytest.importorskip("grpc.aio")
    from pdl.serving.messages import PACKAGE, SERVICE
    from pdl.serving.rpc import Rpc
    from pdl.serving.server import Listening

    rpc = Rpc(APP.service)
    port = LOOP.run_until_complete(rpc.start(Listening(grpc=0)))
    seen: set[str] = set()

    async def call(name: str, body: bytes) -> tuple[str, str]:
        try:
            await channel.unary_unary(f"/{PACKAGE}.{SERVICE}/{name}")(body, timeout=60)
        except grpc.AioRpcError as error:
            return error.code().name, error.details()
        return "OK", ""

    @settings(max_examples=200, deadline=None)
    @given(calls())
    def every(asked: tuple[str, bytes]) -> None:
        code, why = LOOP.run_until_complete(call(*asked))
        seen.add(code)
        assert code in REFUSALS, (code, why)
        assert code == "OK" or len(why) > 10
        assert code != "DEADLINE_EXCEEDED" or b"timeout" in asked[1]
        assert APP.service.under_way == APP.service.held == 0

    async def channel_of() -> Any:
        return grpc.insecure_channel(f"127.0.0.1:{port}")

    channel = LOOP.run_until_complete(channel_of())
    try:
        every()
        assert seen >= {"OK", "INVALID_ARGUMENT", "NOT_FOUND"}
    finally:
        LOOP.run_until_complete(channel.close())
        LOOP.run_until_complete(rpc.stop(5.0))
