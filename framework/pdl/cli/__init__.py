"""The command line. `main(argv) -> exit code` is the whole program; each command is one file, imported when it is
called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

#: what the command line is made with, and a plain install does not bring
NEEDED = ("typer", "click")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `pdl` with these arguments (those of the process by default) and return the exit code; raises nothing."""
    arguments = [*(sys.argv[1:] if argv is None else argv)]  # `list` is a command here
    if arguments[:1] in (["help"], ["version"]):  # as other programs have them
        arguments = [*arguments[1:], f"--{arguments[0]}"]
    if arguments in (["--help"], ["-h"]):
        return _help()
    try:
        from pdl.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        sys.stderr.write(
            f'error: the pdl command needs {error.name}: pip install "pdl-core[train]". Without it bundles run from '
            'Python: pdl.runtime.load("model.pdl")\n'
        )
        return 2
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
