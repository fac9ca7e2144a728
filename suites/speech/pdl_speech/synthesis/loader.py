"""From recordings with texts to batches: those of like length together, with the pitch of their frames, and what is
known of an alignment before it is learned."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pdl.data import Batch, BucketBatchSampler, DataLoader, Sample, bucket_sizes
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.train.recipe import Data
from pdl_speech.audio.pitch import contour, pitch
from pdl_speech.features import LogMel
from pdl_speech.recognition.loader import PADDING, SIZES, Labelled, batched


def spoken_loader(
    sounds: Labelled, lengths: Array, characters: Array, front: LogMel, data: Data, *, training: bool, seed: int
) -> DataLoader:
    """Batches {"texts" int64 [N, U], "audio" float32 [N, samples], "samples" int64 [N], "pitch" float32 [N, frames] (0:
    none), "prior" float32 [N, frames, U], "text", "index"}, filled up with zeros to a few lengths; `lengths` and
    `characters`, int64 [N], are those of the recordings and of their texts. In training in a new order each epoch,
    otherwise from short to long."""
    if training and data.sampler(sounds, seed=seed) is not None:
        raise ConfigError("data.balanced: texts are no classes that could be drawn alike; leave it out")
    sizes = bucket_sizes(lengths, padding=PADDING, most=SIZES)
    most = np.zeros(len(sizes), np.int64)
    np.maximum.at(most, np.searchsorted(sizes, lengths), characters)
    most = np.maximum.accumulate(most)  # what is left over of a size is filled up to the next
    transforms = data.transforms(training=training)
    pitches: dict[int, Array] | None = None if transforms else {}  # of the recordings, which stay as they are

    def joined(samples: Sequence[Sample]) -> Batch:
        longest = max(len(sample["audio"]) for sample in samples)
        at = min(int(np.searchsorted(sizes, longest)), len(sizes) - 1)
        return with_frames(batched(samples, sizes, int(most[at])), front, pitches)

    return DataLoader(
        sounds,
        sampler=BucketBatchSampler(lengths, data.size(training=training), sizes, shuffle=training, seed=seed),
        transforms=transforms,
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        on_error=data.on_error,
        cache=data.cache if training else 0,
        collate=joined,
    )


def with_frames(batch: Batch, front: LogMel, pitches: dict[int, Array] | None = None) -> Batch:
    """A batch of `pdl_speech.recognition.loader.batched` with what is known of its frames; `pitches` keeps those that
    were found, by the number of the recording."""
    audio, samples, labels = batch["audio"], batch["samples"], batch["labels"]
    shape = len(audio), front.frames(audio.shape[1])
    octaves, prior = np.zeros(shape, np.float32), np.zeros((*shape, labels.shape[1]), np.float32)
    pitches = {} if pitches is None else pitches
    for n, (wave, count, text, index) in enumerate(
        zip(audio, samples.tolist(), labels, batch["index"].tolist(), strict=True)
    ):
        frames, characters = front.frames(count), int((text >= 0).sum())
        if index not in pitches:
            pitches[index] = np.nan_to_num(octaves_of(wave[:count], front), nan=0.0)
        octaves[n, :frames] = pitches[index]
        prior[n, :frames, :characters] = beta_binomial(frames, characters)
    rest = {name: batch[name] for name in ("audio", "samples", "text", "index")}
    return {"texts": np.maximum(labels, 0), "pitch": octaves, "prior": prior, **rest}


def octaves_of(wave: Array, front: LogMel) -> Array:
    """The pitch of each frame of a waveform [T], in octaves above 1 Hz, float32 [frames]; NaN where none is voiced."""
    return contour(pitch(wave, front.rate, front.hop_length))


@lru_cache(256)
def beta_binomial(frames: int, characters: int) -> Array:
    """ln of the probabilities that frame t is of character u, before anything is heard: float32 [frames, characters],
    those of a beta-binomial distribution of characters - 1 trials with alpha = t, beta = frames + 1 - t, t from 1 on
    (Shih et al., RAD-TTS, 2021; arXiv 2108.10447)."""
    trials = characters - 1
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, frames + characters + 1)))])  # ln n!
    t, u = np.arange(frames)[:, None], np.arange(characters)
    chosen = logs[trials] - logs[u] - logs[trials - u]
    above = logs[u + t] + logs[trials - u + frames - 1 - t] - logs[trials + frames]
    below = logs[t] + logs[frames - 1 - t] - logs[frames]
    made: Array = (chosen + above - below).astype(np.float32)
    return made
