# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench NAME`: benchmarks of this machine.

To add a benchmark, add a row to BENCHMARKS and a click command whose callback returns rows (see
`floodtide.bench`). `row_options` adds the option `--json` and prints the rows.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import click

from floodtide import _core
from floodtide.base import limits
from floodtide.cli import options as shared

BENCHMARKS = {
    "all": (
        "floodtide.cli.bench_all:command",
        "Table of all benchmarks of computation, beside PyTorch.",
    ),
    "peak": ("floodtide.cli.bench:peak", "Peak multiply-add rate of each instruction set."),
    "bandwidth": (
        "floodtide.cli.bench:bandwidth",
        "Speed of reading from caches and memory.",
    ),
    "conv": ("floodtide.cli.bench:conv", "Forward and backward passes of one convolution."),
    "scaling": (
        "floodtide.cli.bench_scaling:command",
        "Speed-up of training steps on several ranks.",
    ),
    "step": ("floodtide.cli.bench_step:step", "Training step of a flood-filling network."),
    "forward": ("floodtide.cli.bench_step:forward", "Forward pass of a flood-filling network."),
    "optimizer": (
        "floodtide.cli.bench_optimizer:command",
        "Step of an optimizer, compared with the memory bandwidth.",
    ),
    "unet": ("floodtide.cli.bench_unet:command", "Training step and forward pass of a U-Net."),
    "forecast": (
        "floodtide.cli.bench_forecast:command",
        "Predictions of `floodtide simulate`, compared with training.",
    ),
    "allreduce": (
        "floodtide.cli.bench_allreduce:command",
        "Allreduce algorithms on arrays of gradients.",
    ),
    "train": (
        "floodtide.cli.bench_train:command",
        "Overhead of configuration keys in a training step.",
    ),
    "overlap": (
        "floodtide.cli.bench_overlap:command",
        "Communication that does not overlap with computation.",
    ),
    "stragglers": (
        "floodtide.cli.bench_stragglers:command",
        "Training with one slow rank (straggler).",
    ),
    "stalls": (
        "floodtide.cli.bench_stalls:command",
        "Training with slow data loading, with and without prefetching.",
    ),
    "volumes": (
        "floodtide.cli.bench_volumes:command",
        "Training from volumes of several formats.",
    ),
}

COLUMNS = ("name", "kernel", "threads", "ranks", "median_s", "gflops", "peak_gflops", "ratio")


class BenchmarkGroup(click.Group):
    """A group that imports a benchmark only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(BENCHMARKS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in BENCHMARKS:
            return None
        module, _, attribute = BENCHMARKS[cmd_name][0].partition(":")
        benchmark: click.Command = getattr(importlib.import_module(module), attribute)
        return benchmark

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Benchmarks"):
            formatter.write_dl([(name, text) for name, (_, text) in BENCHMARKS.items()])


@click.group(cls=BenchmarkGroup)
def command() -> None:
    """Measure the speed of kernels, training steps and scaling on this machine.

    Every benchmark of computation also measures the peak multiply-add rate of the processor in the same run.

    Example: floodtide bench conv --size 33 --channels 32 --threads 1,2 --json
    """


def row_options(function: Callable[..., Iterable[dict[str, Any]]]) -> Callable[..., None]:
    """Add the option `--json` to a benchmark, and print each row as soon as the benchmark yields it."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")
    @functools.wraps(function)
    def wrapped(*arguments: Any, as_json: bool, **options: Any) -> None:
        shown: tuple[str, ...] = ()
        for row in function(*arguments, **options):
            if as_json:
                click.echo(json.dumps(row))
                continue
            columns = tuple(key for key in (*COLUMNS, *EXTRA_COLUMNS) if key in row)
            if columns != shown:
                click.echo("  ".join(_cell(key, key) for key in columns))
                shown = columns
            click.echo("  ".join(_cell(key, row[key]) for key in columns))

    return wrapped


EXTRA_COLUMNS = (
    "step_s",
    "sweep_s",
    "best_ratio",
    "mean_ratio",
    "cpu_ratio",
    "exposed_s",
    "predicted_s",
    "model_ratio",
    "wait_data_s",
    "used",
    "dropped",
    "per_update",
    "losses",
    "last_bucket_s",
    "exposed_share",
    "sent_bytes",
    "mib",
    "gb_per_s",
    "fovs_per_s",
    "images_per_s",
    "speedup",
    "share_of_peak_speedup",
    "peak_memory_mib",
)
WIDTHS = {"name": 22, "kernel": 23, "threads": 7, "ranks": 5}


