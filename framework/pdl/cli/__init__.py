"""The command line. `main(argv) -> exit code` is the whole program; each command is one file, imported when it is
called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `pdl` with these arguments (those of the process by default) and return the exit code; raises nothing."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--help"]:
        return _help()
    from pdl.cli.app import run

    return run(arguments)


def _help() -> int:
    """`pdl --help` without importing typer."""
    from pdl.cli import style
    from pdl.cli.overview import overview

    try:
        style.out(overview())
        style.flush()
    except SystemExit:
        return style.CLOSED_PIPE
    return 0
