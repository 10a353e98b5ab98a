# SPDX-License-Identifier: Apache-2.0
"""The records of log.jsonl that a step loop writes. docs/training.md describes their fields."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping

from floodtide import _core
from floodtide.comm import world
from floodtide.optim import advice
from floodtide.train.parts import Setup
from floodtide.train.task import Record

KINDS = ("start", "train", "validation")


def start_record(setup: Setup, comm: world.Communicator, step: int, checkpoint: str) -> Record:
    """Return the first record of a job.

    Args:
        setup: What the job trains.
        comm: The ranks that train.
        step: Steps done before.
        checkpoint: The checkpoint from which the job resumes; empty if there is none.
    """
    return {
        "kind": "start",
        "step": step,
        "ranks": comm.size,
        "walkers": setup.walkers,
        "threads": _core.num_threads(),
        "parameters": sum(array.size for array in setup.parts.model.state_dict().values()),
        "unit": setup.task.unit,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "version": _core.__version__,
        "processor": _core.processor_name(),
        "cores": _core.available_cores(),
        "hosts": world.places()[3],
        "examples_per_epoch": setup.task.examples,
        **setup.task.facts,
        "resumed_from": checkpoint,
        "transport": comm.description,
        "kernels": setup.task.kernels,
        "rate": advice.rate_used(setup.schedule, setup.walkers, setup.config.training.batch),
    }


def train_record(
    core: _core.Trainer,
    report: _core.StepReport,
    sums: Mapping[str, float],
    *,
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
