# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench train`: measure the overhead of configuration keys in a training step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench_ranks import training_benchmark

if TYPE_CHECKING:
    from floodtide.bench.trainings import Laboratory

WARM_UP = 3  # steps of each training run
LOG_EVERY_S = 1.0


@training_benchmark("train", ranks=2, depth=9, fov="33", features=32)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a configuration key in all training runs, as in `floodtide train`. Can be given several times.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a configuration key in one more training run and compare it with the first. Can be given several "
    "times.",
)
@click.option(
    "--steps",
    type=shared.Number(limits.UPDATES),
    default=40,
    show_default=True,
    help="Number of measured steps of each training run.",
)
def command(
    lab: Laboratory, settings: tuple[str, ...], against: tuple[str, ...], steps: int
) -> Iterator[dict[str, Any]]:
    """Measure complete training steps (data, passes, allreduce, update, log), and the overhead of configuration keys.

    Each --against adds a training run that differs from the first in one key. Steps of all runs alternate, so that all
    see the same state of the machine.

    \b
    Columns:
      ratio       median time of a step / that of the first run
      mean_ratio  the same for the mean time; it includes work that is not done in every step, such
                  as the log, which is written once per second
      cpu_ratio   the same for the mean processor time, which other programs influence least

    Example: floodtide bench train --against comm.exactness=workers --against run.trace=true --json
    """
    from floodtide.bench.trainings import quantiles, timed_step
    from floodtide.comm import world

    variants = ["", *against]
    logged = {"run": {"log_every_s": LOG_EVERY_S}}
    trainers = [
        lab.trainer(f"run-{index}", logged, overrides=(*settings, *([variant] if variant else [])))
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
    rows = [quantiles(each) | {"cpu_s": cpu} for each, cpu in zip(seconds, cpu_s, strict=True)]
    for variant, row, trainer in zip(variants, rows, trainers, strict=True):
        walkers = trainer.config.training.walkers or world.size()
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
