"""Nets that write token by token: how they are asked for the next one."""

from __future__ import annotations

from pdl import ops
from pdl.decoder_state import Carried, Kept, KeyValues, first_lengths
from pdl.dtype import int64
from pdl.errors import UsageError
from pdl.nn.module import Module
from pdl.ops.base import apply
from pdl.ops.rotary import Positions
from pdl.tensor import Tensor


class Decoder(Module):
    """A net that writes token by token. `forward` is for training, all tokens at once; what writes calls

        memory = net.encode(*inputs)                                        once for a batch of sources
        state, lengths = net.start(rows, room, *memory)                     rows = sources * hypotheses of each
        scores, state = net.step(tokens, counts, lengths, state, *memory)   and lengths += counts, again and again

    `pdl.runtime.decoding` searches with these for the best words, in training, and in bundles, which hold `encode` and
    `step` as programs. Rows of a source are neighbours: row r belongs to source r // (rows / sources).
    """

    def kinds(self) -> tuple[Kept, ...]:
        """What `step` keeps: `KeyValues` and `Carried`, in the order of its state."""
        raise UsageError(f"{type(self).__name__} is a Decoder and must say by kinds() what its steps keep")

    def encode(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """What is computed once for a source, each [sources, ...]: keys and values of its positions, a mask; nothing of
        a net without sources."""
        if inputs:
            raise UsageError(f"{type(self).__name__} takes {len(inputs)} inputs and has no encode()")
        return ()

    def step(
        self, tokens: Tensor, counts: Tensor, lengths: Tensor, state: tuple[Tensor, ...], *memory: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(scores, state): scores [R, V] (logits) of what follows the last real token of each row.

        tokens int64 [R, T], one step or a prompt, of which counts [R] are real (of a row with 0 nothing is used);
        lengths int64 [R]: how many tokens each row has kept.
        """
        raise UsageError(f"{type(self).__name__} is a Decoder and must define step()")

    def start(self, rows: int, room: int, *memory: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """The state before the first token, with room for so many positions, and lengths int64 [rows]."""
        kinds, made = self.kinds(), list[Tensor]()

        def own(number: int) -> Tensor:
            return ops.repeat(memory[number], rows // max(1, memory[number].shape[0]), axis=0)

        for kind in kinds:
            if kind.memory is None:
                shape = (room, kind.width) if isinstance(kind, KeyValues) else kind.shape
                made.append(ops.zeros((rows, *shape), dtype=kind.dtype))
            elif isinstance(kind, KeyValues):
                first = own(kind.memory)
                behind = ops.zeros((rows, room - first.shape[1], kind.width), dtype=kind.dtype)
                made.append(ops.concat([first, behind], axis=1))
            else:
                made.append(own(kind.memory))
        lengths = first_lengths(kinds)
        return tuple(made), ops.zeros((rows,), dtype=int64) if lengths is None else own(lengths)


def positions(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Where tokens [R, T] stand behind those that are kept: int64 [R, T], lengths[r] + 0, 1, ... T - 1."""
    return ops.expand_dims(lengths, axis=1) + apply(Positions(1), tokens)  # type: ignore[no-any-return]


def attend_to_memory(
    q: Tensor, keys: Tensor, values: Tensor, *, heads: int, mask: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """Attention of rows to their sources, which are not repeated: q [R, T, heads E], keys [S, L, heads E], values
    [S, L, heads D] -> [R, T, heads D]; mask bool [S, L], False: kept out. Rows of a source are neighbours."""
    rows, steps, width = q.shape
    asking = ops.reshape(q, (keys.shape[0], -1, width))
    wide = None if mask is None else ops.expand_dims(ops.expand_dims(mask, axis=1), axis=1)
    y = ops.scaled_dot_product_attention(asking, keys, values, mask=wide, heads=heads, scale=scale)
    return ops.reshape(y, (rows, steps, values.shape[-1]))


def last_real(x: Tensor, counts: Tensor) -> Tensor:
    """[R, C] of x [R, T, C]: at the last real one of each row's positions."""
    at = ops.reshape(ops.maximum(counts - 1, 0), (-1, 1, 1))
    return ops.take_along_axis(x, ops.broadcast_to(at, (x.shape[0], 1, x.shape[2])), axis=1)[:, 0]


__all__ = ["Carried", "Decoder", "KeyValues", "Kept", "attend_to_memory", "last_real", "positions"]
