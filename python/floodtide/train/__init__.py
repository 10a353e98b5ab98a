# SPDX-License-Identifier: Apache-2.0
"""Training runs: the trainer, its tasks, its run directory with log and checkpoints, and readers of recorded runs."""

from floodtide.train.comm_hook import CommHook, GradBucket
from floodtide.train.kinds.flood_task import FloodValidation
from floodtide.train.recorded_run import Run, read_run
from floodtide.train.run_directory import RunDirectory, read_log
from floodtide.train.step_loop import Step
from floodtide.train.task import Record
from floodtide.train.threads import set_threads, thread_count
from floodtide.train.trainer import Callback, Trainer

__all__ = [
    "Callback",
    "CommHook",
    "FloodValidation",
    "GradBucket",
    "Record",
    "Run",
    "RunDirectory",
    "Step",
    "Trainer",
    "read_log",
    "read_run",
    "set_threads",
    "thread_count",
]
