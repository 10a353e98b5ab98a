# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench step`: a training step of one rank, without data and communication."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from floodtide.cli.bench import (
    Numbers,
    counts_or_default,
    row_options,
    seconds_option,
    threads_option,
)


@click.command()
@click.option("--depth", type=click.IntRange(min=1), default=9, show_default=True, help="Modules.")
@click.option(
    "--fov", type=Numbers(3), default="33", show_default=True, help="Field of view, z,y,x."
)
@click.option(
    "--features", type=click.IntRange(min=1), default=32, show_default=True, help="Channels."
)
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Examples.")
@click.option(
    "--against", default="", help="'torch': the same step in PyTorch, run in turn with ours."
)
@click.option(
    "--compute",
    type=click.Choice(["fp32", "fp32-direct"]),
    default="fp32",
    show_default=True,
    help="How convolutions compute.",
)
@threads_option
@seconds_option
@row_options
def command(
    depth: int,
    fov: tuple[int, int, int],
    features: int,
    batch: int,
    against: str,
    compute: str,
    thread_counts: tuple[int, ...],
    seconds: float,
) -> Iterable[dict[str, Any]]:
    """Time forward, backward, clipping and Adam of a network, and its memory.

    Example: floodtide bench step --depth 9 --fov 33 --threads 2 --against torch
    """
    from floodtide import bench_step

    return bench_step.step(
        depth=depth,
        fov=fov,
        features=features,
        batch=batch,
        thread_counts=counts_or_default(thread_counts),
        seconds=seconds,
        against=against,
        compute=compute,
    )
