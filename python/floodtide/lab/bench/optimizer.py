# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers, compared with the memory bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from floodtide import optim
from floodtide.base import limits
from floodtide.base.options import option
from floodtide.bench.kernels import optimizer
from floodtide.bench.rows import Row, threads
from floodtide.bench.shapes import Timing


@dataclass(frozen=True, kw_only=True)
class Options(Timing):
    """The optimizers, and the number of parameters that they update."""

    name: tuple[str, ...] = option(
        (),
        "Optimizer; may be given several times.  [default: all]",
        choices=[row["name"] for row in optim.rows()],
    )
    parameters: int = option(472_353, "Number of parameters", range=limits.COUNT)


def measure(options: Options) -> Iterator[Row]:
    """Measure steps of optimizers.

    `ratio` is the time of a step relative to reading and writing parameters and state once (`sweep_s`), without
    computation. All data come from memory rather than from caches, as in training.

    Example: floodtide lab bench optimizer --name adam --name lamb
    """
    for count in options.counts:
        with threads(count):
            for name in options.name or [row["name"] for row in optim.rows()]:
                yield optimizer(name, options.parameters, options.seconds)
