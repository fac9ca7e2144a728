"""The models that a server has: versions of each, loaded from files, replaced while requests go on; which version
answers a request, and which one only tries to.
"""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import PdlError, UsageError, listed
from pdl.runtime.bench import random_inputs
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Predictor
from pdl.runtime.session import Port, Session
from pdl.serving.batching import LONE, Batcher, Batching, Closed, Job
from pdl.serving.errors import Refused
from pdl.serving.metrics import Metrics
from pdl.suites import suggest
from pdl.workflow.prediction import open_model

NAME, VERSION = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", r"[1-9][0-9]{0,8}"
BUNDLE = "model.pdl"
CHECKED = 3  # rows that are run together and one by one, to know whether requests may share a run
CLOSE = 60.0  # seconds that a version which was replaced may go on with its requests


@dataclass(frozen=True)
class Source:
    """Where a version of a model comes from: a bundle, a run folder, a name of the hub, or a file of a system."""

    name: str
    version: str
    place: str

    @property
    def file(self) -> Path | None:
        """The file that holds it; None of names of the hub."""
        path = Path(self.place).expanduser()
        path = path / BUNDLE if path.is_dir() else path
        return path if path.is_file() else None

    def stamp(self) -> tuple[int, ...]:
        """What changes when the file is another one."""
        file = self.file
        if file is None:
            return ()
        facts = file.stat()
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def sources(words: Sequence[str]) -> list[Source]:
    """What the words of a command line stand for: ``[NAME[:VERSION]=]PLACE``. Without a name it is that of the file, of
    the folder of a `model.pdl`, or the last part of a name of the hub; versions of one name count from 1. A folder
    with folders 1, 2, ... that hold a bundle each is a model with these versions."""
    found: list[Source] = []
    for word in words:
        lead, equals, place = word.partition("=")
        if not equals or "/" in lead:
            lead, place = "", word
        name, colon, version = lead.partition(":")
        name = name or _named(place)
        if re.fullmatch(NAME, name) is None:
            raise UsageError(
                f"{word!r}: {name!r:.60} is no name of a model; write NAME={place}, of letters, digits, _ . -"
            )
        if colon and re.fullmatch(VERSION, version) is None:
            raise UsageError(f"{word!r}: versions are numbers from 1 on, as in {name}:2={place}")
        folders = _versions(Path(place).expanduser())
        if folders and not version:
            found += [Source(name, number, str(path)) for number, path in folders.items()]
            continue
        if not version:
            version = str(max((int(each.version) for each in found if each.name == name), default=0) + 1)
        found.append(Source(name, version, place))
    keys = [(each.name, each.version) for each in found]
    if twice := [f"{name}:{version}" for name, version in set(keys) if keys.count((name, version)) > 1]:
        raise UsageError(f"{listed(sorted(twice))} is named twice; give each version a number: NAME:2=PLACE")
    return found


def _named(place: str) -> str:
    path = Path(place)
    stem = path.parent.name if path.name == BUNDLE and path.parent.name else path.stem
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", stem).strip("_.-") or "model"


def _versions(folder: Path) -> dict[str, Path]:
    if not folder.is_dir() or (folder / BUNDLE).is_file():
        return {}
    numbers = [each for each in folder.iterdir() if re.fullmatch(VERSION, each.name) and each.is_dir()]
    found = {}
    for each in sorted(numbers, key=lambda path: int(path.name)):
        bundles = sorted(each.glob("*.pdl"))
        if len(bundles) == 1:
            found[each.name] = bundles[0]
    return found


