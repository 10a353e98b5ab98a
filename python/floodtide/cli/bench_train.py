# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench train`: what a setting costs a training step."""

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

WARM_UP = 3  # steps of each
LOG_EVERY_S = 1.0


@training_benchmark("train", ranks=2, depth=9, fov="33", features=32)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of all trainings, as in `floodtide train`; may be repeated.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of one more training, timed in turn with the first; may be repeated.",
)
@click.option(
    "--steps",
    type=shared.Number(limits.UPDATES),
    default=40,
    show_default=True,
    help="Of each training.",
)
def command(
    lab: Laboratory, settings: tuple[str, ...], against: tuple[str, ...], steps: int
) -> Iterator[dict[str, Any]]:
    """Time steps of a whole training (data, passes, sums, update, log), and of others that differ in one setting each.

    All take a step in turn, so that they see the same machine. A row's `ratio` is its median time by the first
    training's, `mean_ratio` that of the means (with what is not done at every step: all log once a second), and
    `cpu_ratio` that of the processor's mean time, `cpu_s`, in which other programs on the machine show least.

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
    time.sleep(LOG_EVERY_S)  # the first log, which opens files, comes while they warm up
    seconds: list[list[float]] = [[] for _ in variants]
    cpu_s = [0.0] * len(variants)
    for number in range(WARM_UP + steps):
        # Who comes first changes, so that nobody always follows the same other one.
        for place in range(len(trainers)):
            index = (number + place) % len(trainers)
            step_s, step_cpu_s = timed_step(trainers[index])
            if number >= WARM_UP:
                seconds[index].append(step_s)
                cpu_s[index] += step_cpu_s / steps
    rows = [quantiles(each) | {"cpu_s": cpu} for each, cpu in zip(seconds, cpu_s, strict=True)]
    for variant, row in zip(variants, rows, strict=True):
        yield {
            "name": "train",
            "kernel": variant or "as it is",
            "transport": world.current().description,
            **row,
            "fovs_per_s": world.size() / row["median_s"],
            "ratio": row["median_s"] / rows[0]["median_s"],
            "mean_ratio": row["mean_s"] / rows[0]["mean_s"],
            "cpu_ratio": row["cpu_s"] / rows[0]["cpu_s"],
        }