def _cell(key: str, value: Any) -> str:
    width = WIDTHS.get(key, 11)
    if key in ("name", "kernel"):
        return f"{value:<{width}}"
    if isinstance(value, float):
        return f"{value:>{width}.4g}"
    return f"{value!s:>{width}}"


def threads_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--threads` to a benchmark. Its callback gets `thread_counts`, () if the option is not given."""
    return click.option(
        "--threads",
        "thread_counts",
        type=shared.Numbers(limits.SOME_THREADS),
        default=(),
        help="Numbers of threads to measure; default: 1 and the number of cores.",
    )(function)


def compute_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--compute` to a benchmark."""
    return click.option(
        "--compute",
        type=click.Choice(_core.choices("compute")),
        default="fp32",
        show_default=True,
        help="Convolution algorithms, as `run.compute`.",
    )(function)


def seconds_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--seconds` to a benchmark."""
    return click.option(
        "--seconds",
        type=shared.Number(limits.SECONDS),
        default=1.0,
        show_default=True,
        help="Minimum time to measure each row.",
    )(function)


def counts_or_default(thread_counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the given numbers of threads, or (1, number of cores) if none are given."""
    from floodtide import _core

    return thread_counts or tuple(sorted({1, int(_core.available_cores())}))


@click.command()
@threads_option
@seconds_option
@row_options
def peak(thread_counts: tuple[int, ...], seconds: float) -> Iterable[dict[str, Any]]:
    """Measure the peak multiply-add rate of every instruction set of the processor.

    Example: floodtide bench peak --threads 1,2
    """
    from floodtide import bench

    return bench.peak(thread_counts=counts_or_default(thread_counts), seconds=seconds)


@click.command()
@click.option(
    "--mib",
    type=shared.Numbers(limits.BUFFER_MIB),
    help="Sizes in MiB of the buffer of each thread.  [default: 0.5,4,256]",
)
@threads_option
@seconds_option
@row_options
def bandwidth(
    mib: tuple[float, ...] | None, thread_counts: tuple[int, ...], seconds: float
) -> Iterable[dict[str, Any]]:
    """Measure how fast threads read from caches and memory. Each thread reads its own buffer again and again.

    Example: floodtide bench bandwidth --threads 1,2 --mib 0.5,4,256
    """
    from floodtide import bench

    sizes = mib or bench.MIB
    return bench.bandwidth(
        thread_counts=counts_or_default(thread_counts), mib=sizes, seconds=seconds
    )


@click.command()
@click.option(
    "--size",
    type=shared.Numbers(limits.PATCH, 3),
    default="33",
    show_default=True,
    help="Size z,y,x of the array in voxels.",
)
@click.option(
    "--channels",
    type=shared.Numbers(limits.FFN_FEATURES, 2),
    default="32",
    show_default=True,
    help="Numbers of input and output channels.",
)
@click.option(
    "--kernel",
    type=shared.Numbers(limits.KERNEL, 3),
    default="3",
    show_default=True,
    help="Size z,y,x of the convolution kernel, each 1 or 3.",
)
@click.option(
    "--relu/--no-relu",
    default=True,
    help="Apply a ReLU to the input, and its mask to the result of backward-data.",
)
@compute_option
@click.option(
    "--against",
    default="",
    help="Name of a second kernel to compare with; samples of the two kernels alternate.",
)
@threads_option
@seconds_option
@row_options
def conv(
    size: tuple[int, int, int],
    channels: tuple[int, int],
    kernel: tuple[int, int, int],
    relu: bool,
    compute: str,
    against: str,
    thread_counts: tuple[int, ...],
    seconds: float,
) -> Iterable[dict[str, Any]]:
    """Measure forward, backward-data and backward-weights of a convolution. Checks the results first.

    Example: floodtide bench conv --size 33 --channels 32 --against onednn
    """
    from floodtide import bench

    return bench.conv(
        size=size,
        channels=channels,
        kernel=kernel,
        relu=relu,
        compute=compute,
        thread_counts=counts_or_default(thread_counts),
        seconds=seconds,
        against=against,
    )
