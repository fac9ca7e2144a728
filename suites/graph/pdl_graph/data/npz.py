"""Arrays out of .npz files, looked over as they come."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pdl.data.faults import fault, unreadable


def read_arrays(path: Path, kinds: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The named arrays of an .npz file; `kinds` are the letters of their dtypes: {"y": "iu", "x": "f"}.

    DataFault for a damaged file, an absent array, and one of another kind. Nothing is unpickled.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            absent = [name for name in kinds if name not in file]
            if absent:
                what = f"has no array {absent[0]!r}, only {', '.join(sorted(file)[:20])}"
                raise fault(path, what, f"give it the arrays {', '.join(kinds)}")
            held = {name: file[name] for name in kinds}
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise fault(path, f"is no readable .npz file: {error}", "get it again from its source") from error
    for name, letters in kinds.items():
        if held[name].dtype.kind not in letters:
            raise fault(path, f"array {name!r} has dtype {held[name].dtype}", "save it as numbers of the right kind")
    return held
