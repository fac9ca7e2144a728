"""Rewriting programs. A pass changes a program in place; the verifier runs after each one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pdl.program.ir import Program
from pdl.program.passes.cleanup import drop_aliases, merge_equal, remove_dead
from pdl.program.passes.fuse import fuse
from pdl.program.verify import verify

Pass: TypeAlias = "Callable[[Program], None]"

#: on the forward part, before gradients are appended
FORWARD: tuple[Pass, ...] = (remove_dead, merge_equal, fuse)
#: on whole programs
FINAL: tuple[Pass, ...] = (drop_aliases, merge_equal, remove_dead)


def run_passes(program: Program, passes: Sequence[Pass]) -> Program:
    """Apply passes in order, each followed by the verifier."""
    for each in passes:
        each(program)
        verify(program, after=each.__name__)
    return program


__all__ = ["FINAL", "FORWARD", "Pass", "run_passes"]
