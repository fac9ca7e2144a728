"""What passes did, for people: ``PDL_LOG=plan`` writes one line a change to stderr.

No logger is configured and nothing is kept: without the variable a call costs a look at the environment.
"""

from __future__ import annotations

import os
import sys

from pdl.program.ir import Program


def wanted() -> bool:
    """Whether ``plan`` is among the words of PDL_LOG (comma between them)."""
    return "plan" in os.environ.get("PDL_LOG", "").split(",")


def log(program: Program, text: str) -> None:
    """Say what a pass did to `program`."""
    if wanted():
        said = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in f"plan {program.name}: {text}")
        sys.stderr.write(f"{said}\n")  # names may be a stranger's
