# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench forecast`: compare predictions of `floodtide simulate` with training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench import row_options


@click.command()
@click.option(
    "--ranks",
    type=shared.Numbers(limits.RANKS),
    default="2,3,4",
    show_default=True,
    help="Numbers of ranks to predict and to train with.",
)
@click.option(
    "--steps",
    type=shared.Number(limits.UPDATES),
    default=60,
    show_default=True,
    help="Number of steps of each training run.",
)
@click.option(
    "--rounds",
    type=shared.Number(limits.COUNT),
    default=3,
    show_default=True,
    help="Number of repetitions of each training run.",
)
@click.option(
    "--depth",
    type=shared.Number(limits.FFN_DEPTH),
    default=9,
    show_default=True,
    help="Number of modules of the network that is trained.",
)
@click.option(
    "--features",
    type=shared.Number(limits.FFN_FEATURES),
    default=32,
    show_default=True,
    help="Number of feature maps.",
)
@click.option(
    "--fov",
    type=shared.Number(limits.FORECAST_FOV),
    default=33,
    show_default=True,
    help="Size of the field of view in voxels along each axis, an odd number.",
)
@click.option(
    "--sleep-s",
    type=shared.Number(limits.SECONDS),
    default=0.1,
    show_default=True,
    help="Seconds that each rank sleeps in a step, in runs that sleep instead of computing.",
)
@click.option(
    "--sigma",
    type=shared.Number(limits.SPREAD),
    default=0.25,
    show_default=True,
    help="Sigma of the random lognormal factor on the time that ranks sleep.",
)
@row_options
def command(**options: Any) -> Iterable[dict[str, Any]]:
    """Train on one rank, predict the time of a step on more ranks, and compare it with training on more ranks.

    Every row has the time of a step as predicted (`predicted_s`) and as measured (`median_s`), in seconds, and their
    ratio `ratio` = predicted_s / median_s. Ranks that compute share the cores of the machine. Ranks that sleep need no
    core, so waiting for slower ranks can be measured even with few cores.

    Example: floodtide bench forecast --ranks 2,3,4
    """
    from floodtide.bench import stamped
    from floodtide.simulate import against_trainings

    return map(stamped, against_trainings.forecast(against_trainings.Setting(**options)))
