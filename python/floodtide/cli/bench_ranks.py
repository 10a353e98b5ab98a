# SPDX-License-Identifier: Apache-2.0
"""Options that benchmarks with several ranks share, and a function that starts the ranks."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench import row_options
from floodtide.errors import InvalidArgumentError, UnsupportedError


def start_ranks(name: str, ranks: int) -> None:
    """Join the ranks if mpiexec started this process; else run this command under mpiexec and exit with its status.

    Args:
        name: Name of the benchmark, for messages.
        ranks: Number of ranks to start.

    Raises:
        UnsupportedError: If there is no mpiexec in the folder of the Python interpreter.
    """
    from floodtide.comm import notebook, world
    from floodtide.comm.launching import libraries

    if libraries.launcher() is not None:
        world.ensure_init()
        return
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        raise UnsupportedError(
            f"bench {name}: there is no mpiexec in the folder of {sys.executable}; "
            f"start the benchmark with another one: mpiexec -n {ranks} floodtide bench {name}"
        )
    command = [str(mpiexec), "-n", str(ranks), sys.executable, "-m", "floodtide", *sys.argv[1:]]
    sys.exit(subprocess.run(command, check=False, env=notebook.environment(ranks)).returncode)


def training_benchmark(
    name: str, *, ranks: int, depth: int, fov: str, features: int
) -> Callable[[Callable[..., Iterable[dict[str, Any]]]], click.Command]:
    """Return a decorator that makes a benchmark of training a command, with these default options.

    The decorated function is called on every rank with `lab` (a `floodtide.bench.trainings.Laboratory`) and its own
    options. It yields rows. Rank 0 prints its rows.
    """
    options = (
        click.option(
            "--ranks",
            type=shared.Number(limits.RANKS),
            default=ranks,
            show_default=True,
            help="Number of ranks to start, unless mpiexec started this command.",
        ),
        click.option(
            "--threads",
            type=shared.Number(limits.SOME_THREADS),
            default=1,
            show_default=True,
            help="Number of threads of each rank.",
        ),
        click.option(
            "--depth",
            type=shared.Number(limits.FFN_DEPTH),
            default=depth,
            show_default=True,
            help="Number of modules of the network.",
        ),
        click.option(
            "--fov",
            type=shared.Numbers(limits.FIELD_OF_VIEW, 3),
            default=fov,
            show_default=True,
            help="Size z,y,x of the field of view in voxels.",
        ),
        click.option(
            "--features",
            type=shared.Number(limits.FFN_FEATURES),
            default=features,
            show_default=True,
            help="Number of feature maps.",
        ),
    )

    def decorate(function: Callable[..., Iterable[dict[str, Any]]]) -> click.Command:
        @functools.wraps(function)
        def call(
            *,
            ranks: int,
            threads: int,
            depth: int,
            fov: tuple[int, int, int],
            features: int,
            **own: Any,
        ) -> Iterable[dict[str, Any]]:
            start_ranks(name, ranks)
            return _rows(function, threads, {"depth": depth, "fov": fov, "features": features}, own)

        decorated: Any = row_options(call)
        for option in reversed(options):
            decorated = option(decorated)
        command: click.Command = click.command(name=name)(decorated)
        return command

    return decorate


def _rows(
    function: Callable[..., Iterable[dict[str, Any]]],
    threads: int,
    network: dict[str, Any],
    own: dict[str, Any],
) -> Iterable[dict[str, Any]]:
    from floodtide import bench
    from floodtide.base import notes
    from floodtide.bench import trainings
    from floodtide.comm import world

    common = {"ranks": world.size(), "threads": threads}
    with (
        notes.no_warnings(),
        bench.threads(threads),
        trainings.laboratory(trainings.TrainedShape(**network), threads) as lab,
    ):
        for row in function(lab=lab, **own):
            if world.rank() == 0:
                yield bench.stamped({**row, **common})


def require_several_ranks(name: str) -> None:
    """Raise InvalidArgumentError on all ranks if there is only one rank."""
    from floodtide.comm import world

    if world.size() == 1:
        error = InvalidArgumentError(
            f"bench {name}: 1 rank, expected at least 2 (--ranks, or mpiexec -n)"
        )
        error.agreed = True
        raise error
