"""Arrays out of .npz files, looked over as they come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.errors import listed
from pdl.runtime import arrays


def read_arrays(path: Path, kinds: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The named arrays of an .npz file; `kinds` are the letters of their dtypes: {"y": "iu", "x": "f"}.

    DataFault for a damaged file, an absent array, and one of another kind. Nothing is unpickled.
    """
    try:
        held = arrays.read_arrays(path, kinds)
        absent = [name for name in kinds if name not in held]
        if absent:
            what = f"has no array {absent[0]!r}, only {listed(sorted(arrays.names_in(path)), 20)}"
            raise fault(path, what, f"give it the arrays {', '.join(kinds)}")
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise fault(path, f"is no readable .npz file: {error}", "get it again from its source") from error
    for name, letters in kinds.items():
        if held[name].dtype.kind not in letters:
            raise fault(path, f"array {name!r} has dtype {held[name].dtype}", "save it as numbers of the right kind")
    return held
