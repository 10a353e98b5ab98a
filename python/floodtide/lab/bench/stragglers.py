# SPDX-License-Identifier: Apache-2.0
"""Training with one slow rank (straggler)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from floodtide.base import limits
from floodtide.base.options import option
from floodtide.bench.rows import Row
from floodtide.comm import world
from floodtide.comm.notebook import require_several_ranks
from floodtide.lab import ranges
from floodtide.lab.bench.trainings import Laboratory
from floodtide.train import read_log

DEFAULTS = {"ranks": 4, "depth": 3, "fov": (9, 9, 9), "features": 8}
TRAINED, HELD_OUT = "0:54,0:80,0:80", "54:80,0:80,0:80"  # boxes of the laboratory's volume
KINDS: dict[str, dict[str, Any]] = {
    "synchronous": {"mode": "synchronous"},
    "partial, drop": {"mode": "partial", "late": "drop"},
    "partial, carry": {"mode": "partial", "late": "carry"},
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How slow the last rank is, and how long each training runs."""

    sleep_ms: float = option(
        20.0,
        "Milliseconds that every rank sleeps in each step. Sleep dominates the step, so sharing cores matters little",
        range=ranges.SOME_MILLISECONDS,
    )
    slowed: float = option(
        5.0, "Factor by which the last rank sleeps longer than the others", range=ranges.SLOWDOWN
    )
    contributors: int | None = option(
        None,
        "Number of ranks that a training step waits for, as `comm.contributors`.  [default: all ranks but one]",
        range=limits.RANKS,
    )
    steps: int = option(300, "Number of training steps of each training run", range=limits.STEPS)
    seeds: int = option(
        3, "Number of training runs of each kind, with different seeds", range=limits.COUNT
    )


def measure(lab: Laboratory, options: Options) -> Iterator[Row]:
    """Train with equally fast ranks and with one slow rank, for the same number of training steps.

    \b
    Columns:
      step_s      mean time of a training step over all seeds
      ratio       step_s / step_s of the first row, synchronous training without a slow rank
      used        number of fields of view whose gradients were used in a training step
      dropped     number of fields of view whose gradients were late and dropped
      per_update  used / number of training steps
      losses      cross-entropy of a fixed held-out set after the last training step, for each seed

    Example: floodtide lab bench stragglers --slowed 5 --json
    """
    require_several_ranks("bench stragglers")
    last = world.rank() == world.size() - 1
    steps, seeds = options.steps, options.seeds
    count = options.contributors or world.size() - 1
    reference_s = 0.0
    for kind, slow in (("synchronous", False), *((kind, True) for kind in KINDS)):
        settings = dict(KINDS[kind])
        if settings["mode"] == "partial":
            settings["contributors"] = count
        sleep_s = 1e-3 * options.sleep_ms * (options.slowed if slow and last else 1.0)
        runs = [
            train(lab, f"{kind}-{slow}-{seed}", seed, settings, steps, sleep_s)
            for seed in range(seeds)
        ]
        update_s = statistics.fmean(run.update_s for run in runs)
        reference_s = reference_s or update_s
        used = sum(run.used for run in runs)
        yield {
            "name": f"stragglers, {'one slow' if slow else 'none'}",
            "kernel": kind,
            "samples": steps * seeds,
            "step_s": update_s,
            "ratio": update_s / reference_s,
            "used": used,
            "dropped": sum(run.dropped for run in runs),
            "per_update": used / (steps * seeds),
            "losses": [round(run.loss, 4) for run in runs],
        }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one training run.

    Attributes:
        update_s: Mean seconds of a training step.
        used: Number of fields of view on all ranks whose gradients were used.
        dropped: Number of fields of view on all ranks whose gradients were dropped.
        loss: Cross-entropy on the validation set.
    """

    update_s: float
    used: int
    dropped: int
    loss: float


def train(
    lab: Laboratory, name: str, seed: int, settings: dict[str, Any], steps: int, sleep_s: float
) -> Outcome:
    """Train to the end and return the outcome. This rank sleeps `sleep_s` seconds in each of its steps. Collective."""
    sections = {
        "run": {"seed": seed},
        "training": {"steps": steps},
        "comm": settings,
        "validation": {"box": HELD_OUT, "centres": 64},
    }
    trainer = lab.trainer(name, sections, overrides=[f"data.volumes.0.box={TRAINED}"])
    marks: list[tuple[int, float]] = []

    def sleep(done: int, total: int) -> None:
        marks.append((done, time.perf_counter()))
        time.sleep(sleep_s)

    trainer.run(sleep)
    outcome = None
    if world.rank() == 0:
        records = read_log(trainer.directory / "log.jsonl")
        sums = [record for record in records if record["kind"] == "train"]
        dropped = sum(record["dropped"] for record in sums)
        outcome = Outcome(
            update_s=(marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0]),
            used=sum(record["fovs"] for record in sums) - dropped,
            dropped=dropped,
            loss=records[-1]["first_pass"]["cross_entropy"],
        )
    agreed: Outcome = world.broadcast_object(outcome)
    return agreed
