# SPDX-License-Identifier: Apache-2.0
"""Training with slow loading, with and without prefetching, compared with the model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from floodtide.base import limits
from floodtide.base.options import option
from floodtide.bench.rows import Row
from floodtide.comm import world
from floodtide.lab import ranges
from floodtide.lab.bench.trainings import Laboratory, delay_loads, slowest
from floodtide.lab.simulate.gradient import Bucket
from floodtide.lab.simulate.job import Job
from floodtide.lab.simulate.model import simulate
from floodtide.lab.simulate.workload import Compute, Loading
from floodtide.train import Trainer

DEFAULTS = {"depth": 3, "fov": (17, 17, 17), "features": 8}
MOST_MOVES = 27  # on a patch

# The tiny learning rate leaves the network unchanged. With this seed and the default size, its predictions are close to
# the threshold: patches have 6 moves on average, some 1, some 20. So ranks need new patches at different steps.
SETTINGS: dict[str, dict[str, Any]] = {
    "run": {"seed": 2},
    "optimizer": {"lr": 1e-12},
    "training": {"seed_pad": 0.05, "threshold": 0.045},
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How slow loading is, and what hides it."""

    delay: float = option(
        10.0,
        "Delay of each load, in multiples of the mean compute time of all moves on a patch",
        range=ranges.SOME_SECONDS,
    )
    prefetch: int = option(
        16, "data.prefetch of the training run that prefetches", range=limits.PREFETCH
    )
    readers: int = option(
        16, "data.readers of the training run that prefetches", range=limits.READERS
    )
    patches: int = option(
        20,
        "Number of patches per rank and round in the run without prefetching; the other runs use 4 times as many",
        range=limits.COUNT,
    )
    rounds: int = option(6, "Number of rounds; each round measures all runs", range=limits.COUNT)


def measure(lab: Laboratory, options: Options) -> Iterator[Row]:
    """Train with slow data loading, with and without prefetching (`data.prefetch`).

    To hide a delay of d times the compute time of a patch, more than d loads must run at the same time (`--readers`).

    \b
    Columns:
      step_s       mean time of a step
      ratio        step_s / step_s without delay
      predicted_s  step_s that the model of `floodtide lab simulate` predicts from the step without delay,
                   the delay, and the measured number of moves on a patch
      model_ratio  step_s / predicted_s

    Example: floodtide lab bench stalls --delay 10 --json
    """
    prefetch, readers, patches = options.prefetch, options.readers, options.patches
    ahead = {"data": {"prefetch": prefetch, "readers": readers}, **SETTINGS}
    undelayed = Measured(lab.trainer("undelayed", ahead))
    inside = Measured(lab.trainer("inside", {"data": {"prefetch": 0}, **SETTINGS}))
    hidden = Measured(lab.trainer("hidden", ahead))

    probe = Measured(undelayed.trainer)
    probe.drain(MOST_MOVES)
    probe.run(10 * MOST_MOVES)
    moves = probe.moves
    delay_s = options.delay * moves * probe.step_s
    for disturbed in (inside, hidden):
        delay_loads(disturbed.trainer, delay_s)
    for _ in range(options.rounds):
        undelayed.run(round(4 * patches * moves))
        inside.run(round(patches * moves))
        hidden.drain(
            round((prefetch + 2) * moves)
        )  # uses up patches loaded while the other runs trained
        hidden.run(round(4 * patches * moves))

    inside_s = predict(undelayed.step_s, delay_s, inside.moves, world.size())
    ahead_s = predict(undelayed.step_s, delay_s, hidden.moves, world.size(), prefetch, readers)
    for name, measured, predicted_s in (
        ("undelayed", undelayed, None),
        ("inside", inside, inside_s),
        ("ahead", hidden, ahead_s),
    ):
        row = {
            "name": f"stalls, {name}",
            "kernel": f"delay {1e3 * delay_s:.3g} ms" if measured is not undelayed else "no delay",
            "samples": measured.steps,
            "step_s": measured.step_s,
            "ratio": measured.step_s / undelayed.step_s,
            "moves": measured.moves,
            "wait_data_s": measured.sums["data_s"] / world.size() / measured.steps,
        }
        if predicted_s:
            row |= {"predicted_s": predicted_s, "model_ratio": measured.step_s / predicted_s}
        yield row


@dataclass
class Measured:
    """A training run, and the sums of time and metrics of its measured steps over all ranks."""

    trainer: Trainer
    seconds: float = 0.0
    steps: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def run(self, steps: int) -> None:
        """Run and measure a number of steps. Collective."""
        self.drain(1)  # so that all ranks begin together
        world.current().barrier()
        start_s = time.perf_counter()
        for _ in range(steps):
            self.trainer.step()
        self.seconds += slowest(time.perf_counter() - start_s)
        self.steps += steps
        for key, value in self.trainer.take_metrics().items():
            self.sums[key] = self.sums.get(key, 0.0) + value

    def drain(self, steps: int) -> None:
        """Run a number of steps without measuring them. Collective."""
        for _ in range(steps):
            self.trainer.step()
        self.trainer.take_metrics()

    @property
    def step_s(self) -> float:
        """Return the mean time of a step in seconds."""
        return self.seconds / self.steps

    @property
    def moves(self) -> float:
        """Return the mean number of fields of view on a patch."""
        return self.sums["fovs"] / self.sums["examples"]


def predict(
    step_s: float, load_s: float, moves: float, ranks: int, prefetch: int = 0, readers: int = 1
) -> float:
    """Return the seconds of a step that the model of `floodtide lab simulate` predicts.

    Args:
        step_s: Seconds of a step without loading.
        load_s: Seconds to load a patch.
        moves: Mean number of fields of view on a patch.
        ranks: Number of ranks, with one walker each.
        prefetch: Number of patches loaded in advance; 0: the step loads them.
        readers: Number of patches that a rank loads at the same time.
    """
    job = Job(
        compute=Compute(mean_s=step_s),
        buckets=(Bucket(bytes=1, ready=1.0),),
        allreduce_s=lambda *_: 0.0,  # step_s includes the allreduce
        loading=Loading(load_s=load_s, moves=moves, prefetch=prefetch, readers=readers),
    )
    return simulate(job, ranks, steps=20_000).step_s