class Version:
    """A version of a model, ready to answer: requests go through `batcher`, also those of `predictor`, which answers
    as `pdl predict` does.

    inputs, outputs   the ports that take arrays; none where the model answers inputs of its pipeline alone
    """

    def __init__(
        self, source: Source, policy: Batching, metrics: Metrics, *, options: Mapping[str, Any], threads: int = 1
    ) -> None:
        self.source, self.name, self.version = source, source.name, source.version
        self.stamp, self.loaded = source.stamp(), time()
        place = source.file
        self.predictor: Predictor = open_model(source.place if place is None else place, **options)
        session = self.predictor if isinstance(self.predictor, Session) else None
        self.pipeline: Pipeline | None = self.predictor.pipeline
        plain = session is not None and session.bundle is not None and session.bundle.kind in ("program", "onnx")
        self.session = session if plain else None
        self.inputs: tuple[Port, ...] = session.inputs if session is not None and plain else ()
        self.outputs: tuple[Port, ...] = session.outputs if session is not None and plain else ()
        self.joins = self.session is not None and rows_are_alone(self.session)
        self.labels = {"model": self.name, "version": self.version}
        rows, seconds = (metrics.histogram(f"pdl_batch_{what}", **self.labels) for what in ("rows", "seconds"))

        def seen(count: int, jobs: int, took: float) -> None:
            rows.see(count)
            seconds.see(took)

        self.batcher = Batcher(f"{self.name}:{self.version}", self._run, policy, joins=self.joins, seen=seen,
                               threads=threads)  # fmt: skip
        self.size = 0 if session is None or session.bundle is None else session.bundle.size
        metrics.gauge("pdl_model_bytes", float(self.size), **self.labels)
        if self.joins:
            self._warm()
        self.counters: dict[Any, Any] = {}  # series that requests of this version are counted in

    def _run(self, arrays: Mapping[str, Array], seconds: float | None) -> Mapping[str, Array]:
        if self.session is not None:
            return self.session.run(arrays, timeout=seconds)
        from pdl.limits import limited

        with limited(self.name, seconds=seconds):
            return self.predictor.run(dict(arrays))

    def _warm(self) -> None:
        """Make the plans of all sizes of batches, and measure their runs, so that no request waits for that."""
        assert self.session is not None
        self.batcher.measure(random_inputs(self.session, self.batcher.sizes[-1], {}))

    def rows(self, arrays: Mapping[str, Array]) -> int:
        """Rows of a request's arrays; Refused where they differ."""
        if not self.joins:
            return 1
        count = 0
        for x in arrays.values():
            if x.shape[0] != count and count:
                raise Refused(400, "bad_request", "inputs differ in rows; all must have as many")
            count = x.shape[0]
        return count

    def about(self) -> dict[str, Any]:
        """What its pipeline takes, for people and for the page."""
        if self.pipeline is None:
            return {"model": self.name, "version": self.version, "takes": None}
        step = self.pipeline.input
        article = "an" if step.takes[0] in "aeiou" else "a"
        content = f"the file of {article} {step.takes}"  # and not all that a shell can name
        fields = sorted({str(c) for each in self.pipeline.inputs.values() for c in getattr(each, "known", ())})
        return {
            "model": self.name, "version": self.version, "takes": step.takes,
            "about": content if step.takes_content else step.about,
            "content": step.takes_content, "columns": fields, "ranks": self.pipeline.ranks,
            "least": self.pipeline.least,
        }  # fmt: skip


class Batched:
    """A predictor whose arrays run in the batches of a version, each run within so many seconds."""

    def __init__(self, version: Version, seconds: float | None = None) -> None:
        self.version, self.pipeline, self.seconds = version, version.pipeline, seconds

    def run(self, inputs: dict[str, Array], /) -> Mapping[str, Array]:
        """The outputs."""
        version = self.version
        return version.batcher.ask(inputs, version.rows(inputs), self.seconds)


def rows_are_alone(session: Session) -> bool:
    """Whether the answer for a row does not depend on the rows beside it, so that requests may share a run: the first
    axis of all inputs and outputs is one size that may vary, no other does, and rows that are run together give what
    each gives by itself."""
    texts: set[str] = set()
    for port in (*session.inputs, *session.outputs):
        if not port.shape or not isinstance(port.shape[0], Dim):
            return False
        texts.add(port.shape[0].text)
    if len(texts) != 1:
        return False
    try:
        together = random_inputs(session, CHECKED, {})
        outputs = session.run(together)
        for row in range(CHECKED):
            alone = session.run({name: np.ascontiguousarray(x[row : row + 1]) for name, x in together.items()})
            for name, y in outputs.items():
                if y.shape[0] != CHECKED or not np.allclose(
                    alone[name][0], y[row], rtol=1e-3, atol=1e-4, equal_nan=True
                ):
                    return False
    except PdlError:
        return False
    return True


@dataclass
class Entry:
    """A model: its versions, what share of requests each answers, and what only tries to.

    weights  version -> share of the requests that name no version; empty: the highest version answers all
    shadow   the version that answers them, too, with nobody told what
    """

    versions: dict[str, Version] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    shadow: str | None = None
    turn: float = 0.0


