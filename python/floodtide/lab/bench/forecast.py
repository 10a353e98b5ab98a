# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab simulate` compared with training on this machine: measurements of one rank predict several ranks."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import config, data, run
from floodtide.base import limits, notes
from floodtide.base.options import option
from floodtide.bench.rows import Row
from floodtide.bench.shapes import available_cores
from floodtide.comm import world
from floodtide.errors import InvalidArgumentError
from floodtide.lab import ranges, simulate
from floodtide.lab.simulate.networks import MEMORY
from floodtide.train import Trainer

ALGORITHM = "ring"
WARM_STEPS = 5  # steps that are not measured
MODES = ("synchronous", "drop", "carry")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the training runs. The runs alternate."""

    ranks: tuple[int, ...] = option(
        (2, 3, 4), "Numbers of ranks to predict and to train with, at least 2", range=limits.RANKS
    )
    steps: int = option(
        60, f"Number of steps of each training run, at least {2 * WARM_STEPS}", range=limits.UPDATES
    )
    rounds: int = option(3, "Number of repetitions of each training run", range=limits.COUNT)
    depth: int = option(
        9, "Number of modules of the network, in runs that compute", range=limits.FFN_DEPTH
    )
    features: int = option(
        32, "Number of feature maps, in runs that compute", range=limits.FFN_FEATURES
    )
    fov: int = option(
        33,
        "Size of the field of view in voxels along each axis, an odd number",
        range=ranges.FORECAST_FOV,
    )
    sleep_s: float = option(
        0.1,
        "Seconds that each rank sleeps in a step, in runs that sleep instead of computing",
        range=limits.SECONDS,
    )
    sigma: float = option(
        0.25,
        "Sigma of the random lognormal factor on the time that ranks sleep",
        range=ranges.SPREAD,
    )

    def __post_init__(self) -> None:
        if min(self.ranks) < 2 or self.steps < 2 * WARM_STEPS or self.rounds < 1:
            raise InvalidArgumentError(
                f"bench forecast: ranks {min(self.ranks)}, {self.steps} steps, {self.rounds} rounds; "
                f"expected at least 2, {2 * WARM_STEPS} and 1"
            )


def measure(setting: Options) -> Iterator[Row]:
    """Train on one rank, predict the time of a step on more ranks, and compare it with training on more ranks.

    Every row has the time of a step as predicted (`predicted_s`) and as measured (`median_s`), in seconds, and their
    ratio `ratio` = predicted_s / median_s; all three are medians of the rounds.

    Rows *training*: every rank computes, and ranks share the cores of the machine; the prediction divides the cores
    among the ranks. It starts from training on one rank, while an equal run works on each other core, because cores
    share memory bandwidth.

    Rows *synchronous*, *drop* and *carry*: the network is tiny, and every rank sleeps for a random time in each step.
    So ranks wait for each other even with few cores. In *drop* and *carry*, an update waits for all ranks but one
    (`comm.mode = "partial"`, `comm.late`).

    Example: floodtide lab bench forecast --ranks 2,3,4
    """
    names = [("training", ranks) for ranks in setting.ranks]
    names += [(mode, ranks) for mode in MODES for ranks in setting.ranks]
    timed: dict[tuple[str, int], list[float]] = {name: [] for name in names}
    predicted: dict[tuple[str, int], list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="floodtide-forecast-") as folder:
        trainings = _Trainings(Path(folder), setting)
        for _ in range(setting.rounds):
            alone = trainings.computing_alone()
            idle = trainings.sleeping(1, "synchronous", sleep_s=0.0)
            for name in names:
                mode, ranks = name
                if mode == "training":
                    timed[name].append(trainings.computing(ranks).step_s)
                    predicted[name].append(_predict_computing(alone, ranks))
                else:
                    timed[name].append(trainings.sleeping(ranks, mode, sleep_s=setting.sleep_s))
                    predicted[name].append(_predict_sleeping(setting, idle, ranks, mode))
    for name in names:
        mode, ranks = name
        pairs = zip(predicted[name], timed[name], strict=True)
        yield {
            "name": f"forecast {mode}",
            "kernel": ALGORITHM,
            "threads": 1,
            "ranks": ranks,
            "samples": setting.rounds,
            "median_s": statistics.median(timed[name]),
            "predicted_s": statistics.median(predicted[name]),
            "ratio": statistics.median(p / t for p, t in pairs),
        }


class _Trainings:
    """Training runs on a synthetic volume in a folder."""

    def __init__(self, folder: Path, setting: Options) -> None:
        self._folder = folder
        self._setting = setting
        self._runs = 0
        image, labels = data.synth((2 * setting.fov,) * 3, seed=0)
        data.write_volume(folder / "volume.h5", {"raw": image, "labels": labels})
        data.partition(
            f"{folder}/volume.h5:labels",
            f"{folder}/partitions.h5:af",
            lom_radius=(4, 4, 4),
            min_size=10,
        )

    def computing_alone(self) -> simulate.Calibration:
        """Train with one rank on each core at the same time, and return the measurements of one of these runs."""
        documents = [self._computing_document(log_every_s=0.0) for _ in range(available_cores())]
        run(_train_apart, len(documents), [documents])
        return simulate.calibrate(Path(documents[0]["run"]["dir"]))

    def computing(self, ranks: int) -> simulate.Calibration:
        """Train on `ranks` ranks and return the measurements."""
        document = self._computing_document(log_every_s=1.0)
        run(_train, ranks, [document])
        return simulate.calibrate(Path(document["run"]["dir"]))

    def _computing_document(self, log_every_s: float) -> dict[str, Any]:
        setting = self._setting
        model = {
            "depth": setting.depth,
            "features": setting.features,
            "fov": [setting.fov] * 3,
            "deltas": [setting.fov // 4] * 3,
        }
        return self._document(model, log_every_s)

    def sleeping(self, ranks: int, mode: str, *, sleep_s: float) -> float:
        """Train with ranks that sleep, and return the seconds of an update."""
        model = {"depth": 1, "features": 2, "fov": [5, 5, 5], "deltas": [1, 1, 1]}
        document = self._document(model, log_every_s=1e6)
        if mode != "synchronous":
            document["comm"] |= {"mode": "partial", "contributors": ranks - 1, "late": mode}
        seconds: float = run(_train_and_sleep, ranks, [document, sleep_s, self._setting.sigma])[0]
        return seconds

    def _document(self, model: dict[str, Any], log_every_s: float) -> dict[str, Any]:
        self._runs += 1
        volume = {
            "name": "synthetic",
            "image": f"{self._folder}/volume.h5:raw",
            "labels": f"{self._folder}/volume.h5:labels",
            "partitions": f"{self._folder}/partitions.h5:af",
        }
        return {
            "run": {
                "dir": str(self._folder / f"run-{self._runs}"),
                "threads": 1,
                "log_every_s": log_every_s,
            },
            "data": {"volumes": [volume]},
            "model": model,
            "training": {"steps": self._setting.steps},
            "comm": {"algorithm": ALGORITHM},
        }


def _train(document: dict[str, Any]) -> None:
    with notes.no_warnings():
        Trainer.from_config(config.from_dict(document)).run()


def _train_apart(documents: list[dict[str, Any]]) -> None:
    """Train on each rank separately."""
    own = [world.ProcessSet([rank]) for rank in range(world.size())][world.rank()]
    with own:
        _train(documents[own.ranks[0]])


def _train_and_sleep(document: dict[str, Any], sleep_s: float, sigma: float) -> float:
    """Train, and return the seconds of an update on this rank, without the last update, which also saves."""
    with notes.no_warnings():
        trainer = Trainer.from_config(config.from_dict(document))
    random = np.random.default_rng(world.rank())
    times: list[tuple[float, int]] = []
    while not trainer.complete:
        if trainer.steps_done >= WARM_STEPS:
            times.append((time.monotonic(), trainer.steps_done))
        time.sleep(sleep_s * np.exp(sigma * random.standard_normal() - sigma**2 / 2))
        trainer.step()
    trainer.close()
    (start_s, first), (end_s, last) = times[0], times[-1]
    return (end_s - start_s) / (last - first)


def _predict_computing(alone: simulate.Calibration, ranks: int) -> float:
    cores = available_cores()
    job = simulate.Job(
        compute=simulate.Compute(mean_s=alone.compute_s, samples=alone.samples),
        buckets=simulate.ffn_buckets(alone.depth, alone.features, round(alone.bucket_mib * 2**20)),
        allreduce_s=_sum_s,
        agreement_s=_agreement_s,
        update_s=alone.step_s - alone.walkers_per_rank * alone.compute_s,  # all except computing
        slowdown=lambda count: max(1.0, count / cores),
    )
    return simulate.simulate(job, ranks).step_s


def _predict_sleeping(setting: Options, idle_s: float, ranks: int, mode: str) -> float:
    """Return the predicted seconds of an update. `idle_s`: seconds of a step of one rank that does not sleep."""
    job = simulate.Job(
        compute=simulate.Compute(mean_s=setting.sleep_s, sigma=setting.sigma),
        buckets=simulate.ffn_buckets(1, 2),
        allreduce_s=_sum_s,
        agreement_s=_agreement_s,
        update_s=idle_s,
        backup=0.0 if mode == "synchronous" else 1 / (ranks - 1),
        late="drop" if mode == "synchronous" else mode,
    )
    return simulate.simulate(job, ranks if mode == "synchronous" else ranks - 1).step_s


def _sum_s(size: int, ranks: int) -> float:
    return simulate.allreduce_cost_s(ALGORITHM, size, ranks, _one_node(ranks))


def _agreement_s(ranks: int) -> float:
    return simulate.agreement_s(ranks, _one_node(ranks))


def _one_node(ranks: int) -> simulate.Links:
    return simulate.Links(network=MEMORY, ranks_per_node=ranks)
