# SPDX-License-Identifier: Apache-2.0
"""Training runs: the trainer, its tasks, its run directory with log and checkpoints, and readers of recorded runs."""

from floodtide.train.gradients import configuration_for, gradient_products
from floodtide.train.learners.flood import FloodValidation
from floodtide.train.learners.learner import Record
from floodtide.train.rates import rates_of
from floodtide.train.recorded_run import Run, read_run
from floodtide.train.run_directory import RunDirectory, read_log
from floodtide.train.setup import MoreOptions
from floodtide.train.step_loop import Step
from floodtide.train.trainer import Trainer

__all__ = [
    "FloodValidation", "MoreOptions", "Record", "Run", "RunDirectory", "Step", "Trainer",
    "configuration_for", "gradient_products", "rates_of", "read_log", "read_run",
]  # fmt: skip
