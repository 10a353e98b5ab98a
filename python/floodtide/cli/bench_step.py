# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench step` and `forward`: measure the passes of a network, without data loading and communication."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from floodtide import _core
from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench import (
    compute_option,
    counts_or_default,
    row_options,
    seconds_option,
    threads_option,
)


def _network_options(depth: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options for the fields of `floodtide.bench.shapes.FfnShape`, and `--against`."""
    options = (
        click.option(
            "--depth",
            type=shared.Number(limits.FFN_DEPTH),
            default=depth,
            show_default=True,
            help="Number of modules.",
        ),
        click.option(
            "--fov",
            type=shared.Numbers(limits.FIELD_OF_VIEW, 3),
            default="33",
            show_default=True,
            help="Size z,y,x of the field of view in voxels.",
        ),
        click.option(
            "--features",
            type=shared.Number(limits.FFN_FEATURES),
            default=32,
            show_default=True,
            help="Number of feature maps.",
        ),
        click.option(
            "--batch",
            type=shared.Number(limits.BATCH),
            default=1,
            show_default=True,
            help="Number of examples in the batch.",
        ),
        compute_option,
        click.option(
            "--parallel",
            type=click.Choice(_core.choices("parallel")),
            default="fovs",
            show_default=True,
            help="Whether each thread computes whole fields of view, or all threads share the voxels of each.",
        ),
        click.option(
            "--against",
            default="",
            help="Compare with the same network in PyTorch ('torch'; 'torch-bf16' with autocast), or with another "
            "convolution kernel by its name, such as 'onednn'. Samples of the two alternate.",
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
    """Measure time and memory of a training step: forward, backward, gradient clipping and Adam.

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
    """Measure time and memory of the forward pass of a network, as used in segmentation.

    Example: floodtide bench forward --depth 12 --fov 33 --threads 2 --against torch
    """
    from floodtide.bench import ffn_passes, shapes

    return ffn_passes.forward(
        shapes.FfnShape(**network),
        thread_counts=counts_or_default(thread_counts),
        seconds=seconds,
        against=against,
    )
