# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench NAME`: benchmarks of this machine.

To add a benchmark, add a row to BENCHMARKS and a command that prints its rows (`floodtide.bench.rows`).
"""

from __future__ import annotations

import click

from floodtide.cli.lazy import LazyGroup

BENCHMARKS = {
    "all": (
        "floodtide.cli.bench_all:command",
        "Table of all benchmarks of computation, beside PyTorch.",
    ),
    "conv": ("floodtide.cli.bench_conv:command", "Forward and backward passes of one convolution."),
    "step": ("floodtide.cli.bench_passes:step", "Training step of a flood-filling network."),
    "forward": ("floodtide.cli.bench_passes:forward", "Forward pass of a flood-filling network."),
    "unet": ("floodtide.cli.bench_passes:unet", "Training step and forward pass of a U-Net."),
    "allreduce": (
        "floodtide.cli.bench_ranks:allreduce",
        "Allreduce algorithms on arrays of gradients.",
    ),
    "scaling": (
        "floodtide.cli.bench_ranks:scaling",
        "Speed-up of training steps on several ranks.",
    ),
}


@click.group(cls=LazyGroup, commands=BENCHMARKS)
def command() -> None:
    """Measure the speed of kernels, training steps and scaling on this machine.

    Every benchmark of computation also measures the peak multiply-add rate of the processor in the same run.

    Example: floodtide bench conv --size 33 --channels 32 --threads 1,2 --json
    """
