"""Texts with classes, a row each: csv, tsv, JSON lines, or columns of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_nlp.data import standin
from pdl_nlp.data.base import SPLITS, Texts, called, part_of, require_some, sorted_names
from pdl_nlp.data.reading import Normal, Row, document, locate, rows, text_of, value


class TextFile(Texts):
    """Texts out of a table with a header (*.csv, *.tsv), of JSON lines (*.jsonl), of lists in a JSON object (`keys`),
    or of lines of columns without a header; each also .gz, .bz2 or .xz. UTF-8, or UTF-16 with a byte order mark.

    path          a relative one is also looked for below PDL_DATA
    text, label   the columns (of JSON the keys) of text and class
    pair          that of a second text, for tasks on pairs
    columns       of a file without a header, in their order; the last one has the rest of the line: [label, text]
    keys          of a file that is one JSON object: those whose lists hold the rows. A row is an object, or a list with
                  its `columns` in their order
    separator     between columns; by default a comma in .csv, else a tab. Quotes count in csv alone
    several       what is between the classes of one text (","; JSON may have a list): texts have any number of classes
    names         what the file's classes are called: {"0": negative, "1": positive}
    classes       their names in the order of their numbers; by default those that occur, sorted
    leave_out     classes, as the file calls them, whose rows are left out
    split         the part to take, where `split_column` or `ratios` cut the file
    split_column  a column with the split of each row: train, val (dev, valid, validation) or test
    ratios        {train: 0.8, val: 0.1, test: 0.1}: by a hash of the text and `seed`, so equal texts stay together
    normalise     a form of Unicode that texts are brought into, such as NFKC; by default they stay as they are written.
                  What answers later reads texts as they come
    address       where a missing file can be had, as `pdl.data.to_get` takes it
    """

    def __init__(
        self,
        path: str | Path,
        *,
        text: str = "text",
        label: str = "label",
        pair: str | None = None,
        columns: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        separator: str | None = None,
        several: str | None = None,
        names: Mapping[str, str] | None = None,
        classes: Sequence[str] | None = None,
        leave_out: Sequence[str] = (),
        split: str | None = None,
        split_column: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        normalise: Normal | None = None,
        address: str | None = None,
    ) -> None:
        if split_column is not None and ratios is not None:
            raise ConfigError("TextFile: split_column and ratios both cut the file; give one of them")
        file = locate(path, address)
        self.columns = {"text": text, "label": label, **({} if pair is None else {"pair": pair})}
        found = list(rows(file, columns, separator) if keys is None else document(file, keys, columns))
        if leave_out:
            found = [row for row in found if str(value(row, label, file)) not in leave_out]
        spelled = {str(name): str(called) for name, called in (names or {}).items()}
        labels = [_classes(row, label, several, spelled, file) for row in found]
        texts = [text_of(row, text, file, normalise) for row in found]
        pairs = None if pair is None else [text_of(row, pair, file, normalise) for row in found]
        if classes is None:
            classes = sorted_names(name for each in labels for name in each)
            order = list(spelled.values())
            classes = [*(name for name in order if name in classes), *(name for name in classes if name not in order)]
        kept: Sequence[int] = range(len(found))
        if split_column is not None:
            said = [str(value(row, split_column, file)) for row in found]
            if not called("TextFile", split, said):
                advice = "correct split or split_column"
                raise fault(file, f"column {split_column!r} names no row {split}", advice)
            wanted = SPLITS.get(str(split), (str(split),))
            kept = [index for index, name in enumerate(said) if name in wanted]
        elif (cut := part_of("TextFile", texts, split, ratios, seed)) is not None:
            kept = cut.tolist()
        require_some(file, len(kept), split)
        super().__init__(
            [texts[i] for i in kept],
            [labels[i] if several is not None else labels[i][0] for i in kept],
            sources=file,
            lines=[found[i][0] for i in kept],
            pairs=None if pairs is None else [pairs[i] for i in kept],
            classes=classes,
            several=several is not None,
        )
        self.split = split

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path = standin.write_file(folder, settings)
        return StandIn({"path": str(path)}, standin.WHAT)


def _classes(row: Row, column: str, several: str | None, names: Mapping[str, str], path: Path) -> list[str]:
    """The classes of a row by name."""
    given = value(row, column, path)
    if several is not None:
        found = given if isinstance(given, list) else str(given).split(several)
        return [names.get(str(name).strip(), str(name).strip()) for name in found if str(name).strip()]
    if given is None or isinstance(given, list | dict) or not str(given).strip():
        advice = f"give it one, or take the row out; texts with several or no classes: several={','!r}"
        raise fault(path, f"{column} is {given!r:.40}, not a class", advice, line=row[0])
    return [names.get(str(given).strip(), str(given).strip())]
