# SPDX-License-Identifier: Apache-2.0
"""Training runs: the trainer, its tasks, its run directory with log and checkpoints, and readers of recorded runs."""

from floodtide.train.learners.flood import FloodValidation
from floodtide.train.learners.learner import Record
from floodtide.train.recorded_run import Run, read_log, read_run
from floodtide.train.setup import MoreOptions, gradient_products, rates_of
from floodtide.train.step_loop import Step
from floodtide.train.trainer import Trainer

__all__ = [
    "FloodValidation", "MoreOptions", "Record", "Run", "Step", "Trainer",
    "gradient_products", "rates_of", "read_log", "read_run",
]  # fmt: skip
