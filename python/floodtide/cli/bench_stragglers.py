# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench stragglers`: training with one slow rank, with synchronous and with partial averages."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench_ranks import require_several_ranks, training_benchmark

if TYPE_CHECKING:
    from floodtide.bench.trainings import Laboratory

TRAINED, HELD_OUT = "0:54,0:80,0:80", "54:80,0:80,0:80"  # boxes of the laboratory's volume
KINDS: dict[str, dict[str, Any]] = {
    "synchronous": {"mode": "synchronous"},
    "partial, drop": {"mode": "partial", "late": "drop"},
    "partial, carry": {"mode": "partial", "late": "carry"},
}


@training_benchmark("stragglers", ranks=4, depth=3, fov="9", features=8)
@click.option(
    "--sleep-ms",
    type=shared.Number(limits.SOME_MILLISECONDS),
    default=20.0,
    show_default=True,
    help="Milliseconds that every rank sleeps in each step. Sleep dominates the step, so sharing cores matters little.",
)
@click.option(
    "--slowed",
    type=shared.Number(limits.SLOWDOWN),
    default=5.0,
    show_default=True,
    help="Factor by which the last rank sleeps longer than the others.",
)
@click.option(
    "--contributors",
    type=shared.Number(limits.RANKS),
    default=None,
    help="Number of ranks that an update waits for, as `comm.contributors`; default: all ranks but one.",
)
@click.option(
    "--steps",
    type=shared.Number(limits.UPDATES),
    default=300,
    show_default=True,
    help="Number of updates of each training run.",
)
@click.option(
    "--seeds",
    type=shared.Number(limits.COUNT),
    default=3,
    show_default=True,
    help="Number of training runs of each kind, with different seeds.",
)
def command(
    lab: Laboratory,
    sleep_ms: float,
    slowed: float,
    contributors: int | None,
    steps: int,
    seeds: int,
) -> Iterator[dict[str, Any]]:
    """Train with equally fast ranks and with one slow rank, for the same number of updates.

    \b
    Columns:
      step_s      mean time of an update over all seeds
      ratio       step_s / step_s of the first row, synchronous training without a slow rank
      used        number of fields of view whose gradients were used in an update
      dropped     number of fields of view whose gradients were late and dropped
      per_update  used / number of updates
      losses      cross-entropy of a fixed held-out set after the last update, for each seed

    Example: floodtide bench stragglers --slowed 5 --json
    """
    from floodtide.comm import world

    require_several_ranks("stragglers")
    last = world.rank() == world.size() - 1
    count = contributors or world.size() - 1
    reference_s = 0.0
    for kind, slow in (("synchronous", False), *((kind, True) for kind in KINDS)):
        settings = dict(KINDS[kind])
        if settings["mode"] == "partial":
            settings["contributors"] = count
        sleep_s = 1e-3 * sleep_ms * (slowed if slow and last else 1.0)
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
        update_s: Mean seconds of an update.
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
    from floodtide.comm import world
    from floodtide.train.run_directory import read_log

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
