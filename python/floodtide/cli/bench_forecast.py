# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench forecast`: predictions of `floodtide simulate` beside trainings."""

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
    help="Numbers of ranks.",
)
@click.option(
    "--steps",
    type=shared.Number(limits.UPDATES),
    default=60,
    show_default=True,
    help="Of a training.",
)
@click.option(
    "--rounds",
    type=shared.Number(limits.COUNT),
    default=3,
    show_default=True,
    help="Times that each training is done.",
)
@click.option(
    "--depth",
    type=shared.Number(limits.FFN_DEPTH),
    default=9,
    show_default=True,
    help="Modules of the network that computes.",
)
@click.option(
    "--features",
    type=shared.Number(limits.FFN_FEATURES),
    default=32,
    show_default=True,
    help="Feature maps.",
)
@click.option(
    "--fov",
    type=shared.Number(limits.FORECAST_FOV),
    default=33,
    show_default=True,
    help="Field of view, an odd number.",
)
@click.option(
    "--sleep-s",
    type=shared.Number(limits.SECONDS),
    default=0.1,
    show_default=True,
    help="What sleeping ranks sleep.",
)
@click.option(
    "--sigma",
    type=shared.Number(limits.SPREAD),
    default=0.25,
    show_default=True,
    help="Spread of a lognormal factor.",
)
@row_options
def command(**options: Any) -> Iterable[dict[str, Any]]:
    """Train on one rank, predict trainings on more, and time those.

    Rows have `predicted_s` beside `median_s`, seconds of a step, and `ratio`, the first over the second. Ranks that
    compute share the cores of the machine; ranks that sleep wait for each other however few there are.

    Example: floodtide bench forecast --ranks 2,3,4
    """
    from floodtide.bench import stamped
    from floodtide.simulate import against_trainings

    return map(stamped, against_trainings.forecast(against_trainings.Setting(**options)))
