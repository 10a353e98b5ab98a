# SPDX-License-Identifier: Apache-2.0
"""Optimizers, and learning rates as functions of the step and the number of walkers (`optim.lr`)."""

from floodtide.optim import lr
from floodtide.optim.optimizers import (
    LAMB,
    LARS,
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    AdamW,
    Momentum,
    Optimizer,
    RMSprop,
    rows,
)

__all__ = [
    "LAMB", "LARS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Momentum", "Optimizer",
    "RMSprop", "lr", "rows",
]  # fmt: skip
