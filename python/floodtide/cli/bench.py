# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench NAME`: benchmarks of this machine.

Another benchmark is a row in BENCHMARKS and a click command whose callback returns rows (see
`floodtide.bench`); `row_options` gives it `--json` and prints them.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared

BENCHMARKS = {
    "peak": ("floodtide.cli.bench:peak", "Multiply-add peak of each instruction set."),
    "conv": ("floodtide.cli.bench:conv", "The three passes of a convolution."),
    "scaling": ("floodtide.cli.bench_scaling:command", "Training steps of one rank and of all."),
    "step": ("floodtide.cli.bench_step:step", "A training step of one rank."),
    "forward": ("floodtide.cli.bench_step:forward", "A forward pass, as in segmentation."),
    "unet": ("floodtide.cli.bench_unet:command", "A training step of a U-Net."),
    "forecast": (
        "floodtide.cli.bench_forecast:command",
        "What simulate predicts, beside trainings.",
    ),
    "allreduce": ("floodtide.cli.bench_allreduce:command", "Sums of gradients over ranks."),
    "train": (
        "floodtide.cli.bench_train:command",
        "Whole training steps, and what a setting costs.",
    ),
    "overlap": ("floodtide.cli.bench_overlap:command", "Communication that no computation hides."),
    "stragglers": (
        "floodtide.cli.bench_stragglers:command",
        "One slow rank, and whom it holds up.",
    ),
    "stalls": ("floodtide.cli.bench_stalls:command", "Slow loads, with and without reading ahead."),
}

COLUMNS = ("name", "kernel", "threads", "ranks", "median_s", "gflops", "peak_gflops", "ratio")


class BenchmarkGroup(click.Group):
    """Imports a benchmark only when it is asked for."""

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
    """Time kernels, steps and scaling on this machine, each beside the peak of the same run.

    Example: floodtide bench conv --size 33 --channels 32 --threads 1,2 --json
    """


def row_options(function: Callable[..., Iterable[dict[str, Any]]]) -> Callable[..., None]:
    """Give a benchmark `--json`, and print the rows that it yields as they come."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON object a row.")
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
    """Give a benchmark `--threads`; its callback gets `thread_counts`, empty when not given."""
    return click.option(
        "--threads",
        "thread_counts",
        type=shared.Numbers(limits.SOME_THREADS),
        default=(),
        help="Numbers of threads; default: 1 and every core.",
    )(function)


def seconds_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a benchmark `--seconds`."""
    return click.option(
        "--seconds",
        type=shared.Number(limits.SECONDS),
        default=1.0,
        show_default=True,
        help="Least time to spend on a row.",
    )(function)


def counts_or_default(thread_counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of threads to use: those given, else one and every core."""
    from floodtide import _core

    return thread_counts or tuple(sorted({1, int(_core.available_cores())}))


@click.command()
@threads_option
@seconds_option
@row_options
def peak(thread_counts: tuple[int, ...], seconds: float) -> Iterable[dict[str, Any]]:
    """Time the multiply-add loops of every instruction set that the processor has.

    Example: floodtide bench peak --threads 1,2
    """
    from floodtide import bench

    return bench.peak(thread_counts=counts_or_default(thread_counts), seconds=seconds)


@click.command()
@click.option(
    "--size",
    type=shared.Numbers(limits.PATCH, 3),
    default="33",
    show_default=True,
    help="Voxels, z,y,x.",
)
@click.option(
    "--channels",
    type=shared.Numbers(limits.FFN_FEATURES, 2),
    default="32",
    show_default=True,
    help="Input,output channels.",
)
@click.option(
    "--kernel",
    type=shared.Numbers(limits.KERNEL, 3),
    default="3",
    show_default=True,
    help="Extents, 1 or 3, z,y,x.",
)
@click.option("--relu/--no-relu", default=True, help="Rectify the input, mask backward-data.")
@click.option("--against", default="", help="A second kernel, timed in turn with the first.")
@threads_option
@seconds_option
@row_options
def conv(
    size: tuple[int, int, int],
    channels: tuple[int, int],
    kernel: tuple[int, int, int],
    relu: bool,
    against: str,
    thread_counts: tuple[int, ...],
    seconds: float,
) -> Iterable[dict[str, Any]]:
    """Time forward, backward-data and backward-weights of a convolution, after checking them.

    Example: floodtide bench conv --size 33 --channels 32 --against onednn
    """
    from floodtide import bench

    return bench.conv(
        size=size,
        channels=channels,
        kernel=kernel,
        relu=relu,
        thread_counts=counts_or_default(thread_counts),
        seconds=seconds,
        against=against,
    )
