"""Names that stand for files: `pdl.runtime.load("cv/digits_lenet")`.

Who reads files stands below who knows such names. The front door, `pdl`, introduces them to one another.
"""

from __future__ import annotations

import os
import re
from importlib import import_module

finder = ""
"""`module:function` that gives the file behind a name, and fetches it if need be; imported when it is first asked."""


def find(text: str) -> str | None:
    """The file behind a name; None for what can be no name: a path, or a file that is there. Raises what the finder
    raises for a name that it does not know."""
    if not finder or os.path.exists(text) or not re.fullmatch(r"\w[\w-]*(/\w[\w-]*)?", text):
        return None
    module, _, function = finder.partition(":")
    return str(getattr(import_module(module), function)(text))
