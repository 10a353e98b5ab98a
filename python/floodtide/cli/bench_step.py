# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench step` and `forward`: a network's passes, without data and communication."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench import (
    counts_or_default,
    row_options,
    seconds_option,
    threads_option,
)


def _network_options(depth: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a benchmark the fields of `floodtide.bench.shapes.FfnShape`, and `--against`."""
    options = (
        click.option(
            "--depth",
            type=shared.Number(limits.FFN_DEPTH),
            default=depth,
            show_default=True,
            help="Modules.",
        ),
        click.option(
            "--fov",
            type=shared.Numbers(limits.FIELD_OF_VIEW, 3),
            default="33",
            show_default=True,
            help="Field of view, z,y,x.",
        ),
        click.option(
            "--features",
            type=shared.Number(limits.FFN_FEATURES),
            default=32,
            show_default=True,
            help="Channels.",
        ),
        click.option(
            "--batch",
            type=shared.Number(limits.BATCH),
            default=1,
            show_default=True,
            help="Examples.",
        ),
        click.option(
            "--compute",
            type=click.Choice(["fp32", "fp32-direct"]),
            default="fp32",
            show_default=True,
            help="How convolutions compute.",
        ),
        click.option(
            "--parallel",
            type=click.Choice(["fovs", "voxels"]),
            default="fovs",
            show_default=True,
            help="What threads share: whole fields of view of the batch, or their voxels.",
        ),
        click.option(
            "--against",
            default="",
            help="Run in turn with ours: the same in PyTorch ('torch'; 'torch-bf16' under autocast), or "
            "with a convolution kernel given by name, such as 'onednn'.",
        ),
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@click.command()
@_network_options(depth=9)
@threads_option
@seconds_option
@row_options
def step(
    against: str, thread_counts: tuple[int, ...], seconds: float, **network: Any
) -> Iterable[dict[str, Any]]:
    """Time forward, backward, clipping and Adam of a network, and its memory.

    Example: floodtide bench step --depth 9 --fov 33 --threads 2 --against torch
    """
    from floodtide.bench import ffn_passes, shapes

    return ffn_passes.step(
        shapes.FfnShape(**network),
        thread_counts=counts_or_default(thread_counts),
        seconds=seconds,
        against=against,
    )


@click.command()
@_network_options(depth=12)
@threads_option
@seconds_option
@row_options
def forward(
    against: str, thread_counts: tuple[int, ...], seconds: float, **network: Any
) -> Iterable[dict[str, Any]]:
    """Time the forward pass of a network, as segmentation runs it, and its memory.

    Example: floodtide bench forward --depth 12 --fov 33 --threads 2 --against torch
    """
    from floodtide.bench import ffn_passes, shapes

    return ffn_passes.forward(
        shapes.FfnShape(**network),
        thread_counts=counts_or_default(thread_counts),
        seconds=seconds,
        against=against,
    )
