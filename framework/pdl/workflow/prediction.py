"""Prediction: a run folder, a bundle, or a name of the hub answers for new inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from pdl.errors import DataError, UsageError, listed
from pdl.files import replacing
from pdl.report.answers import free, rendered
from pdl.report.answers import save as save_drawing
from pdl.runtime.bundle import is_bundle
from pdl.runtime.cutting import VAD
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Configured, Prediction, Predictor, expanded, pipeline_of
from pdl.runtime.predict import predict as predict_each
from pdl.runtime.session import load
from pdl.runtime.steps import Flag
from pdl.runtime.steps.inputs import Input
from pdl.runtime.steps.outputs import Form, Pages
from pdl.runtime.videos import Film, VideoWriter
from pdl.workflow.addresses import fetched, is_address
from pdl.workflow.locating import require_bundle
from pdl.workflow.systems import SUFFIXES, open_file


def open_model(
    model: str | Path, *, weights: str | None = None, timeout: float | None = None, max_memory: int | None = None
) -> Predictor:
    """What answers for a run folder, a bundle, a name of the hub, which is fetched when it is first used, or a file of
    several that answer together (`pdl.workflow.systems`).

    weights      of a run: "best" or "last"; by default those its own test used
    timeout      seconds that preparing a bundle may take, and each run of it
    max_memory   bytes that a run of a bundle may take

    A bundle runs in pdl's runtime, without any training code. UsageError, with suggestions, for what is none of these.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        from pdl.workflow.run import Run

        require_bundle(model, max_memory=max_memory)
        run = Run.open(path).opened(weights)
        return run.task.deployer(run.recipe).predictor(run.model.eval())
    if weights is not None:
        raise UsageError(f"{model}: a bundle holds one set of weights, so there is nothing to choose from")
    if is_bundle(path) and path.is_file():
        return load(path, timeout=timeout, max_memory=max_memory)
    if path.suffix in SUFFIXES and path.is_file():
        return open_file(path, partial(open_model, timeout=timeout, max_memory=max_memory))
    from pdl.export.from_hub import open_system
    from pdl.hub.systems import system
    from pdl.workflow.locating import located

    known = None if path.exists() else system(model)
    held = {"timeout": timeout, "max_memory": max_memory}
    return load(located(str(model)), **held) if known is None else open_system(known, **held)  # type: ignore[arg-type]


def predict(
    model: str | Path | Predictor,
    inputs: Sequence[Any],
    *,
    topk: int | None = None,
    score: float | None = None,
    tiles: int | None = None,
    batch_size: int | None = None,
    weights: str | None = None,
    save: str | Path | None = None,
    form: str | None = None,
    timeout: float | None = None,
) -> list[dict[str, Any]]:
    """The predictions of a run, a bundle, a name of the hub, or what `open_model` gave, as plain values; see
    `pdl.runtime.predict.predict` for what an input may be.

    With `save` every prediction is drawn into a file of that folder, whose path is added under "saved"; with `form`,
    the name of one that the model offers ("pdf", "md", ... of those that read text), it is written so. `timeout` is in
    seconds, for opening the model and for each group of inputs.
    """
    predictor = open_model(model, weights=weights, timeout=timeout) if isinstance(model, str | Path) else model
    found = predict_each(predictor, inputs, topk=topk, score=score, tiles=tiles, batch_size=batch_size, timeout=timeout)
    if save is None:
        require_no_form(form)
        return [each.to_dict() for each in found]
    with saver(save, form, pipeline_of(predictor)) as files:
        return [{**each.to_dict(), "saved": str(files.add(each))} for each in found]


def require_no_form(form: str | None) -> None:
    """UsageError for a form of files where no folder is named for them."""
    if form is not None:
        raise UsageError(f"--format {form} says what --save writes: add --save DIR")