class Models:
    """All models of a server.

    policy    of batches
    options   of `open_model`
    seconds   that a request may take
    """

    def __init__(
        self,
        given: Sequence[Source],
        *,
        policy: Batching | None = None,
        metrics: Metrics | None = None,
        weights: Mapping[str, Mapping[str, float]] | None = None,
        shadows: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        seconds: float = 30.0,
        tell: Callable[..., None] | None = None,
    ) -> None:
        self.policy, self.metrics = policy or Batching(), metrics or Metrics()
        self.options, self.seconds = dict(options or {}), seconds
        self.tell = tell or (lambda event, **facts: None)
        self.given = {(each.name, each.version): each for each in given}
        self.entries: dict[str, Entry] = {}
        self._loading = threading.Lock()
        for each in given:
            self.entries.setdefault(each.name, Entry())
        for name, shares in (weights or {}).items():
            self._require(name, shares, "--split")
            self.entries[name].weights = {version: float(share) for version, share in shares.items() if share > 0}
            if not self.entries[name].weights or min(shares.values()) < 0:
                raise UsageError(f"--split {name}: shares are numbers of at least 0, one of them above")
        for name, version in (shadows or {}).items():
            self._require(name, [version], "--shadow")
            self.entries[name].shadow = version
            if not self._answering(name):
                raise UsageError(f"--shadow {name}={version}: no other version is there to answer")

    def _require(self, name: str, versions: Sequence[str] | Mapping[str, float], option: str) -> None:
        for version in versions:
            if (name, version) not in self.given:
                known = [f"{n}:{v}" for n, v in self.given]
                raise UsageError(f"{option} {name}: there is no {name}:{version}; served are {listed(known)}")

    def _answering(self, name: str) -> list[str]:
        entry = self.entries[name]
        return list(entry.weights) or [v for n, v in self.given if n == name and v != entry.shadow]

    # -- loading -------------------------------------------------------------------------------------------------------
    def load_all(self) -> None:
        """Load all versions; the first one that cannot be ends it."""
        for source in self.given.values():
            self._load(source)

    def _load(self, source: Source) -> None:
        try:
            made = Version(source, self.policy, self.metrics, options=self.options)
        except BaseException:
            self.metrics.count("pdl_loads_total", model=source.name, version=source.version, outcome="failed")
            raise
        self.metrics.count("pdl_loads_total", model=source.name, version=source.version, outcome="loaded")
        versions = dict(self.entries[source.name].versions)
        old = versions.get(source.version)
        versions[source.version] = made
        self.entries[source.name].versions = versions  # from now on requests go to it
        self.tell("loaded", model=source.name, version=source.version, file=source.place, batches=made.joins)
        if old is not None:
            old.batcher.close(CLOSE)
            del old
            _collect()

    def reload(self, name: str | None = None) -> list[str]:
        """Load the versions whose files have changed, or are not loaded; those that cannot be stay as they are, and
        why is returned. Requests go on all the while: each is answered by the version that it came to."""
        faults = []
        with self._loading:
            for source in self.given.values():
                if name is not None and source.name != name:
                    continue
                now = self.entries[source.name].versions.get(source.version)
                try:
                    if now is None or source.stamp() != now.stamp:
                        self._load(source)
                except (PdlError, OSError) as error:
                    faults.append(f"{source.name}:{source.version}: {error}")
                    self.tell("load failed", model=source.name, version=source.version, error=str(error))
        return faults

    def unload(self, name: str) -> None:
        """Let go all versions of a model, after they have answered what they were asked."""
        self.entry(name)
        with self._loading:
            gone, self.entries[name].versions = self.entries[name].versions, {}
            for version in gone.values():
                version.batcher.close(CLOSE)
                self.tell("unloaded", model=name, version=version.version)
            gone = {}
            _collect()

    def close(self, seconds: float) -> bool:
        """Answer all that waits; whether that was done within so many seconds."""
        return all(version.batcher.close(seconds) for version in self)

    # -- which one answers ---------------------------------------------------------------------------------------------
    def __iter__(self) -> Iterator[Version]:
        return (version for entry in self.entries.values() for version in entry.versions.values())

    @property
    def ready(self) -> bool:
        """Whether all that is served is loaded."""
        return all((name, v) in self.given and v in self.entries[name].versions for name, v in self.given)

    def entry(self, name: str) -> Entry:
        """A model by its name; Refused (404) where there is none."""
        found = self.entries.get(name)
        if found is None:
            have = f"served are {listed(self.entries)}"
            raise Refused(
                404, "unknown_model", f"no model {name!r:.60}{suggest(name[:60], list(self.entries))}; {have}"
            )
        return found

    def find(self, name: str, version: str = "") -> Version:
        """The version that answers a request, one that is asked for, or the one whose turn it is."""
        entry = self.entries.get(name) or self.entry(name)
        versions = entry.versions
        if version:
            found = versions.get(version)
            if found is None:
                have = listed(versions) or "none, as it is not loaded"
                raise Refused(404, "unknown_version", f"no version {version!r:.20} of {name}; it has {have}")
            return found
        if not versions:
            raise Refused(503, "not_loaded", f"{name} is not loaded", retry=5)
        if len(versions) == 1:
            return next(iter(versions.values()))
        if entry.weights:
            version = self._turn(entry)
        else:
            version = max((v for v in versions if v != entry.shadow), key=int, default=next(iter(versions)))
        return versions.get(version) or next(iter(versions.values()))

    @staticmethod
    def _turn(entry: Entry) -> str:
        """The next version by shares: along the golden ratio, so that any few requests are parted about as all are."""
        entry.turn = (entry.turn + 0.6180339887498949) % 1.0
        at = entry.turn * sum(entry.weights.values())
        for version, share in entry.weights.items():
            at -= share
            if at < 0:
                return version
        return version

    def submit(self, version: Version, job: Job, later: Any, *, lone: bool = False) -> Version:
        """Put a job into the queue of a version, and return it; where it is being replaced, that of its successor.
        `later` as `Batcher.submit` has it, for runs that are short; `lone`: nothing else has been asked, so it may run
        at once."""
        for _ in range(8):
            batcher = version.batcher
            try:
                if not (lone and batcher.quick(job.rows, LONE) and batcher.run_now(job)):
                    batcher.submit(job, later if batcher.quick(job.rows) else None)
            except Closed:
                version = self.find(version.name, version.version)
                continue
            return version
        raise Refused(503, "not_loaded", f"{version.name} is being replaced again and again", retry=1)

    def shadow_of(self, version: Version) -> Version | None:
        """What answers requests to this version, too, unless its queue is half full."""
        entry = self.entries.get(version.name)
        if entry is None or entry.shadow is None or entry.shadow == version.version:
            return None
        found = entry.versions.get(entry.shadow)
        if found is not None and found.batcher.waiting * 2 > self.policy.waiting:
            self.metrics.count("pdl_shadow_total", 1, **found.labels, outcome="left_out")
            return None
        return found

    def mirror(self, version: Version, arrays: Mapping[str, Array], rows: int, outputs: Mapping[str, Array]) -> None:
        """Let the shadow of a version answer the same arrays, and count by how much its outputs differ."""
        shadow = self.shadow_of(version)
        if shadow is None:
            return
        metrics, labels = self.metrics, shadow.labels

        def compare(jobs: list[Job]) -> None:
            for job in jobs:
                outcome = "failed"
                if job.error is None and job.outputs is not None:
                    outcome, far = "answered", _difference(outputs, job.outputs)
                    if far is None:
                        outcome = "other_shape"
                    else:
                        metrics.histogram("pdl_shadow_difference", **labels).see(far)
                metrics.count("pdl_shadow_total", 1, **labels, outcome=outcome)

        try:
            shadow.batcher.submit(Job(arrays, rows, compare, self.seconds))
        except (Refused, Closed):
            metrics.count("pdl_shadow_total", 1, **labels, outcome="left_out")


