# SPDX-License-Identifier: Apache-2.0
"""The records of log.jsonl: the start of a job, its steps since the last record, and those of a script."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping

from floodtide import _core
from floodtide.base import notes
from floodtide.comm import world
from floodtide.errors import InvalidArgumentError
from floodtide.optim import advice
from floodtide.train.kinds.kind import Setup
from floodtide.train.task import Record

KINDS = ("start", "train", "validation")
"""The kinds of the records that a step loop writes into log.jsonl."""


def start_record(
    setup: Setup, comm: world.Communicator, core: _core.Trainer, checkpoint: str
) -> Record:
    """Return the first record of a job.

    Args:
        setup: What the job trains.
        comm: The ranks that train.
        core: The core's trainer.
        checkpoint: The checkpoint from which the job resumes; empty if there is none.
    """
    parts, task = setup.parts, setup.task
    walkers, batch = parts.data.walkers, setup.config.training.batch
    return {
        "kind": "start",
        "step": core.steps_done,
        "ranks": comm.size,
        "walkers": walkers,
        "threads": _core.num_threads(),
        "parameters": sum(array.size for array in parts.model.state_dict().values()),
        "unit": task.unit,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "version": _core.__version__,
        "processor": _core.processor_name(),
        "cores": _core.available_cores(),
        "hosts": world.places()[3],
        "examples_per_epoch": task.examples,
        **task.facts,
        "resumed_from": checkpoint,
        "transport": comm.description,
        "kernels": task.kernels,
        "rate": advice.rate_used(parts.schedule, walkers, batch),
    }


def print_warnings(setup: Setup) -> None:
    """Print what the checks of the data have found, and what the learning rate is bad for."""
    for warning in setup.warnings:
        notes.warn(warning)
    parts, config = setup.parts, setup.config
    statistics = getattr(config.model, "batch_norm", False)
    for trap in advice.traps(
        parts.optimizer,
        parts.schedule,
        parts.data.walkers,
        config.training.batch,
        statistics=statistics,
    ):
        notes.show(trap)


def train_record(
    core: _core.Trainer,
    report: _core.StepReport,
    sums: Mapping[str, float],
    unit: str,
    ranks: int,
    elapsed_s: float,
) -> Record:
    """Return the record of the steps since the last one.

    Args:
        core: The core's trainer.
        report: Its report of the last step.
        sums: Its metrics since the last record, summed over the ranks.
        unit: What a walker computes in a pass, such as "fovs".
        ranks: Number of ranks.
        elapsed_s: Seconds since the last record.
    """
    noise: Record = {}
    if core.noise_scale is not None:
        examples, low, high = core.noise_scale
        noise = {
            "noise_scale": examples,
            "noise_scale_low": low,
            "noise_scale_high": high if math.isfinite(high) else None,
        }
    return {
        "kind": "train",
        "step": core.steps_done,
        "loss": sums["loss_sum"] / max(sums["fovs"], 1),
        "lr": report.lr,
        "gradient_norm": report.gradient_norm,
        **noise,
        unit: sums["fovs"],
        "examples": sums["examples"],
        f"{unit}_per_s": sums["fovs"] / elapsed_s,
        "wait_data_s": sums["data_s"] / ranks,
        "compute_s": sums["compute_s"] / ranks,
        "wait_comm_s": sums["reduce_s"] / ranks,
        "update_s": sums["update_s"] / ranks,
        "dropped": sums["dropped"],
        "staleness": sums["staleness_sum"] / max(sums["fovs"] - sums["dropped"], 1),
        **{name: sums[name] for name in ("tp", "fp", "fn", "tn")},
    }


def own_record(kind: str, step: int, values: Record) -> Record:
    """Return a record of a script.

    Raises:
        InvalidArgumentError: For a kind that the step loop writes itself, or names that every record has.
    """
    if kind in KINDS or not kind:
        raise InvalidArgumentError(
            f"add_record: kind is '{kind}', expected a name other than {', '.join(KINDS)}"
        )
    taken = sorted({"kind", "step", "time_s"} & values.keys())
    if taken:
        raise InvalidArgumentError(
            f"add_record: '{taken[0]}' is part of every record, expected another name"
        )
    return {"kind": kind, "step": step, **values}
