# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench step`, `forward` and `unet`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from floodtide import config
from floodtide.bench import passes
from floodtide.bench.shapes import FfnShape, Timing, UNetShape
from floodtide.cli.options import Command, filled, of_fields, overrides
from floodtide.cli.rows import as_json, print_rows

_TORCH = "Compare with the same network in PyTorch ('torch'; 'torch-bf16' with autocast)"
_TORCH_OR_KERNEL = f"{_TORCH}, or with another convolution kernel by its name, such as 'onednn'"


def _measured(against: str) -> Callable[[Command], Command]:
    """Return a decorator that gives a command its configuration, what to compare with, and the times to measure."""
    file = click.argument("file", metavar="[CONFIG.toml]", required=False)
    other = click.option("--against", default="", help=f"{against}. Samples of the two alternate.")

    def decorate(command: Command) -> Command:
        for option in (as_json, of_fields(Timing), other, overrides, file):
            command = option(command)
        return command

    return decorate


def _settings(file: str | None, overrides: Sequence[str], **defaults: Any) -> config.Config:
    return config.load(file, overrides) if file else config.from_dict(defaults, "bench", overrides)


@click.command()
@_measured(_TORCH_OR_KERNEL)
def step(
    file: str | None, overrides: Sequence[str], against: str, as_json: bool, **options: Any
) -> None:
    """Measure time and memory of a training step: forward, backward, gradient clipping and Adam.

    The network is that of CONFIG.toml, by default the paper's. The batch has one field of view for each walker.

    Example: floodtide bench step --set model.depth=9 --set training.walkers=2 --against torch
    """
    shape = FfnShape.of(_settings(file, overrides))
    print_rows(passes.measure(shape, ["step"], filled(Timing, options), against), as_json)


@click.command()
@_measured(_TORCH_OR_KERNEL)
def forward(
    file: str | None, overrides: Sequence[str], against: str, as_json: bool, **options: Any
) -> None:
    """Measure time and memory of the forward pass of a network, as used in segmentation.

    The network is that of CONFIG.toml, by default the published one of depth 12.

    Example: floodtide bench forward --threads 2 --against torch
    """
    shape = FfnShape.of(_settings(file, overrides, model={"depth": 12}))
    print_rows(passes.measure(shape, ["forward"], filled(Timing, options), against), as_json)


@click.command()
@_measured(_TORCH)
def unet(
    file: str | None, overrides: Sequence[str], against: str, as_json: bool, **options: Any
) -> None:
    """Measure time and memory of training passes (forward and backward) and forward passes of a U-Net.

    The network and its patches are those of CONFIG.toml, by default a 2-D one with 8 sections of 240 x 240 pixels.

    Example: floodtide bench unet --set training.batch=4 --threads 1,2 --against torch
    """
    defaults: dict[str, Any] = {
        "task": {"kind": "classes"},
        "model": {"kind": "unet", "depth": 5, "kernels": [[1, 3, 3]], "pools": [[1, 2, 2]]},
        "data": {"patch": [1, 240, 240]},
        "training": {"batch": 8},
    }
    shape = UNetShape.of(_settings(file, overrides, **defaults))
    names = ("step", "forward")
    print_rows(passes.measure(shape, names, filled(Timing, options), against), as_json)
