# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench unet`: measure the passes of a U-Net, without data loading and communication."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench import (
    compute_option,
    counts_or_default,
    row_options,
    seconds_option,
    threads_option,
)


@click.command()
@click.option(
    "--depth",
    type=shared.Number(limits.UNET_DEPTH),
    default=5,
    show_default=True,
    help="Number of levels.",
)
@click.option(
    "--features",
    type=shared.Number(limits.UNET_FEATURES),
    default=16,
    show_default=True,
    help="Number of feature maps of the first level.",
)
@click.option(
    "--classes",
    type=shared.Number(limits.EXCLUSIVE_CLASSES),
    default=2,
    show_default=True,
    help="Number of classes.",
)
@click.option(
    "--size",
    type=shared.Numbers(limits.PATCH, 2),
    default="240",
    show_default=True,
    help="Size y,x of a slice in pixels.",
)
@click.option(
    "--batch",
    type=shared.Number(limits.BATCH),
    default=8,
    show_default=True,
    help="Number of slices in the batch.",
)
@compute_option
@click.option(
    "--against",
    default="",
    help="Compare with the same network in PyTorch ('torch'; 'torch-bf16' with autocast). Samples alternate.",
)
@threads_option
@seconds_option
@row_options
def command(
    against: str, thread_counts: tuple[int, ...], seconds: float, **network: Any
) -> Iterable[dict[str, Any]]:
    """Measure time and memory of training passes (forward and backward) and of forward passes of a U-Net.

    Example: floodtide bench unet --threads 1,2 --against torch
    """
    from floodtide.bench import shapes, unet_passes

    return unet_passes.unet(
        shapes.UNetShape(**network),
        thread_counts=counts_or_default(thread_counts),
        seconds=seconds,
        against=against,
    )
