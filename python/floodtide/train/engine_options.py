# SPDX-License-Identifier: Apache-2.0
"""Options of the core's step loop, from a configuration."""

from __future__ import annotations

from pathlib import Path

from floodtide import _core
from floodtide.comm import world
from floodtide.config import Config


def engine_options(
    config: Config, comm: world.Communicator, *, validates: bool, record_path: Path
) -> _core.TrainerOptions:
    """Return the options of the core's trainer for a configuration.

    Args:
        config: The whole configuration.
        comm: The ranks that train.
        validates: True if there is held-out data. The ranks then meet for each validation.
        record_path: File in which this rank records its last events when the job fails.
    """
    training, section = config.training, config.comm
    options = _core.TrainerOptions()
    options.clip = training.clip
    options.clip_norm = training.clip_norm
    options.clip_adaptive = training.clip_adaptive
    options.measure_noise = training.noise_scale
    options.average = training.average
    options.accumulate = training.accumulate
    options.on_exhausted = training.on_exhausted
    options.steps = training.steps
    options.meet_every = config.validation.every if validates else 0
    options.algorithm = section.algorithm
    options.exactness = section.exactness
    options.bucket_bytes = round(section.bucket_mib * 2**20)
    options.wire = section.wire
    options.mode = section.mode
    options.contributors = section.contributors or comm.size
    options.late = section.late
    options.activity = world.activity(section.timeout_s)
    options.timeout_s = section.timeout_s
    options.record_path = str(record_path)
    return options
