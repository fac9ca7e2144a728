"""The bundle `model.pdl`: one file with all that it takes to use a trained model, and nothing that runs by itself.

A zip archive of stored members (`archive.py`):

    program.json          {"format": 1, "kind": "program", "program": Program.to_dict(), "inputs": [names],
                          "outputs": [names]}, with "stream" of a net that can be streamed, see `streams.py`; or
                          {"format": 1, "kind": "onnx", "graph": {...}} for an imported graph
                          that no program can hold, or {"format": 1, "kind": "system", ...} for several models that
                          answer together, see `systems.py`, or {"format": 1, "kind": "decoder", ...} for a net that
                          writes token by token, see `decoding/stored.py`
    weights.safetensors   the arrays that the program captures, by name; memory-mapped. Those that
                          the program knows as float32 may be stored in bfloat16, float16 or as shared values, these and
                          int8 without their zeros, and are widened on reading
    pipeline.json         {"format": 1, "pre": {input: [steps]}, "post": {output: [steps]}}, see `pipeline.py`
    labels.txt            names of classes or characters, one a line
    vocabularies/NAME.txt names by number that are too many for labels (`pdl.vocabulary`); any number of them, or none
    constants.safetensors  arrays that steps of the pipeline read, by name, such as a table; or none
    parts/NAME.pdl        the bundles of a system, by name; none of others
    card.md               what it is, data, metrics and how they were measured, licence, how to use it
    config.yaml           the resolved recipe it was trained with
    meta.json             format number, name, versions, licence, metrics, the distributions it requires beside pdl's
                          own (those of its steps and ops), and size and sha256 of all other members

`read` believes nothing: sizes, names, offsets, hashes, format numbers, JSON and tensors are checked, and a fault is one
`DataError` with file, part, what is wrong and what to do. No member holds code.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from pdl import threads
from pdl.decoder_state import Carried, Framing, Kept
from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.files import map_file, open_file
from pdl.program import Program
from pdl.runtime import archive, required, weights
from pdl.runtime.checked import program_of
from pdl.runtime.decoding.options import Writing
from pdl.runtime.steps import registry
from pdl.runtime.strict import check, check_keys, fault, parse
from pdl.version import __version__
from pdl.vocabulary import Vocabulary

Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview"

FORMAT = 1
SUFFIX = ".pdl"
MIB = 2**20
#: bytes of a member from which it is hashed in a thread of its own
LARGE = 4 * MIB
#: the members, in the order of the file, and the most bytes each may take
MEMBERS = {
    "meta.json": MIB,
    "program.json": 16 * MIB,
    "pipeline.json": MIB,
    "labels.txt": 16 * MIB,
    "card.md": 4 * MIB,
    "config.yaml": 4 * MIB,
    "weights.safetensors": archive.MAX_BYTES,
}
MOST_VOCABULARIES, VOCABULARY_BYTES = 1024, 512 * MIB
MOST_PARTS = 16
_VOCABULARY_NAME = "vocabulary's name is of letters, digits and _ . -, at most 100 of them"
CONSTANTS = "constants.safetensors"
MOST_REQUIRED = 32
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VOCABULARY = re.compile(r"vocabularies/([A-Za-z0-9][A-Za-z0-9_.-]{0,99})\.txt")
_PART = re.compile(r"parts/([A-Za-z_][A-Za-z0-9_]{0,63})\.pdl")
_META: dict[str, type | tuple[type, ...]] = {
    "format": int, "name": str, "pdl": str, "created": str, "licence": str, "metrics": dict, "about": dict,
    "requires": list, "members": dict,
}  # fmt: skip
_MEMBER: dict[str, type | tuple[type, ...]] = {"size": int, "sha256": str}
_PROGRAM: dict[str, type | tuple[type, ...]] = {
    "format": int, "kind": str, "program": dict, "inputs": list, "outputs": list,
}  # fmt: skip
_GRAPH: dict[str, type | tuple[type, ...]] = {"format": int, "kind": str, "graph": dict}
_SYSTEM: dict[str, type | tuple[type, ...]] = {"format": int, "kind": str, "system": str, "arguments": dict}
_DECODER: dict[str, type | tuple[type, ...]] = {
    "format": int, "kind": str, "inputs": list, "outputs": list, "encode": (dict, type(None)), "step": dict,
    "state": list, "writing": dict,
}  # fmt: skip
_KINDS = {"program": _PROGRAM, "onnx": _GRAPH, "system": _SYSTEM, "decoder": _DECODER}
_PIPELINE: dict[str, type | tuple[type, ...]] = {"format": int, "pre": dict, "post": dict}
_NEWER = "it was written by another version of pdl: use that one, or export the model again with this one"


class Vocabularies(Mapping[str, Vocabulary]):
    """The vocabularies of a bundle by name; each is parsed at its first use. DataError where one is damaged.

    parts   name -> the content of its member
    """

    def __init__(self, parts: Mapping[str, memoryview], source: str) -> None:
        self.parts, self.source = dict(parts), source
        self._read: dict[str, Vocabulary] = {}

    def __getitem__(self, name: str) -> Vocabulary:
        found = self._read.get(name)
        if found is None:
            part = f"vocabularies/{name}.txt"
            text = _decoded(self.parts[name], part, self.source)
            found = self._read[name] = Vocabulary.read(text, f"{self.source}: {part}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


@dataclass(frozen=True)
class Bundle:
    """The checked content of a bundle.

    source    its path, or "bytes"
    program   program.json
    weights   arrays by name, read-only; of a file they are windows on it, so replace the file, never write into it
    size      bytes of the whole file
    constants  arrays that steps of the pipeline read, by name, read-only likewise
    parts     of a system: its bundles by name
    hashed    waits for the hashes that are under way, see `require_whole`
    content   all of its bytes
    """

    source: str
    program: dict[str, Any]
    weights: dict[str, Array]
    pipeline: dict[str, Any]
    labels: list[str]
    card: str
    config: str
    meta: dict[str, Any]
    size: int
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    parts: Mapping[str, Bundle] = field(default_factory=dict)
    hashed: Sequence[Callable[[], None]] = ()
    content: memoryview | None = None

    def require_whole(self) -> None:
        """Wait for the hashes that `read` left under way; DataError where a member is not the one that was written."""
        for wait in self.hashed:
            wait()

    def forget(self) -> None:
        """Let go of the pages of the file that were read; those that are needed come back. To hash a file all of it is
        read, to run it, where weights are folded and packed, little."""
        mapped = None if self.content is None else self.content.obj
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)

    @property
    def kind(self) -> str:
        """ "program", "onnx" for an imported graph that no program can hold, "system" for several models, or "decoder"
        for a net that writes token by token."""
        return str(self.program["kind"])

    def build(self) -> Program:
        """The program, verified: only known ops with attributes of the right kind, shapes that fit, bounded sizes.

        Its captured tensors are the bundle's own arrays, as float32 where they are stored in halves. DataError where
        anything is wrong.
        """
        if self.kind != "program":
            what = f"several models ({', '.join(self.parts)})" if self.parts else f"a graph of kind {self.kind!r}"
            raise UsageError(f"{self.source}: holds {what}, which is no program")
        required.import_ops(self.program, self.meta["requires"], self.source)
        stream = self.program.get("stream")
        if stream is None:
            made = program_of(self.program["program"], self.weights, self.source)
        else:
            from pdl.runtime.decoding import stored  # with what runs programs

            stored.check_all_read([self.program["program"], stream.get("program")], self.weights, self.source)
            made = stored.one_of(self.program["program"], self.weights, self.source)
        for what, values in (("inputs", made.inputs), ("outputs", made.outputs)):
            names = self.program[what]
            same = len(names) == len(values) and len(set(names)) == len(names)
            check(same, self.source, f"program.json: {what}", f"{len(names)} names for {len(values)} values")
        for value, name in zip(made.inputs, self.program["inputs"], strict=True):
            value.name = name
        return made

    def build_stream(self) -> tuple[Program, tuple[Carried, ...], Framing]:
        """The step of a net that can be streamed, verified as `build` does, what it keeps, and how it reads."""
        required.import_ops(self.program, self.meta["requires"], self.source)
        from pdl.runtime import streams  # with what runs programs

        return streams.read(self.program["stream"], self.weights, self.source)

    def build_decoder(self) -> tuple[Program | None, Program, tuple[Kept, ...], Writing]:
        """The programs `encode` and `step` of a decoder, verified as `build` does, what they keep, and how it is
        asked."""
        required.import_ops(self.program, self.meta["requires"], self.source)
        from pdl.runtime.decoding import stored  # with what runs programs

        return stored.read(self.program, self.weights, self.source)


def read(source: Source, *, waiting: bool = True) -> Bundle:
    """The bundle in a file (mapped into memory, not copied) or in bytes, every part of it checked.

    waiting   False: large members are still being hashed in other threads; nothing may be told of what is in them
              before `require_whole` has returned
    """
    made = _read(*_open(source), _more)
    if waiting:
        made.require_whole()
    return made


def _read(data: memoryview, name: str, more: Callable[[str], int | None]) -> Bundle:
    """The bundle in `data`, with hashes under way; `more` as `archive.unpack` takes it."""
    members = archive.unpack(data, name, MEMBERS, more)
    meta, hashed = _meta(members, name)
    try:
        return _checked(data, name, members, meta, hashed)
    except DataError:
        for wait in hashed:  # where bytes are not those that were written, that is what to say
            wait()
        raise


def _checked(
    data: memoryview,
    name: str,
    members: Mapping[str, memoryview],
    meta: dict[str, Any],
    hashed: Sequence[Callable[[], None]],
) -> Bundle:
    """The content of the members, whose sizes are those of `meta`."""
    program = _json(members, "program.json", name)
    kind = program.get("kind") if isinstance(program, dict) else None
    wanted = _KINDS.get(str(kind), {})
    if kind == "program" and "stream" in program:
        wanted = {**wanted, "stream": dict}
    check(wanted, name, "program.json", f"kind is {kind!r:.40}, expected one of {', '.join(_KINDS)}", _NEWER)
    check_keys(program, wanted, name, "program.json")
    pipeline = _json(members, "pipeline.json", name)
    check_keys(pipeline, _PIPELINE, name, "pipeline.json")
    for part, value in (("program.json", program), ("pipeline.json", pipeline)):
        check(value["format"] == FORMAT, name, part, f"format {value['format']}, this pdl reads {FORMAT}", _NEWER)
    parts = _parts(members, name, expected=kind == "system")
    if kind == "program":
        texts = [*program["inputs"], *program["outputs"]]
        check(all(isinstance(each, str) for each in texts), name, "program.json", "a name that is no text")
    return Bundle(
        source=name,
        program=program,
        weights=weights.from_bytes(members["weights.safetensors"], name, "weights.safetensors"),
        pipeline=pipeline,
        labels=_labels(_text(members, "labels.txt", name), name),
        card=_text(members, "card.md", name),
        config=_text(members, "config.yaml", name),
        meta=meta,
        size=len(data),
        content=data,
        vocabularies=_vocabularies(members, name),
        constants=weights.from_bytes(members[CONSTANTS], name, CONSTANTS) if CONSTANTS in members else {},
        parts=parts,
        hashed=[*hashed, *(wait for part in parts.values() for wait in part.hashed)],
    )


def _parts(members: Mapping[str, memoryview], name: str, *, expected: bool) -> dict[str, Bundle]:
    """The bundles of a system; a part has none of its own. DataError where there are some and none are `expected`, or
    the other way around."""
    found = {match[1]: data for part, data in members.items() if (match := _PART.fullmatch(part))}
    good = 1 <= len(found) <= MOST_PARTS if expected else not found
    check(good, name, "archive", f"{len(found)} parts, expected {f'1 to {MOST_PARTS}' if expected else 'none'}")
    return {part: _read(data, f"{name}: parts/{part}{SUFFIX}", _alone) for part, data in found.items()}


def pack(
    program: Mapping[str, Any],
    arrays: Mapping[str, Array],
    *,
    name: str = "model",
    pipeline: Mapping[str, Any] | None = None,
    labels: Sequence[str] = (),
    vocabularies: Mapping[str, Vocabulary] | None = None,
    constants: Mapping[str, Array] | None = None,
    parts: Mapping[str, bytes] | None = None,
    card: str = "",
    config: str = "",
    licence: str = "",
    metrics: Mapping[str, float | None] | None = None,
    about: Mapping[str, Any] | None = None,
) -> bytes:
    """The file of these parts, with sizes and hashes; `read` checks the rest. `about`: further plain facts for people.

    `pipeline` is {"pre": {input: [steps]}, "post": {output: [steps]}}; the distributions of its steps are written down.
    `parts` are the bundles of a system.
    """
    wrong = next((label for label in labels if "\n" in label or "\x00" in label), None)
    if wrong is not None:
        raise UsageError(f"label {wrong!r} holds a line break; labels are stored one a line")
    steps = {"format": FORMAT, "pre": {}, "post": {}, **(pipeline or {})}
    contents = {
        "program.json": _dumps({"format": FORMAT, **program}),
        "pipeline.json": _dumps(steps),
        "labels.txt": "".join(f"{label}\n" for label in labels).encode(),
        **{f"vocabularies/{each}.txt": names.text().encode() for each, names in (vocabularies or {}).items()},
        "card.md": card.encode(),
        "config.yaml": config.encode(),
        "weights.safetensors": weights.to_bytes(arrays),
        **({CONSTANTS: weights.to_bytes(constants)} if constants else {}),
        **{f"parts/{each}{SUFFIX}": data for each, data in (parts or {}).items()},
    }
    needed = (each for data in (parts or {}).values() for each in read(data).meta["requires"])
    meta = {
        "format": FORMAT,
        "name": name,
        "pdl": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "licence": licence,
        "metrics": {
            key: value if value is None or value - value == 0 else None for key, value in (metrics or {}).items()
        },
        "about": dict(about or {}),
        "requires": sorted({*registry.requires(steps), *required.of_program(program), *needed}),
        "members": {part: {"size": len(data), "sha256": _sha256(data)} for part, data in contents.items()},
    }
    for part, data in contents.items():
        most = MEMBERS.get(part) or _more(part)
        if most is None:
            what = "part's name is of letters, digits and _" if part.startswith("parts/") else _VOCABULARY_NAME
            raise UsageError(f"{part}: a {what}")
        check(len(data) <= most, "bundle", part, f"{len(data)} bytes, more than {most}", "make it smaller")
    return archive.pack({"meta.json": _dumps(meta, indent=1), **contents})


def restate(source: Source, *, licence: str, card: str) -> bytes:
    """A bundle that states this licence and card, and is the same otherwise; equal input gives equal bytes."""
    return _changed(source, {"card.md": card.encode()}, {"licence": licence})


def answering(
    source: Source,
    post: Mapping[str, Any],
    *,
    vocabularies: Mapping[str, Vocabulary],
    constants: Mapping[str, Array],
    about: Mapping[str, Any],
) -> bytes:
    """A bundle whose answers are made by the steps `post`, which these vocabularies and constants are for, too; it
    states no metrics, for its answers are others, and is the same otherwise. Equal input gives equal bytes."""
    given = read(source)
    contents = {"pipeline.json": _dumps({**given.pipeline, "post": post})}
    contents |= {f"vocabularies/{name}.txt": names.text().encode() for name, names in vocabularies.items()}
    if constants:
        contents[CONSTANTS] = weights.to_bytes({**given.constants, **constants})
    return _changed(source, contents, {"metrics": {}, "about": {**given.meta["about"], **about}})


def _changed(source: Source, contents: Mapping[str, bytes], facts: Mapping[str, Any]) -> bytes:
    """A bundle with these members and facts of meta.json in place of its own, or beside them."""
    data, name = _open(source)
    members = {part: bytes(each) for part, each in archive.unpack(data, name, MEMBERS, _more).items()}
    meta = {**parse(members.pop("meta.json"), name, "meta.json"), **facts}
    members |= contents
    meta["members"] |= {part: {"size": len(each), "sha256": _sha256(each)} for part, each in contents.items()}
    return archive.pack({"meta.json": _dumps(meta, indent=1), **members})


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a path looks like a bundle: a file that begins as a zip archive does, or one named *.pdl."""
    file = Path(path)
    if not file.is_file():
        return file.suffix == SUFFIX and not file.is_dir()
    with open_file(file) as opened:
        return opened.read(4) == b"PK\x03\x04" or file.suffix == SUFFIX


