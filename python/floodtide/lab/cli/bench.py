# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab bench NAME`: benchmarks of complete training. Each is a module of `floodtide.lab.bench`."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import click

from floodtide.cli import LazyGroup
from floodtide.cli.options import filled, of_fields, print_rows, rows_as_json

BENCHMARKS = {
    "train": "Overhead of configuration keys in a training step.",
    "stragglers": "Training with one slow rank (straggler).",
    "stalls": "Training with slow data loading, with and without prefetching.",
}


class BenchmarkGroup(LazyGroup):
    """A group that makes the command of a benchmark from its module when it is used."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in BENCHMARKS:
            return None
        from floodtide.comm.notebook import start_ranks
        from floodtide.lab.bench import trainings

        module = importlib.import_module(f"floodtide.lab.bench.{cmd_name}")

        @click.command(name=cmd_name, help=inspect.getdoc(module.measure))
        @of_fields(trainings.Trained, **module.DEFAULTS)
        @of_fields(module.Options)
        @rows_as_json
        def benchmark(as_json: bool, **options: Any) -> None:
            trained, own = filled(trainings.Trained, options), filled(module.Options, options)
            start_ranks(f"lab bench {cmd_name}", trained.ranks)
            print_rows(trainings.rows(module.measure, trained, own), as_json)

        return benchmark


@click.group(cls=BenchmarkGroup, table={name: ("", text) for name, text in BENCHMARKS.items()})
def command() -> None:
    """Measure complete training under disturbances on this machine.

    The benchmarks of several ranks start their ranks with mpiexec, unless mpiexec started them.
    """
