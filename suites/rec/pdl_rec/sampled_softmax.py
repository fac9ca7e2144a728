"""Sampled softmax: the softmax over all items, estimated from a sample of them."""

from __future__ import annotations

import pdl
from pdl.tensor import Tensor

NEVER = -1e9  # the score of a candidate that counts for nothing


def sampled_softmax(
    positive: Tensor, candidates: Tensor, excluded: Tensor | None = None, log_expected: Tensor | None = None
) -> Tensor:
    """-s + log(exp(s) + sum_j exp(o_j) / E_j) for each row: [N].

    positive      s, the scores of the items that were chosen, [N]
    candidates    o, the scores of sampled items, [N, J]
    excluded      bool [N, J]: candidates that count for nothing, such as the positive item itself
    log_expected  ln E_j, [J] or [N, J]: how often item j is expected among the candidates that are not excluded (logQ);
                  1 without it

    With E the sum over the candidates is an unbiased estimate of the sum of exp(o) over all items but the positive one,
    so the whole is the cross-entropy over all items (Bengio & Senecal, "Adaptive importance sampling to accelerate
    training of a neural probabilistic language model", IEEE TNN 19, 2008). The positive item was not drawn: nothing is
    taken off its score. Subtracting ln E from it, too, as some do, makes the loss of frequent items too large.
    """
    corrected = candidates if log_expected is None else candidates - pdl.astype(log_expected, candidates.dtype)
    if excluded is not None:
        corrected = pdl.where(excluded, NEVER, corrected)
    logits = pdl.concat([pdl.expand_dims(positive, axis=1), corrected], axis=1)
    return pdl.logsumexp(logits, axis=1) - positive