def _dumps(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=(",", ":")).encode()


def _open(source: Source) -> tuple[memoryview, str]:
    if isinstance(source, bytes | bytearray | memoryview):
        return memoryview(bytes(source) if isinstance(source, bytearray) else source).cast("B").toreadonly(), "bytes"
    name = os.fspath(source)
    try:
        return map_file(name), name
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); name a bundle that `pdl export` wrote") from None


def _meta(members: Mapping[str, memoryview], source: str) -> tuple[dict[str, Any], list[Callable[[], None]]]:
    """meta.json, after every other member has been found as it says; and what waits for the hashes of large ones."""
    meta = _json(members, "meta.json", source)
    number = meta.get("format") if isinstance(meta, dict) else None
    check(number == FORMAT, source, "meta.json", f"bundle format {number!r:.40}, this pdl reads {FORMAT}", _NEWER)
    check_keys(meta, _META, source, "meta.json")
    metrics = meta["metrics"].values()
    check(all(v is None or type(v) in (int, float) for v in metrics), source, "meta.json", "a metric that is no number")
    good = len(meta["requires"]) <= MOST_REQUIRED and all(_is_distribution(name) for name in meta["requires"])
    check(good, source, "meta.json", f"requires is {str(meta['requires'])[:60]}, expected names of distributions")
    gone = [name for name in meta["members"] if name not in members]
    check(not gone, source, "archive", f"it lacks {', '.join(gone[:8])}, of which meta.json tells")
    waits = []
    for name, data in members.items():
        if name == "meta.json":
            continue
        entry = meta["members"].get(name)
        check_keys(entry, _MEMBER, source, f"meta.json: members: {name}")
        check(entry["size"] == len(data), source, name, f"{len(data)} bytes, meta.json says {entry['size']}")
        hashing = partial(_require_hash, data, entry["sha256"], source, name)
        if len(data) < LARGE:
            hashing()
        else:
            waits.append(threads.beside(hashing))
    return meta, waits


