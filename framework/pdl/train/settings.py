"""The `train:` section of a recipe: its keys, types, ranges and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pdl.config.signature import SECTION
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
                        batch norms keep their statistics (`pdl.train.freeze.Frozen`); "batch_norm": these alone, for a
                        pretrained net and few samples, whose batches have other statistics than what it learned from
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
class Tables:
    """Tables of rows on servers of their own, which Ray runs (`pdl.distributed.tables`): those that the model looks up
    with `sparse`, in training.

    servers           of them, each with the rows whose keys hash to it
    mode              sync: the weights of one process, to rounding; async: updates as they come; ssp: async, with rows
                      at most `staleness` steps old; geo: each worker learns rows of its own, merged every `merge` steps
    staleness         of ssp, in steps, and how old a hot row may be
    merge             of geo, in steps
    prefetch          whether rows of the next step are asked for while one computes (async, ssp)
    cache_rows        hot rows of a table that a worker keeps (async, ssp)
    admit             pulls until a row is made and learned
    forget            steps after which a row that nobody touched begins anew
    rows_in_memory    most rows of a table in a server's memory; others are in a file of the run folder
    replay_megabytes  pushes to a server that each worker keeps, for the case that it is lost: a snapshot empties it
    whole_megabytes   the largest table that may be put together: for evaluation, checkpoints and the bundle
    folder            for snapshots; by default that of the run. Servers on other machines must see it
    """

    servers: Annotated[int, Range(1)] = 1
    mode: Literal["sync", "async", "ssp", "geo"] = "sync"
    staleness: Annotated[int, Range(0)] = 4
    merge: Annotated[int, Range(1)] = 16
    prefetch: bool = True
    cache_rows: Annotated[int, Range(0)] = 0
    admit: Annotated[int, Range(1)] = 1
    forget: Annotated[int, Range(1)] | None = None
    rows_in_memory: Annotated[int, Range(1)] | None = None
    replay_megabytes: Annotated[float, Range(above=0)] = 64.0
    whole_megabytes: Annotated[float, Range(above=0)] = 4096.0
    folder: str | None = None


@dataclass(frozen=True)
class Compress:
    """Gradients of which only the largest numbers travel, as `pdl.distributed.compression.Compressor` says (Deep
    Gradient Compression, arXiv 1712.01887): those of SGD with its momentum corrected. `train.clip_norm` then bounds the
    gradient of each process, by its share of it.

    keep             share of the numbers of a gradient that each process sends
    warmup_epochs    epochs in which the share comes down from 1 to that
    """

    keep: Annotated[float, Range(above=0, below=1)] = 0.01
    warmup_epochs: Annotated[int, Range(0)] = 4


@dataclass(frozen=True)
class Distributed:
    """How several processes train one model (`pdl train --workers N`): each takes its share of every batch.

    data              processes that share a batch
    tensor            processes that each have a part of every layer's weights and compute a part of every product
                      (Megatron-LM, arXiv 1909.08053); batches are one for all of them. Needs train.compile
    whole             patterns of names of parameters that `tensor` leaves whole
    pipeline          processes that each have some of the layers, and pass on what these make (1F1B: arXiv 2104.04473).
                      Needs train.compile
    micro_batches     pieces of a batch that go through a pipeline one after the other, each as train.accumulate takes a
                      batch: the more, the less a process waits. By default as many as divide it, up to 4 x pipeline
    virtual_stages    pieces of the layers of each process of a pipeline, which then waits so many times less, and sends
                      so many times more (interleaved 1F1B)
    wire              numbers in which gradients travel; bf16 halves the bytes, sums are float32
    bucket_megabytes  gradients that travel together
    overlap           whether they travel while the backward part goes on; by default between machines only, as within
                      one the cores that compute also move the bytes
    sync_batch_norm   whether batch norms in training take mean and variance over the samples of all processes, and not
                      of their own; costs two small exchanges a norm
    zero              what each process keeps of its share of the weights alone (ZeRO, arXiv 1910.02054): 1: the
                      optimiser's state; 2: gradients, too; 3: the weights, too, of which each process then has a few
                      layers at a time (of compiled steps; eager ones, and validation, have all), of large tables the
                      rows of its samples, and of `train.ema` its share. Of Adam's 16 bytes a weight 8, 12 or 16 are
                      divided
    compress          {keep: 0.01}: the largest numbers of each gradient alone travel (`Compress`)
    local_steps       steps that each process makes alone, by its own samples, before weights, buffers and the
                      optimiser's state become the means over all, as they do at the end of every epoch (local SGD,
                      arXiv 1808.07217). Checkpoints are then made at such steps; batch norms are of the samples of one
    timeout           seconds that a process may be behind the others
    heartbeat         seconds without a sign of life after which a process of an elastic training is killed
    straggler         a process that takes more than so many times as long for its part of a step as the others (their
                      median) is named, once
    tables            lookup tables on servers of their own (`Tables`): {servers: 2, mode: async}
    """

    data: Annotated[int, Range(1)] = 1
    tensor: Annotated[int, Range(1)] = 1
    whole: str | list[str] | None = None
    pipeline: Annotated[int, Range(1)] = 1
    micro_batches: Annotated[int, Range(1)] | None = None
    virtual_stages: Annotated[int, Range(1)] = 1
    wire: Literal["fp32", "bf16"] = "fp32"
    bucket_megabytes: Annotated[float, Range(above=0)] = 4.0
    overlap: bool | None = None
    zero: Literal[0, 1, 2, 3] = 0
    compress: Annotated[Compress, SECTION] | None = None
    local_steps: Annotated[int, Range(1)] = 1
    sync_batch_norm: bool = True
    timeout: Annotated[float, Range(above=0)] = 600.0
    heartbeat: Annotated[float, Range(1)] = 30.0
    straggler: Annotated[float, Range(above=1)] = 1.5
    tables: Annotated[Tables, SECTION] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.tables, Mapping):
            object.__setattr__(self, "tables", Tables(**self.tables))
        if isinstance(self.compress, Mapping):
            object.__setattr__(self, "compress", Compress(**self.compress))

    @property
    def model(self) -> int:
        """Processes that have one model among them."""
        return self.tensor * self.pipeline

    @property
    def in_common(self) -> bool:
        """Whether a checkpoint needs all processes."""
        return self.zero > 0 or self.compress is not None or self.local_steps > 1 or self.model > 1

    @property
    def patterns(self) -> list[str]:
        """`whole` as a list."""
        return [self.whole] if isinstance(self.whole, str) else list(self.whole or ())
