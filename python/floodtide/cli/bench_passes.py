# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench conv`, `step`, `forward` and `unet`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from floodtide.bench import ffn_passes, kernels, unet_passes
from floodtide.bench.shapes import ConvShape, FfnShape, Timing, UNetShape
from floodtide.cli.options import filled, of_fields
from floodtide.cli.rows import as_json, print_rows

_AGAINST = "Compare with the same network in PyTorch ('torch'; 'torch-bf16' with autocast)"


def _against(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--against", default="", help=f"{text}. Samples of the two alternate.")


@click.command()
@of_fields(ConvShape)
@_against("Compare with a second kernel, by its name")
@of_fields(Timing)
@as_json
def conv(against: str, as_json: bool, **options: Any) -> None:
    """Measure forward, backward-data and backward-weights of a convolution. Checks the results first.

    Example: floodtide bench conv --size 33 --channels 32 --against onednn
    """
    shape, timing = filled(ConvShape, options), filled(Timing, options)
    print_rows(kernels.conv(shape, timing, against), as_json)


@click.command()
@of_fields(FfnShape)
@_against(f"{_AGAINST}, or with another convolution kernel by its name, such as 'onednn'")
@of_fields(Timing)
@as_json
def step(against: str, as_json: bool, **options: Any) -> None:
    """Measure time and memory of a training step: forward, backward, gradient clipping and Adam.

    Example: floodtide bench step --depth 9 --fov 33 --threads 2 --against torch
    """
    shape, timing = filled(FfnShape, options), filled(Timing, options)
    print_rows(ffn_passes.step(shape, timing, against), as_json)


@click.command()
@of_fields(FfnShape, depth=12)
@_against(f"{_AGAINST}, or with another convolution kernel by its name, such as 'onednn'")
@of_fields(Timing)
@as_json
def forward(against: str, as_json: bool, **options: Any) -> None:
    """Measure time and memory of the forward pass of a network, as used in segmentation.

    Example: floodtide bench forward --depth 12 --fov 33 --threads 2 --against torch
    """
    shape, timing = filled(FfnShape, options), filled(Timing, options)
    print_rows(ffn_passes.forward(shape, timing, against), as_json)


@click.command()
@of_fields(UNetShape)
@_against(_AGAINST)
@of_fields(Timing)
@as_json
def unet(against: str, as_json: bool, **options: Any) -> None:
    """Measure time and memory of training passes (forward and backward) and of forward passes of a U-Net.

    Example: floodtide bench unet --threads 1,2 --against torch
    """
    shape, timing = filled(UNetShape, options), filled(Timing, options)
    print_rows(unet_passes.unet(shape, timing, against), as_json)
