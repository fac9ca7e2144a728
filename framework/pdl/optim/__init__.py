"""Optimisers, learning-rate schedules, gradient clipping, averaged weights. Names are PyTorch's.

optimizer = optim.AdamW(model, lr=1e-3, weight_decay=0.05, no_decay=True)
scheduler = optim.Scheduler(optimizer, optim.Warmup(optim.Cosine(), epochs=5), total_steps=1000, steps_per_epoch=100)
"""

from typing import TYPE_CHECKING

from pdl.habits import missing_from
from pdl.optim.adam import Adam, AdamW
from pdl.optim.adaptive import Adadelta, Adagrad, RMSprop
from pdl.optim.clip import clip_grad_norm_, clip_grad_value_, clip_scale, total_norm
from pdl.optim.ema import EMA
from pdl.optim.lamb import LAMB
from pdl.optim.muon import Muon
from pdl.optim.optimizer import Optimizer
from pdl.optim.schedule import (
    Chain,
    Constant,
    Cosine,
    CosineRestarts,
    Exponential,
    MultiStep,
    OneCycle,
    Polynomial,
    ReduceOnPlateau,
    Schedule,
    Sequential,
    Step,
    Warmup,
)
from pdl.optim.scheduler import Scheduler
from pdl.optim.sgd import SGD

__all__ = [
    "Adadelta", "Adagrad", "Adam", "AdamW", "LAMB", "Muon", "Optimizer", "RMSprop", "SGD",
    "Chain", "Constant", "Cosine", "CosineRestarts", "Exponential", "MultiStep", "OneCycle", "Polynomial",
    "ReduceOnPlateau", "Schedule", "Scheduler", "Sequential", "Step", "Warmup",
    "EMA", "clip_grad_norm_", "clip_grad_value_", "clip_scale", "total_norm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = missing_from(__name__)
