# SPDX-License-Identifier: Apache-2.0
"""`floodtide tune`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.errors import UnsupportedError

if TYPE_CHECKING:
    from floodtide.tune import Choice, Measurement, Setting

# Name, width and format of a column.
_COLUMNS = (
    ("ranks", 6, "d"),
    ("threads", 8, "d"),
    ("walkers", 8, "d"),
    ("bind", 9, "s"),
    ("wait", 8, "s"),
    ("fovs_per_s", 11, ".4g"),
    ("spread", 7, ".1%"),
    ("rounds", 7, "d"),
    ("share_of_best", 14, ".3f"),
)
_FACTORS = (2, 4)  # larger batches that the table shows


@click.command()
@click.argument("file", metavar="CONFIG.toml")
@shared.overrides
@click.option(
    "--walkers",
    type=shared.Number(limits.RANKS),
    help="Number of walkers on the host: the batch of a step.  [default: training.walkers, else the number of cores]",
)
@click.option(
    "--seconds",
    type=shared.Number(limits.SOME_SECONDS),
    default=2.0,
    show_default=True,
    help="Duration of a measurement.",
)
@click.option(
    "--rounds",
    type=shared.Number(limits.COUNT),
    default=3,
    show_default=True,
    help="Number of measurements of each of the fastest settings.",
)
@click.option(
    "--exhaustive", is_flag=True, help="Measure all settings in all rounds, not only the fastest."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("tuned.toml"),
    show_default=True,
    help="File for `floodtide train --tuned` and `floodtide job --tuned`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one for each setting.")
def command(
    file: str,
    overrides: tuple[str, ...],
    walkers: int | None,
    seconds: float,
    rounds: int,
    exhaustive: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Find the fastest ranks x threads on this machine for the flood-filling network of CONFIG.toml.

    Measures complete training steps on a synthetic volume: ranks, threads of a rank, cores of a rank (run.bind) and
    what idle threads do (OMP_WAIT_POLICY). All settings have the same number of walkers in a step, because this number
    changes the training. The last rows show the chosen setting with 2 and 4 times as many. Prints a table, and writes
    the choice to a file.

    \b
    Columns:
      ranks, threads, walkers   of the host; of a rank; of a rank
      fovs_per_s                fields of view per second of the host, in the fastest round
      spread, rounds            1 - slowest round / fastest round; number of rounds
      share_of_best             fovs_per_s / that of the fastest setting

    \b
    Example:
      floodtide tune fib25.toml
      mpiexec -n 2 floodtide train fib25.toml --tuned tuned.toml
    """
    from floodtide import _core, config, tune
    from floodtide.base.progress import bar
    from floodtide.comm.launching import libraries
    from floodtide.errors import ConfigurationError

    if libraries.launcher() is not None:
        raise UnsupportedError(
            "tune: runs under mpiexec, expected to start ranks itself; leave mpiexec out"
        )
    settings = config.load(file, overrides)
    model = settings.model
    if not isinstance(model, config.FfnConfig):
        raise ConfigurationError(f"{file}: model.kind is '{model.kind}', tune expects 'ffn'")
    cores = _core.available_cores()
    batch = walkers or settings.training.walkers or cores
    network = tune.Network(depth=model.depth, features=model.features, fov=model.fov)

    def measured(setting: tune.Setting, rate: float) -> float:
        return tune.measure(setting, network, seconds=seconds, fovs_per_s=rate)

    with bar("measurements", "tune") as progress:
        choice = tune.search(
            tune.candidates(cores, batch),
            tune.default_setting(cores, batch),
            measured,
            rounds=rounds,
            exhaustive=exhaustive,
            progress=progress,
        )
    tune.write_tuned(out, choice)
    larger = [_with_batch(choice, factor, measured, rounds) for factor in _FACTORS]
    best = choice.measurements[0].best
    rows = [_row(one, best) for one in (*choice.measurements, *larger)]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    click.echo("  ".join(f"{name:>{width}}" for name, width, _ in _COLUMNS))
    for row in rows:
        click.echo("  ".join(f"{row[name]:>{width}{form}}" for name, width, form in _COLUMNS))
    click.echo(f"{out}: {choice.setting}: {choice.reason}")


def _with_batch(
    choice: Choice, factor: int, measured: Callable[[Setting, float], float], rounds: int
) -> Measurement:
    """Measure the chosen setting with more walkers."""
    from floodtide import tune

    setting = dataclasses.replace(choice.setting, walkers=factor * choice.setting.walkers)
    rates = [measured(setting, choice.fovs_per_s) for _ in range(rounds)]
    return tune.Measurement(setting, rates)


def _row(one: Measurement, best: float) -> dict[str, Any]:
    setting = one.setting
    return {
        "ranks": setting.ranks,
        "threads": setting.threads,
        "walkers": setting.walkers,
        "bind": setting.bind,
        "wait": setting.wait,
        "fovs_per_s": one.best,
        "spread": one.spread,
        "rounds": len(one.fovs_per_s),
        "share_of_best": one.best / best,
    }
