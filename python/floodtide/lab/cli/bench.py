# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab bench NAME`: benchmarks of complete training. Each is a module of `floodtide.lab.bench`."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import click

from floodtide.bench.shapes import Timing
from floodtide.cli.lazy import LazyGroup
from floodtide.cli.options import filled, of_fields
from floodtide.cli.rows import as_json, print_rows

OF_RANKS = {
    "train": "Overhead of configuration keys in a training step.",
    "stragglers": "Training with one slow rank (straggler).",
    "stalls": "Training with slow data loading, with and without prefetching.",
    "volumes": "Training from volumes of several formats.",
}
BENCHMARKS = {
    "machine": "Page about all benchmarks of computation, with a picture.",
    "forecast": "Predictions of `floodtide lab simulate`, compared with training.",
    **OF_RANKS,
}


class BenchmarkGroup(LazyGroup):
    """A group that makes the command of a benchmark from its module when it is used."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in BENCHMARKS:
            return None
        if cmd_name == "machine":
            return machine
        return _of_ranks(cmd_name) if cmd_name in OF_RANKS else _of_one_process(cmd_name)


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@of_fields(Timing)
def machine(out: Path, **options: Any) -> None:
    """Run `floodtide bench all`, and write a page (.md), its picture (.svg) and all rows (.json) to the folder OUT.

    The files have the name of the processor.

    Example: floodtide lab bench machine docs/performance
    """
    from floodtide.bench import everything
    from floodtide.lab.bench import machine as page

    results = []
    for result in everything.measure(filled(Timing, options)):
        results.append(result)
        click.echo(f"{result[0]}: measured", err=True)
    click.echo(str(page.write(out, page.facts(), results)))


def _of_one_process(name: str) -> click.Command:
    from floodtide.bench.rows import stamped

    module = importlib.import_module(f"floodtide.lab.bench.{name}")

    @click.command(name=name, help=inspect.getdoc(module.measure))
    @of_fields(module.Options)
    @as_json
    def command(as_json: bool, **options: Any) -> None:
        print_rows(map(stamped, module.measure(filled(module.Options, options))), as_json)

    return command


def _of_ranks(name: str) -> click.Command:
    from floodtide.bench.ranks import start_ranks
    from floodtide.lab.bench import trainings

    module = importlib.import_module(f"floodtide.lab.bench.{name}")

    @click.command(name=name, help=inspect.getdoc(module.measure))
    @of_fields(trainings.Trained, **module.DEFAULTS)
    @of_fields(module.Options)
    @as_json
    def command(as_json: bool, **options: Any) -> None:
        trained, own = filled(trainings.Trained, options), filled(module.Options, options)
        start_ranks(f"lab bench {name}", trained.ranks)
        print_rows(trainings.rows(module.measure, trained, own), as_json)

    return command


@click.group(
    cls=BenchmarkGroup,
    commands={name: ("", text) for name, text in BENCHMARKS.items()},
)
def command() -> None:
    """Measure complete training under disturbances, and forecasts of it, on this machine.

    The benchmarks of several ranks start their ranks with mpiexec, unless mpiexec started them.
    """
