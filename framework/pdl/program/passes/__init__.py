"""Rewriting programs. A pass changes a program in place; the verifier runs after each one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pdl.limits import check_time
from pdl.program.ir import Program
from pdl.program.passes.affine import fold_norms
from pdl.program.passes.attention import fuse_attention, join_projections
from pdl.program.passes.chain import make_chains
from pdl.program.passes.cleanup import drop_aliases, drop_indices, merge_equal, remove_dead
from pdl.program.passes.fold import fold_constants
from pdl.program.passes.fuse import fuse
from pdl.program.passes.fuse_inference import fuse_epilogues
from pdl.program.passes.fuse_quantised import fuse_quantised
from pdl.program.passes.layout import sink_permutations
from pdl.program.passes.log import log
from pdl.program.passes.lower import lower
from pdl.program.passes.narrow import narrow_slices
from pdl.program.passes.norms import name_group_norms, name_norms
from pdl.program.passes.recognise import name_activations
from pdl.program.passes.scatter import add_rows, join_rows
from pdl.program.verify import verify

Pass: TypeAlias = "Callable[[Program], None]"

#: on the forward part, before gradients are appended
FORWARD: tuple[Pass, ...] = (remove_dead, merge_equal, fuse)
#: on whole programs
FINAL: tuple[Pass, ...] = (drop_aliases, merge_equal, add_rows, join_rows, remove_dead)
_NAMES: tuple[Pass, ...] = (name_activations, name_norms, fuse_attention)
#: once for a model that learns no more; sizes may be symbolic (`pdl.program.dims`), so no pass makes one a constant
INFERENCE_ONCE: tuple[Pass, ...] = (
    drop_aliases, remove_dead, fuse_quantised, fold_constants, merge_equal, lower, *_NAMES, name_group_norms,
    sink_permutations, merge_equal, *_NAMES, fold_norms, join_projections, fuse_epilogues, narrow_slices,
    remove_dead,
)  # fmt: skip
#: for each tuple of input shapes, when all sizes are numbers
PER_SHAPE: tuple[Pass, ...] = (fold_constants, make_chains, remove_dead, drop_indices)


def run_passes(program: Program, passes: Sequence[Pass]) -> Program:
    """Apply passes in order, each followed by the verifier."""
    for each in passes:
        check_time()
        each(program)
        verify(program, after=each.__name__)
    return program


__all__ = ["FINAL", "FORWARD", "INFERENCE_ONCE", "PER_SHAPE", "Pass", "log", "run_passes"]
