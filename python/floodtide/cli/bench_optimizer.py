# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench optimizer`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from floodtide import _core
from floodtide.base import limits
from floodtide.base.registry import names
from floodtide.cli import options as shared
from floodtide.cli.bench import counts_or_default, row_options, seconds_option, threads_option


@click.command()
@click.option(
    "--name",
    type=click.Choice(names(_core.optimizer_rows())),
    multiple=True,
    help="Optimizer; may be given several times.  [default: all]",
)
@click.option(
    "--parameters",
    type=shared.Number(limits.COUNT),
    default=472_353,
    show_default=True,
    help="Number of parameters.",
)
@threads_option
@seconds_option
@row_options
def command(
    name: tuple[str, ...], parameters: int, thread_counts: tuple[int, ...], seconds: float
) -> Iterable[dict[str, Any]]:
    """Measure steps of optimizers.

    `ratio` is the time of a step relative to reading and writing parameters and state once (`sweep_s`), without
    computation. All data come from memory rather than from caches, as in training.

    Example: floodtide bench optimizer --name adam --name lamb
    """
    from floodtide.bench.optimizers import optimizers

    return optimizers(
        name,
        parameters=parameters,
        thread_counts=counts_or_default(thread_counts),
        seconds=seconds,
    )
