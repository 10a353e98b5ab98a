# SPDX-License-Identifier: Apache-2.0
"""The overhead of configuration keys in a training step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from floodtide.base import limits
from floodtide.base.options import option
from floodtide.bench.rows import Row, spread
from floodtide.comm import world
from floodtide.lab.bench.trainings import Laboratory, timed_step

DEFAULTS: dict[str, Any] = {}
WARM_UP = 3  # steps of each training run
LOG_EVERY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """The trainings that are compared."""

    set: tuple[str, ...] = option(
        (),
        "Override a configuration key, KEY=VALUE, in all training runs, as in `floodtide train`. Can be given several"
        " times",
    )
    against: tuple[str, ...] = option(
        (),
        "Override a configuration key in one more training run and compare it with the first. Can be given several"
        " times",
    )
    steps: int = option(40, "Number of measured steps of each training run", range=limits.STEPS)


def measure(lab: Laboratory, options: Options) -> Iterator[Row]:
    """Measure complete training steps (data, passes, allreduce, update, log), and the overhead of configuration keys.

    Each --against adds a training run that differs from the first in one key. Steps of all runs alternate, so that all
    see the same state of the machine.

    \b
    Columns:
      ratio       median time of a step / that of the first run
      mean_ratio  the same for the mean time; it includes work that is not done in every step, such
                  as the log, which is written once per second
      cpu_ratio   the same for the mean processor time, which other programs influence least

    Example: floodtide lab bench train --against comm.exactness=workers --against run.trace=true --json
    """
    steps = options.steps
    variants = ["", *options.against]
    logged = {"run": {"log_every_s": LOG_EVERY_S}}
    trainers = [
        lab.trainer(
            f"run-{index}", logged, overrides=(*options.set, *([variant] if variant else []))
        )
        for index, variant in enumerate(variants)
    ]
    time.sleep(LOG_EVERY_S)  # so that the first log, which opens files, falls into the warm-up
    seconds: list[list[float]] = [[] for _ in variants]
    cpu_s = [0.0] * len(variants)
    for number in range(WARM_UP + steps):
        # Rotate the order, so that no run always follows the same other run.
        for place in range(len(trainers)):
            index = (number + place) % len(trainers)
            step_s, step_cpu_s = timed_step(trainers[index])
            if number >= WARM_UP:
                seconds[index].append(step_s)
                cpu_s[index] += step_cpu_s / steps
    rows = [
        spread(each) | {"mean_s": statistics.fmean(each), "cpu_s": cpu}
        for each, cpu in zip(seconds, cpu_s, strict=True)
    ]
    for variant, row, trainer in zip(variants, rows, trainers, strict=True):
        walkers = trainer.data.walkers
        yield {
            "name": "train",
            "kernel": variant or "as it is",
            "transport": world.current().description,
            **row,
            "fovs_per_s": walkers / row["median_s"],
            "ratio": row["median_s"] / rows[0]["median_s"],
            "mean_ratio": row["mean_s"] / rows[0]["mean_s"],
            "cpu_ratio": row["cpu_s"] / rows[0]["cpu_s"],
        }
