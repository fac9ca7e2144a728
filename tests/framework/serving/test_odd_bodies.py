"""Bodies of /v2/models/NAME/infer that nobody should send: each is answered, or refused with a reason."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from typing import Any

import numpy as np
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
    damages = st.tuples(st.sampled_from(("cut", "other", "more", "fewer")), st.integers(0, 999), st.binary(max_size=3))
    for kind, at, data in draw(st.lists(damages, max_size=2)):
        head, rest = body[: at % (len(body) + 1)], body[at % (len(body) + 1) :]
        body = head + {"cut": b"", "other": data + rest[len(data) :], "more": data + rest, "fewer": rest[1:]}[kind]
    return body, size


LOOP = asyncio.new_event_loop()
APP.service.coming = lambda: 1  # each is alone, and runs where it is read


@settings(max_examples=200, deadline=None)
@given(bodies())
def test_damaged_and_odd_bodies_are_answered_or_refused_with_a_reason(asked: tuple[bytes, str | None]) -> None:
    body, size = asked
    headers: Any = {} if size is None else {"inference_header_content_length": size}

    async def ask() -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(10):
            return await APP.ask("POST", "/v2/models/m/infer", body, **headers)

    status, told, said = LOOP.run_until_complete(ask())
    if status == 200:
        text = said[: int(told.get("inference-header-content-length", len(said)))]
        assert json.loads(text)["model_name"] == "m"
    else:
        assert status == 400, (status, said)
        assert len(json.loads(said)["error"]) > 10
    assert APP.service.under_way == APP.service.held == 0
