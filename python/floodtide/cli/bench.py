# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench NAME`: benchmarks of this machine. A command prints the rows of a function of `floodtide.bench`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from floodtide.bench.allreduce import AllreduceOptions
from floodtide.bench.shapes import NETWORKS, ConvShape, ScalingOptions, Timing
from floodtide.cli import options as shared
from floodtide.cli.options import Command, filled, of_fields, print_rows, rows_as_json

_PROGRAMS = (
    "Compare with the same network in other programs, separated by commas: torch, torch-bf16 (autocast), torch-compile,"
    " and for forward passes onnxruntime, openvino. Samples of all alternate."
)


@click.group()
def command() -> None:
    """Measure the speed of kernels, training steps and scaling on this machine.

    Every benchmark of computation also measures the peak multiply-add rate of the processor in the same run.

    Example: floodtide bench conv --size 33 --channels 32 --threads 1,2 --json
    """


@command.command(name="all")
@of_fields(Timing)
@rows_as_json
def everything(as_json: bool, **options: Any) -> None:
    """Measure everything that computes, and compare with other programs if they are installed.

    It takes some minutes. Other programs should not run meanwhile.

    Example: floodtide bench all
    """
    from floodtide.bench.everything import measure

    print_rows(measure(filled(Timing, options)), as_json)


@command.command()
@of_fields(ConvShape)
@click.option(
    "--against", default="", help="Compare with a second kernel. Samples of the two alternate."
)
@of_fields(Timing)
@rows_as_json
def conv(against: str, as_json: bool, **options: Any) -> None:
    """Measure forward, backward-data and backward-weights of a convolution. Checks the results first.

    Example: floodtide bench conv --size 33 --channels 32 --against onednn
    """
    from floodtide.bench import passes

    shape, timing = filled(ConvShape, options), filled(Timing, options)
    print_rows(passes.conv(shape, timing, against), as_json)


def _of_network(command: Command) -> Command:
    """Give a command its configuration, what to compare with, and the times to measure. Used as a decorator."""
    file = click.argument("file", metavar="[CONFIG.toml]", required=False)
    other = click.option("--against", default="", help=_PROGRAMS)
    for option in (rows_as_json, of_fields(Timing), other, shared.overrides, file):
        command = option(command)
    return command


def _measure(names: Sequence[str], defaults: dict[str, Any], asked: dict[str, Any]) -> None:
    """Measure passes of the network of a configuration, by default that of a table, as the options ask."""
    from floodtide import config
    from floodtide.bench import passes

    file, sets = asked["file"], asked["overrides"]
    settings = config.load(file, sets) if file else config.from_dict(defaults, "bench", sets)
    rows = passes.measure(settings, names, filled(Timing, asked), asked["against"])
    print_rows(rows, asked["as_json"])


@command.command()
@_of_network
def step(**asked: Any) -> None:
    """Measure time and memory of a training step: forward, backward, gradient clipping and Adam.

    The network is that of CONFIG.toml, by default the paper's. The batch has one field of view for each walker.

    Example: floodtide bench step --set model.depth=9 --set training.walkers=2 --against torch
    """
    _measure(["step"], NETWORKS["ffn"], asked)


@command.command()
@_of_network
def forward(**asked: Any) -> None:
    """Measure time and memory of the forward pass of a network, as used in segmentation.

    The network is that of CONFIG.toml, by default the published one of depth 12.

    Example: floodtide bench forward --threads 2 --against torch
    """
    _measure(["forward"], {"model": {"depth": 12}}, asked)


@command.command()
@_of_network
def unet(**asked: Any) -> None:
    """Measure time and memory of training passes (forward and backward) and forward passes of a U-Net.

    The network and its patches are those of CONFIG.toml, by default a 2-D one with 8 sections of 240 x 240 pixels.

    Example: floodtide bench unet --set training.batch=4 --threads 1,2 --against torch
    """
    _measure(["step", "forward"], NETWORKS["unet"], asked)


@command.command()
@of_fields(AllreduceOptions)
@rows_as_json
def allreduce(as_json: bool, **options: Any) -> None:
    """Measure the sum of an array over ranks with each algorithm and wire format.

    The result of each algorithm is checked first. `ratio` is the median time divided by the median time
    of the MPI library's blocking allreduce in the same run. A value below 1 means faster than the library.

    Example: mpiexec -n 2 floodtide bench allreduce --json
    """
    from floodtide.bench import allreduce as benchmark

    print_rows(benchmark.allreduce(filled(AllreduceOptions, options)), as_json)


@command.command()
@of_fields(ScalingOptions)
@rows_as_json
def scaling(as_json: bool, **options: Any) -> None:
    """Measure the speed-up of training steps from one rank to all ranks, and the speed-up of the processor's peak.

    Starts its ranks with mpiexec, unless mpiexec started this command.

    \b
    Columns:
      fovs_per_s, images_per_s  throughput of all ranks together
      speedup                   throughput of all ranks / throughput of one rank
      peak_speedup              the same for the processor's peak multiply-add rate
      share_of_peak_speedup     speedup / peak_speedup

    Example: floodtide bench scaling --network unet --ranks 2 --json
    """
    from floodtide.bench import scaling as benchmark

    print_rows(benchmark.scaling(filled(ScalingOptions, options)), as_json)
