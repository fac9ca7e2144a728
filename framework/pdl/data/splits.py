"""Stable splits into train, val and test for data that has no official ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from pdl.data.randomness import BatchRandom
from pdl.errors import ConfigError


def check_ratios(owner: str, ratios: Mapping[str, float]) -> dict[str, float]:
    """The ratios as floats; raises ConfigError unless each is in (0, 1] and they sum to at most 1."""
    values = {str(name): float(ratio) for name, ratio in ratios.items()}
    bad = {name: ratio for name, ratio in values.items() if not 0.0 < ratio <= 1.0}
    if bad:
        raise ConfigError(f"{owner}: ratios {bad} must lie in (0, 1]")
    if sum(values.values()) > 1.0 + 1e-9:
        raise ConfigError(f"{owner}: ratios {values} sum to {sum(values.values()):g}; they must not pass 1")
    return values


def stable_split(keys: Sequence[str], ratios: Mapping[str, float], split: str, *, seed: int = 0) -> np.ndarray:
    """Indices (int64, ascending) of the samples that fall into `split`.

    A key (a relative path, or a row's number) is hashed with the seed to u in [0, 1); split k takes
    u in [r_0 + ... + r_(k-1), r_0 + ... + r_k). A sample's split depends on nothing but its own key: adding files
    moves none of the others. The parts have the given sizes on average, not exactly.
    """
    edges = np.cumsum([0.0, *ratios.values()])
    names = list(ratios)
    low, high = edges[names.index(split)], edges[names.index(split) + 1]
    u = _uniform(keys, seed)
    return np.flatnonzero((u >= low) & (u < high)).astype(np.int64)


def stratified_split(
    labels: np.ndarray, ratios: Mapping[str, float], split: str, *, seed: int = 0, keys: Sequence[str] | None = None
) -> np.ndarray:
    """Indices (int64, ascending) of the samples that fall into `split`, with the same share of every class.

    Within each class of n samples, these are ordered at random by row number and seed, or by the hash of their keys
    (relative paths), so that their order in the set does not matter; split k takes those from
    round(n (r_0 + ... + r_(k-1))) to round(n (r_0 + ... + r_k)). Where n is at least the number of splits, each split
    has one of the class.
    """
    at = list(ratios).index(split)
    if keys is None:
        u = BatchRandom(seed, 0, np.arange(len(labels))).fork("split").uniform()
    else:
        u = _uniform(keys, seed)
    shuffled = np.argsort(u, kind="stable")
    chosen = []
    for label in np.unique(labels):
        rows = shuffled[labels[shuffled] == label]
        start, end = _borders(len(rows), list(ratios.values()))[at:at + 2]
        chosen.append(rows[start:end])
    return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)


def stratified_folds(labels: np.ndarray, folds: int, seed: int = 0) -> np.ndarray:
    """The fold of every sample, int64 [N], given its class: a class's samples, in random order, are dealt to the folds
    in turn, one class going on where the one before it ended; so folds differ by one at most, in all and of each
    class."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)])
    found = np.empty(len(labels), np.int64)
    found[order] = np.arange(len(labels)) % folds
    return found


def grouped_folds(groups: np.ndarray, folds: int, seed: int = 0) -> np.ndarray:
    """The fold of every sample, int64 [N], given its group: groups stay whole, and go, the largest first and equally
    large ones in random order, to the fold that has least by then."""
    numbers, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(numbers))
    held, fold_of = np.zeros(folds, np.int64), np.empty(len(numbers), np.int64)
    for number in order[np.argsort(-sizes[order], kind="stable")].tolist():
        fold_of[number] = held.argmin()
        held[fold_of[number]] += sizes[number]
    return fold_of[members.reshape(-1)]


def of_fold(parts: np.ndarray, split: str | None, fold: int, folds: int, validate: str | None) -> np.ndarray:
    """The rows of a split, int64, given the fold of each: test is fold `fold`; val is the next one ("inner"), the same
    one ("held_out"), or nothing (None); train is the rest, and split None all of them."""
    val = {"inner": (fold + 1) % folds, "held_out": fold, None: -1}[validate]
    wanted = {"train": (parts != fold) & (parts != val), "val": parts == val, "test": parts == fold}
    return np.arange(len(parts)) if split is None else np.flatnonzero(wanted[split])


def _borders(count: int, ratios: Sequence[float]) -> np.ndarray:
    """Where each of the splits of a class begins, and the last one ends."""
    borders = np.rint(np.cumsum([0.0, *ratios]) * count).astype(int)
    sizes = np.diff(borders)
    while count >= len(sizes) and (sizes == 0).any():
        sizes[sizes.argmin()] += 1
        if sizes.sum() > count:
            sizes[sizes.argmax()] -= 1
    return np.cumsum([0, *sizes])


def _uniform(keys: Sequence[str], seed: int) -> np.ndarray:
    """A number in [0, 1) for each key: its hash with the seed."""
    salt = f"{seed}\0".encode()
    return np.array([_unit(salt + key.encode("utf-8", "surrogateescape")) for key in keys])


def _unit(data: bytes) -> float:
    """A number in [0, 1) from the data's hash: its first 53 bits."""
    return (int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") >> 11) * 2.0**-53
