"""`info`: what a bundle is, as plain values for people."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdl import packages
from pdl.dtype import Array
from pdl.errors import listed
from pdl.limits import OPENING, limited, require_seconds
from pdl.runtime.bundle import Bundle, read
from pdl.runtime.pipeline import describe
from pdl.runtime.session import Port, of_bundle, ports


def info(path: str | Path, *, timeout: float = OPENING) -> dict[str, Any]:
    """What a bundle is, as plain values. Its program is checked, and nothing of it runs. TimeLimitError where that
    takes longer than `timeout` seconds."""
    with limited(os.fspath(path), seconds=require_seconds(timeout)):
        bundle = read(path)
        parts = {name: _facts(part, timeout) for name, part in bundle.parts.items()}
        if parts:
            about = {**bundle.meta["about"], "system": bundle.program["system"], **bundle.program["arguments"]}
            return {**_named(bundle), **about, "parts": parts, **_origin(bundle)}
        made = _facts(bundle, timeout)
    if bundle.kind == "decoder":
        return {**made, "more": f"pdl predict {os.fspath(path)} --help lists its options of decoding"}
    return {**made, "more": f"PDL_LOG=plan pdl bench {os.fspath(path)} tells what the runtime makes of it"}


def _facts(bundle: Bundle, timeout: float) -> dict[str, Any]:
    """Those of one model."""
    inputs, outputs = _ports(bundle, timeout)
    meta, stored = bundle.meta, bundle.program
    steps = {when: {name: describe(each) for name, each in bundle.pipeline[when].items()} for when in ("pre", "post")}
    labels = bundle.labels
    facts = {
        **_named(bundle),
        **meta["about"],
        "inputs": [str(port) for port in inputs],
        "outputs": [str(port) for port in outputs],
        "ops": _ops(bundle),
        **({"decoding": stored["writing"]} if bundle.kind == "decoder" else {}),
        "weights": _numbers(bundle.weights, _bytes_of(meta["about"])),
        "before": steps["pre"],
        "after": steps["post"],
        "labels": _few(labels) if labels else None,
        "vocabularies": {name: _few(names) for name, names in bundle.vocabularies.items()},
        **({"constants": _numbers(bundle.constants)} if bundle.constants else {}),
        **_origin(bundle),
    }
    trained = meta["about"].get("weights")
    return {**facts, "trained": trained} if trained else facts


def _ops(bundle: Bundle) -> int | str:
    """How many, or of a decoder how many of each program."""
    stored = bundle.program
    if bundle.kind == "decoder":
        parts = [(name, stored[name]) for name in ("encode", "step") if stored[name] is not None]
        return ", ".join(f"{name} {len(part['nodes'])}" for name, part in parts)
    return len(stored["program"]["nodes"]) if bundle.kind == "program" else f"a graph of kind {bundle.kind}"


def _named(bundle: Bundle) -> dict[str, Any]:
    return {"bundle": bundle.source, "name": bundle.meta["name"], "size": f"{bundle.size / 1000:,.1f} kB"}


def _origin(bundle: Bundle) -> dict[str, Any]:
    meta = bundle.meta
    return {
        **({"requires": _requires(meta["requires"])} if meta["requires"] else {}),
        "metrics": meta["metrics"],
        "licence": meta["licence"] or "not stated",
        "created": f"{meta['created']} by pdl {meta['pdl']}",
    }


def _ports(bundle: Bundle, timeout: float) -> tuple[Sequence[Port], Sequence[Port]]:
    if bundle.kind == "program":
        return ports(bundle.build(), bundle.program["inputs"], bundle.program["outputs"])
    session = of_bundle(bundle, pipeline=None, timeout=timeout)
    return session.inputs, session.outputs


def _requires(distributions: Sequence[str]) -> str:
    """`pdl-a, pdl-b (not installed)`."""
    absent = packages.missing(distributions)
    return ", ".join(f"{name} (not installed)" if name in absent else name for name in distributions)


def _few(names: Sequence[str]) -> str:
    """`5: ant, bee, ...`."""
    return f"{len(names):,}: {listed(names)}"


def _bytes_of(about: Mapping[str, Any]) -> str:
    """What bytes among the weights are, where they are no numbers."""
    shared = str(about.get("stored", "")).endswith("shared values")
    return " and ".join([*["shared values"] * shared, *["weights without their zeros"] * ("zeros" in about)])


def _numbers(arrays: Mapping[str, Array], bytes_of: str = "") -> str:
    """How many numbers, in which types; `bytes_of`: what those in bytes are."""
    sizes: dict[str, int] = {}
    for array in arrays.values():
        sizes[array.dtype.name] = sizes.get(array.dtype.name, 0) + array.size
    if bytes_of and "uint8" in sizes:
        sizes[f"bytes of {bytes_of}"] = sizes.pop("uint8")
    kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(sizes.items(), key=lambda each: -each[1]))
    if bytes_of:
        return f"{len(arrays)} tensors ({kinds})"
    of = f" ({kinds})" if kinds and list(sizes) != ["float32"] else ""
    return f"{sum(sizes.values()):,} numbers in {len(arrays)} tensors{of}"
