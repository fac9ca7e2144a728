"""`teacher`: a trained model as a module that a net learns from, wherever it comes from."""

from __future__ import annotations

from pathlib import Path

from pdl.errors import UsageError
from pdl.export.from_hub import bundle_of
from pdl.nn import Module
from pdl.onnx.importer import load_model
from pdl.ops import permute_dims
from pdl.program import Program, bind, specialise
from pdl.program.replay import replay
from pdl.runtime.bundle import read
from pdl.tensor import Tensor
from pdl.workflow.run import Run

IMAGES = 4  # dimensions


class Replayed(Module):
    """A program in the place of a net: its ops, one by one, on arrays or in a trace.

    Images [N, H, W, C] are turned where the program takes [N, C, H, W], as most ONNX files do.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._plain: tuple[tuple[tuple[int, ...], ...], Program] | None = None

    def forward(self, *xs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The program's outputs; one of them as it is."""
        given = [self._turned(x, v.spec.shape) for x, v in zip(xs, self._program.inputs, strict=False)]
        shapes = tuple(tuple(int(n) for n in x.shape) for x in given)
        if self._plain is None or self._plain[0] != shapes:
            self._plain = shapes, specialise(self._program, bind(self._program, shapes))
        made = replay(self._plain[1], *given)
        return made[0] if len(made) == 1 else tuple(made)

    def _turned(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        first = x.ndim == IMAGES == len(shape) and shape[1] == x.shape[-1] and shape[-1] != x.shape[-1]
        return permute_dims(x, (0, 3, 1, 2)) if first else x


def teacher(word: str) -> Module:
    """The model of a run folder, a bundle, an ONNX file or a name of the hub, in evaluation mode. UsageError where it
    is no program that a net can be compared with."""
    path = Path(word)
    if (path / "config.yaml").is_file():
        return Run.open(path).opened().model.eval()
    if path.suffix == ".onnx":
        made = load_model(path).program
        if made is None:
            raise UsageError(f"{word}: its form depends on values of its inputs, so it is no program to learn from")
        return Replayed(made).eval()
    return Replayed(read(bundle_of(word)).build()).eval()
