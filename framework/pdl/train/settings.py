"""The `train:` section of a recipe: its keys, types, ranges and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pdl.hints import Range


@dataclass(frozen=True)
class TrainSettings:
    """How long, how, and how carefully to train.

    epochs              passes over the training data
    max_steps           stop after this many optimiser steps, whatever `epochs` says; needed for streams without a
                        length
    seed                of initial weights, dropout, sample order and augmentation
    accumulate          batches whose gradients are averaged into one step (equal to one batch of all their samples)
    clip_norm           scale gradients down to this L2 norm over all parameters
    clip_value          clip every element of the gradients to [-clip_value, clip_value]
    precision           of the arithmetic: fp32, or bf16 for products and activations with float32 weights
                        (`pdl.autocast`); evaluation is in float32
    ema                 decay of an exponential moving average of the weights, which is then what is evaluated and kept
    freeze              what is not learned: "backbone" (all but the model's head), or patterns, one or a list, on names
                        of parameters or modules ("layer1", "*.bias"). Frozen modules stay in evaluation mode, so their
                        batch norms keep their statistics (`pdl.train.freeze.Frozen`)
    eval_every          epochs between evaluations on the validation data (the last epoch always ends with one)
    monitor             the validation metric that "best" means, for example val/accuracy (of equal ones the one with
                        less val/loss); default: the task's own
    monitor_mode        whether more ("max") or less ("min") of it is better; default: less of a loss; else the task's
    early_stop          stop after this many evaluations without a better value of `monitor`
    test_weights        weights that the final test and `best` use: best on the validation data, or the last
    checkpoint_every    optimiser steps between checkpoints inside an epoch, which then ends with one, too. Without it
                        each epoch ends with one, but for those that end less than a second after the last
    checkpoint_seconds  seconds between checkpoints inside an epoch
    keep_last           how many of the latest checkpoints to keep
    log_every           steps between lines of metrics.jsonl
    tensorboard         write event files for TensorBoard into the run folder
    report              write report.html at the end
    export              write model.pdl, the bundle to deploy, at the end (`pdl export`); where the model cannot be
                        exported a line says why, and the run is as good as without
    compile             trace the step into a program that is planned once; code that cannot be traced runs eagerly, and
                        a line says why
    nan_check           look for NaN after every op, and name the op and the line; slow (and not compiled)
    """

    epochs: Annotated[int, Range(1)] = 10
    max_steps: Annotated[int, Range(1)] | None = None
    seed: Annotated[int, Range(0)] = 0
    accumulate: Annotated[int, Range(1)] = 1
    clip_norm: Annotated[float, Range(above=0)] | None = None
    clip_value: Annotated[float, Range(above=0)] | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    ema: Annotated[float, Range(0, below=1)] | None = None
    freeze: str | list[str] | None = None
    eval_every: Annotated[int, Range(1)] = 1
    monitor: str | None = None
    monitor_mode: Literal["max", "min"] | None = None
    early_stop: Annotated[int, Range(1)] | None = None
    test_weights: Literal["best", "last"] = "best"
    checkpoint_every: Annotated[int, Range(1)] | None = None
    checkpoint_seconds: Annotated[float, Range(above=0)] | None = 300.0
    keep_last: Annotated[int, Range(1)] = 1
    log_every: Annotated[int, Range(1)] = 50
    tensorboard: bool = False
    report: bool = True
    export: bool = True
    compile: bool = True
    nan_check: bool = False


@dataclass(frozen=True)
class Distributed:
    """How several processes train one model (`pdl train --workers N`): each takes its share of every batch.

    data              processes that share a batch
    wire              numbers in which gradients travel; bf16 halves the bytes, sums are float32
    bucket_megabytes  gradients that travel together
    overlap           whether they travel while the backward part goes on; by default between machines only, as within
                      one the cores that compute also move the bytes
    sync_batch_norm   whether batch norms in training take mean and variance over the samples of all processes, and not
                      of their own; costs two small exchanges a norm
    zero              1: each process keeps the optimiser's state of its share of the weights alone, and updates that
                      (ZeRO, arXiv 1910.02054); of Adam's 16 bytes a weight 8 are divided
    timeout           seconds that a process may be behind the others
    """

    data: Annotated[int, Range(1)] = 1
    wire: Literal["fp32", "bf16"] = "fp32"
    bucket_megabytes: Annotated[float, Range(above=0)] = 4.0
    overlap: bool | None = None
    zero: Literal[0, 1] = 0
    sync_batch_norm: bool = True
    timeout: Annotated[float, Range(above=0)] = 600.0