def _collect() -> None:
    """Free what a version held: its objects name one another, and Python would look for such circles too rarely."""
    frozen = gc.get_freeze_count()
    if frozen:
        gc.unfreeze()
    gc.collect()
    if frozen:
        gc.freeze()


def _difference(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float | None:
    """The largest between numbers of two sets of outputs; None where their shapes differ."""
    if ours.keys() != theirs.keys() or any(y.shape != theirs[name].shape for name, y in ours.items()):
        return None
    far = [np.abs(y.astype(np.float64) - theirs[name].astype(np.float64)).max(initial=0.0) for name, y in ours.items()]
    return float(np.nan_to_num(max(far, default=0.0), nan=np.inf))


def shares(words: Sequence[str]) -> dict[str, dict[str, float]]:
    """Of ``NAME=1:90,2:10`` the shares of the versions of each name."""
    found: dict[str, dict[str, float]] = {}
    for word in words:
        name, _, rest = word.partition("=")
        try:
            pairs = [part.split(":") for part in rest.split(",")]
            found[name] = {version: float(share) for version, share in pairs}
        except ValueError:
            raise UsageError(f"--split {word!r}: expected NAME=VERSION:SHARE,..., as in digits=1:90,2:10") from None
    return found


def shadowed(words: Sequence[str]) -> dict[str, str]:
    """Of ``NAME=2`` the version that is a shadow."""
    found = dict(word.partition("=")[::2] for word in words)
    if wrong := [word for word in words if not word.partition("=")[2]]:
        raise UsageError(f"--shadow {wrong[0]!r}: expected NAME=VERSION, as in digits=2")
    return found
