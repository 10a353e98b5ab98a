# SPDX-License-Identifier: Apache-2.0
"""Everything that `floodtide lab simulate` answers: rows, and the ranks that reach a throughput."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from floodtide.base import limits
from floodtide.base.files import replace_bytes
from floodtide.base.options import option
from floodtide.base.outputs import PICTURES, files_in, reserved
from floodtide.errors import InvalidArgumentError
from floodtide.lab import ranges
from floodtide.lab.simulate import calibration, figure, forecast, model, scenarios
from floodtide.lab.simulate.forecast import Options
from floodtide.lab.simulate.rows import Row


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be simulated."""

    paper: bool = option(
        False, "Simulate the paper's machine under two explanations of its lost efficiency"
    )
    fovs_per_s: float | None = option(
        None,
        "Also find the smallest number of ranks with this throughput, in fields of view per second",
        range=ranges.THROUGHPUT,
    )
    ranks: tuple[int, ...] = option(
        tuple(2**power for power in range(11)), "Numbers of ranks to simulate", range=limits.RANKS
    )
    steps: int = option(
        2000, "Number of training steps to simulate for each row", range=ranges.SIMULATED_STEPS
    )
    seed: int = option(0, "Seed of the random numbers", range=limits.FILE_SEED)
    out: Path | None = option(None, "Also draw the rows to this .png, .svg or .pdf file")


@dataclass(frozen=True)
class Target:
    """The smallest number of ranks with a throughput on a network; None: no number has it."""

    network: str
    target_fovs_per_s: float
    ranks: int | None


def answers(
    run: Path | None, question: Question, options: Options
) -> tuple[list[Row], list[Target]]:
    """Simulate, draw the rows if the question says so, and return rows and targets.

    Args:
        run: Run directory with measurements; None: the options have them.
        question: What is to be simulated.
        options: Assumptions; they override the measurements.

    Raises:
        InvalidArgumentError: If nothing is to be simulated, or options are missing, contradict each other or are out of
            range.
        InvalidFileError: If a file does not contain what its option needs.
        StorageError: If the picture cannot be written.
    """
    out = question.out
    if out is None:
        return _simulated(run, question, options)
    if out.suffix not in PICTURES:
        raise InvalidArgumentError(
            f"{out}: ends in '{out.suffix}', expected one of {', '.join(PICTURES)}"
        )
    inputs = [name for name in (options.samples, options.allreduce) if name is not None]
    inputs += files_in(run) if run is not None else []
    with reserved("simulate", out, PICTURES[out.suffix], inputs):
        rows, targets = _simulated(run, question, options)
        replace_bytes(out, figure.draw(rows, out.suffix[1:]))
    return rows, targets


def _simulated(
    run: Path | None, question: Question, options: Options
) -> tuple[list[Row], list[Target]]:
    ranks, steps, seed = question.ranks, question.steps, question.seed
    ranges.SIMULATED_DRAWS.check(max(ranks) * steps, "--ranks times --steps")
    measured = calibration.calibrate(run) if run else None
    own = measured is not None or options.compute_s is not None or options.samples is not None
    if not own:
        _refuse_without_forecast(question, options)
    jobs = forecast.forecast_jobs(options, measured) if own else []
    rows: list[Row] = []
    for named in (scenarios.paper_jobs() if question.paper else []) + jobs:
        rows += scenarios.sweep(named, ranks, steps=steps, seed=seed)
    if measured:
        rows.append(forecast.measured_row(measured))
    wanted = question.fovs_per_s
    if wanted is None:
        return rows, []
    least = [model.least_ranks(named.job, wanted, steps=steps, seed=seed) for named in jobs]
    targets = [Target(named.network, wanted, n) for named, n in zip(jobs, least, strict=True)]
    return rows, targets


def _refuse_without_forecast(question: Question, options: Options) -> None:
    """Refuse a question without anything to simulate, and forecast options without a forecast to act on."""
    if not question.paper:
        raise InvalidArgumentError(
            "nothing to simulate: expected RUN, --compute-s, --samples or --paper"
        )
    if question.fovs_per_s is not None or options != Options():
        raise InvalidArgumentError(
            "forecast options are given, expected RUN, --compute-s or --samples too"
        )
