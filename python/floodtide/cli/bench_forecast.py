# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench forecast`: predictions of `floodtide simulate` beside trainings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from floodtide.cli.bench import Numbers, row_options


@click.command()
@click.option(
    "--ranks", type=Numbers(), default="2,3,4", show_default=True, help="Numbers of ranks."
)
@click.option("--steps", type=int, default=60, show_default=True, help="Of a training.")
@click.option(
    "--rounds", type=int, default=3, show_default=True, help="Times that each training is done."
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=9,
    show_default=True,
    help="Modules of the network that computes.",
)
@click.option(
    "--features", type=click.IntRange(min=1), default=32, show_default=True, help="Feature maps."
)
@click.option(
    "--fov",
    type=click.IntRange(min=5),
    default=33,
    show_default=True,
    help="Field of view, an odd number.",
)
@click.option(
    "--sleep-s", type=float, default=0.1, show_default=True, help="What sleeping ranks sleep."
)
@click.option(
    "--sigma", type=float, default=0.25, show_default=True, help="Spread of a lognormal factor."
)
@row_options
def command(**options: Any) -> Iterable[dict[str, Any]]:
    """Train on one rank, predict trainings on more, and time those.

    Rows have `predicted_s` beside `median_s`, seconds of a step, and `ratio`, the first over the second. Ranks that
    compute share the cores of the machine; ranks that sleep wait for each other however few there are.

    Example: floodtide bench forecast --ranks 2,3,4
    """
    from floodtide import bench_forecast

    return bench_forecast.forecast(bench_forecast.Setting(**options))