def saver(place: str | Path, form: str | None, pipeline: Pipeline) -> Drawings | Documents:
    """What saves predictions in a folder: as drawings, or in the form of this name; or one in a file, whose suffix is
    that of a form. UsageError for a form that the model does not have."""
    known = {each.name: each for each in pipeline.forms}
    path = Path(place)
    if form is None and not path.is_dir():
        named = next((each for each in pipeline.forms if path.suffix.lower() == each.suffix), None)
        if named is not None:
            return Documents(path.parent, named, path)
    if form is None:
        return Drawings(place)
    if form not in known:
        have = f"it has {listed(list(known))}" if known else "its answers are drawn: leave out --format"
        raise UsageError(f"this model's answers are not saved as {form!r:.60}; {have}")
    return Documents(place, known[form])


class Drawings:
    """Draws predictions into files of a folder, which is made if need be: each into its own, the frames of a video into
    one. A context, at whose end videos are finished."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._films: dict[Film, VideoWriter] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for film in self._films.values():
            film.close()

    def add(self, prediction: Prediction) -> Path:
        """Draw one; the file."""
        drawing, film = prediction.draw(), prediction.film
        if film is None or drawing.image is None:
            return save_drawing(drawing, self.folder, _title(prediction))
        if film not in self._films:
            self._films[film] = VideoWriter(free(self.folder, Path(film.name).stem, ".mp4"), film.rate)
        self._films[film].write(rendered(drawing))
        return self._films[film].path


def _title(prediction: Prediction) -> str:
    """The name of the drawing of a prediction: scan-3.png of the third page of scan.pdf."""
    page = prediction.page
    return prediction.name if page is None else f"{Path(page.document).stem}-{page.number}.png"


class Documents:
    """Writes predictions into files of a folder in a form of the model's: each into its own, the pages of a document,
    and the frames of a video, into one, which is there when it is finished. A context, at whose end the last one is; a
    file that an error ends is removed.

    file   the only one that there may be, in place of those named after inputs
    """

    def __init__(self, folder: str | Path, form: Form, file: Path | None = None) -> None:
        self.folder, self.form, self.file = Path(folder), form, file
        self._open = ExitStack()
        self._pages: Pages | None = None
        self._path = Path()
        self._last: tuple[Any, int] = (None, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self._finish()
        else:
            self._open.__exit__(kind, error, trace)

    def add(self, prediction: Prediction) -> Path:
        """Write one; the file that it will be in."""
        name, number = self._place(prediction)
        if self._pages is None or name is None or name != self._last[0] or number <= self._last[1]:
            self._finish()
            self._begin(prediction.name if name is None else name)
        self._last = name, number
        assert self._pages is not None
        self._pages.add(prediction)
        return self._path

    def _place(self, prediction: Prediction) -> tuple[str | None, int]:
        """What a prediction is a part of, and where there; None of one that is a whole."""
        if prediction.page is not None:
            return prediction.page.document, prediction.page.number
        return (None, 0) if prediction.film is None else (prediction.film.name, self._last[1] + 1)

    def _begin(self, name: str) -> None:
        if self.file is not None and self._path == self.file:
            raise UsageError(
                f"--save {self.file}: a file holds one input; for several name a folder, with --format {self.form.name}"
            )
        self._path = self.file or free(self.folder, Path(name).stem, self.form.suffix)
        part = self._open.enter_context(replacing(self._path))
        self._pages = self.form.begin(self._open.enter_context(part.open("wb")), Path(name).name)

    def _finish(self) -> None:
        if self._pages is not None:
            self._pages.close()
            self._pages = None
            self._open.close()


def predict_words(
    predictor: Predictor,
    words: Sequence[str],
    values: Mapping[str, Sequence[str]],
    *,
    topk: int | None = None,
    score: float | None = None,
    tiles: int | None = None,
    batch_size: int | None = None,
    strict: bool = False,
    skip: int = 0,
    timeout: float | None = None,
) -> Iterator[Prediction]:
    """The predictions for inputs as they stand on a command line: `words`, and the values of the options of the model's
    steps by name ({"--row": ["x=1"]}).

    A word may be an address of an image, or of a file of many inputs (`pdl.workflow.addresses`). Of several inputs one
    that cannot be had or read, or that the model can say nothing about, gives an error and stops no other, unless
    `strict`. The first `skip` inputs are left out.
    """
    own = {flag.name for flag in pipeline_of(predictor).flags}
    if own & values.keys():
        predictor = Configured.of(predictor, {name: given for name, given in values.items() if name in own})
    step, several = pipeline_of(predictor).input, len(words) > 1
    if alone := [flag.name for flag in step.stream_flags if flag.name in values]:
        raise UsageError(f"{listed(alone)} is of streams: add --stream")
    with TemporaryDirectory(prefix="pdl-inputs-") as folder:
        given: list[Any] = []
        for word in words:
            try:
                given.append(fetched(word, step, Path(folder)) if is_address(word, step) else step.from_word(word))
            except DataError as error:
                if strict or not several:
                    raise
                given.append(Input(word, None, error=str(error)))
        given += step.from_flags(values)
        skips = False if strict else True if several else None
        options: dict[str, Any] = {"topk": topk, "score": score, "tiles": tiles, "batch_size": batch_size}
        yield from predict_each(predictor, given, **options, skip_errors=skips, skip=skip, timeout=timeout)


def stream_words(
    predictor: Predictor, words: Sequence[str], values: Mapping[str, Sequence[str]]
) -> Iterator[Iterator[str]]:
    """For each input on a command line, as `predict_words` takes them, its text by a model that writes, bit by bit.
    The first input that cannot be read ends it."""
    from pdl.runtime.decoding.writer import streamed

    own = {flag.name for flag in pipeline_of(predictor).flags}
    predictor = Configured.of(predictor, {name: given for name, given in values.items() if name in own})
    step = pipeline_of(predictor).input
    things = [*(step.from_word(word) for word in words), *step.from_flags(values)]
    for each in expanded(things, step):
        yield streamed(predictor, each.item)


def follow_words(
    predictor: Predictor, words: Sequence[str], values: Mapping[str, Sequence[str]]
) -> Iterator[list[dict[str, Any]]]:
    """The events of one stream that words and options of a command line stand for, as they come, by a model that reads
    chunk by chunk. Ctrl-C ends the stream, and what was heard until then is answered."""
    if VAD.name in values:
        raise UsageError(f"{VAD.name} cuts recordings that are there as a whole; leave it out, or --stream")
    own = {flag.name for flag in pipeline_of(predictor).flags}
    configured = Configured.of(predictor, {name: given for name, given in values.items() if name in own})
    options, pieces = configured.pipeline.input.stream_pieces(words, values)
    stream = configured.stream(**options)
    with suppress(KeyboardInterrupt):
        for piece in pieces:
            yield stream.push(piece)
    yield stream.finish()


def options_of(pipeline: Pipeline) -> list[Flag]:
    """The options that `pdl predict` has for a model: of its input, its answers, and the files that it writes."""
    written = (Flag(each.option, "OUT", each.help) for each in pipeline.writers)
    return [*pipeline.input.flags, *pipeline.flags, *written]


def parse_options(pipeline: Pipeline, arguments: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Words, and the values of options, of arguments of a command line: "--row x=1" or "--row=x=1". Options are those
    of the model's input and of the files that it writes. UsageError, with all of them, for one that it does not have.
    """
    step, flags = pipeline.input, options_of(pipeline)
    have = "".join(f", or {flag.name} {flag.metavar}" for flag in flags)
    takes = step.about or step.takes
    return parse_flags(flags, arguments, lambda name: f"this model has no option {name}; it takes {takes}{have}")


def parse_flags(
    flags: Sequence[Flag], arguments: Sequence[str], refusal: Callable[[str], str]
) -> tuple[list[str], dict[str, list[str]]]:
    """The same for the options `flags`; `refusal` says of the name of one that is not there that it is not."""
    known = {flag.name: flag for flag in flags}
    words: list[str] = []
    values: dict[str, list[str]] = {}
    waiting = iter(arguments)
    for argument in waiting:
        if not argument.startswith("--") and argument not in known:
            words.append(argument)
        else:
            name, equals, value = argument.partition("=")
            if name not in known:
                raise UsageError(refusal(name))
            if not known[name].metavar:
                if equals:
                    raise UsageError(f"{name} takes no value")
                values[name] = ["yes"]
                continue
            given = value if equals else next(waiting, None)
            if given is None:
                raise UsageError(f"{name} needs a value: {name} {known[name].metavar}")
            values.setdefault(name, []).append(given)
    return words, values
