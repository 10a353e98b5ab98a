# SPDX-License-Identifier: Apache-2.0
"""Optimizers, and learning rates as functions of the step and the number of walkers (`optim.lr`)."""

from floodtide.optim import lr
from floodtide.optim.optimizers import SGD, Adam, AdamW, Momentum, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Momentum", "Optimizer", "lr"]
