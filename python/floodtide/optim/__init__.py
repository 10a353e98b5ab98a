# SPDX-License-Identifier: Apache-2.0
"""Optimizers, and learning rates as functions of the step and the number of workers (`floodtide.optim.lr`)."""

from floodtide.optim import lr
from floodtide.optim.optimizers import SGD, Adam, Array, Momentum, Optimizer, clip, rows

__all__ = ["SGD", "Adam", "Array", "Momentum", "Optimizer", "clip", "lr", "rows"]
