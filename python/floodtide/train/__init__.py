# SPDX-License-Identifier: Apache-2.0
"""Training runs: the trainer, its tasks, its run directory with log and checkpoints, and readers of recorded runs."""

from floodtide.train.comm_hook import CommHook, GradBucket, message_buckets
from floodtide.train.kinds.flood_task import FloodValidation
from floodtide.train.parts import require_trainable
from floodtide.train.recorded_run import FIELDS, PATCHES, SLICES, Run, read_run
from floodtide.train.run_directory import RunDirectory, read_log
from floodtide.train.step_loop import Step
from floodtide.train.task import Record
from floodtide.train.threads import set_threads, thread_count
from floodtide.train.trainer import Callback, Trainer

__all__ = [
    "FIELDS",
    "PATCHES",
    "SLICES",
    "Callback",
    "CommHook",
    "FloodValidation",
    "GradBucket",
    "Record",
    "Run",
    "RunDirectory",
    "Step",
    "Trainer",
    "message_buckets",
    "read_log",
    "read_run",
    "require_trainable",
    "set_threads",
    "thread_count",
]