def _require_hash(data: memoryview, wanted: str, source: str, part: str) -> None:
    check(wanted == _sha256(data), source, part, "its sha256 is not the one in meta.json")


def _is_distribution(name: Any) -> bool:
    return isinstance(name, str) and _DISTRIBUTION.fullmatch(name) is not None


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _json(members: Mapping[str, memoryview], part: str, source: str) -> Any:
    return parse(bytes(members[part]), source, part)


def _text(members: Mapping[str, memoryview], part: str, source: str) -> str:
    return _decoded(members[part], part, source)


def _decoded(data: memoryview, part: str, source: str) -> str:
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise fault(source, part, f"not UTF-8 ({error})") from None


def _more(name: str) -> int | None:
    """The size limit of an optional member."""
    return archive.MAX_BYTES if _PART.fullmatch(name) else _alone(name)


def _alone(name: str) -> int | None:
    """The same of a bundle that is a part, which has no parts."""
    if name == CONSTANTS:
        return archive.MAX_BYTES
    return VOCABULARY_BYTES if _VOCABULARY.fullmatch(name) else None


def _vocabularies(members: Mapping[str, memoryview], source: str) -> Vocabularies:
    """The optional members of this bundle; what can be checked without parsing is checked now."""
    found = {match[1]: data for name, data in members.items() if (match := _VOCABULARY.fullmatch(name))}
    said = f"{len(found)} vocabularies, more than the limit of {MOST_VOCABULARIES}"
    check(len(found) <= MOST_VOCABULARIES, source, "archive", said)
    for name, data in found.items():
        check(not len(data) or data[-1] == 10, source, f"vocabularies/{name}.txt", "the last line is cut off")
    return Vocabularies(found, source)


def _labels(text: str, source: str) -> list[str]:
    check(not text or text.endswith("\n"), source, "labels.txt", "the last line has no end")
    return text.split("\n")[:-1]
