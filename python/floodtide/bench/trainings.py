# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of whole trainings share: a synthetic volume on disk, several trainers on the ranks of this job,
and steps of them in turn, so that all see the same machine.

A trainer is the one that users have. What disturbs it comes from outside: a slower wire between its ranks
(`floodtide._core.comm.delayed`), slower loads (`ExampleSource.set_load_delay`), sleep between its steps.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from floodtide import config, data
from floodtide.comm import world
from floodtide.train import Trainer

_SHAPE = (80, 80, 80)
_NEVER = 1e9  # seconds


@dataclass(frozen=True, kw_only=True)
class TrainedShape:
    """The network of a benchmark's trainings: modules, field of view (z, y, x) in voxels, feature maps."""

    depth: int
    fov: tuple[int, int, int]
    features: int


@dataclass
class Laboratory:
    """Makes trainers on one synthetic volume. See `laboratory`."""

    folder: Path
    network: TrainedShape
    threads: int
    _trainers: dict[str, Trainer] = field(default_factory=dict)

    def trainer(
        self,
        name: str,
        sections: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        comm: Any = None,
        overrides: Sequence[str] = (),
    ) -> Trainer:
        """A training with one walker a rank that neither saves nor ends by itself. Collective.

        Args:
            name: Of its run directory.
            sections: Laid over the configuration.
            comm: The core's communicator, all ranks; None for the job's own.
            overrides: Further settings, as "section.key=value".
        """
        document: dict[str, dict[str, Any]] = {
            "run": {
                "dir": str(self.folder / name),
                "threads": self.threads,
                "log_every_s": _NEVER,
                "checkpoint_every_s": _NEVER,
            },
            "data": {
                "volumes": [
                    {
                        "name": "synthetic",
                        "image": f"{self.folder}/volume.h5:raw",
                        "labels": f"{self.folder}/volume.h5:labels",
                        "partitions": f"{self.folder}/partitions.h5:af",
                    }
                ]
            },
            "model": {
                "depth": self.network.depth,
                "features": self.network.features,
                "fov": list(self.network.fov),
                "deltas": [side // 4 for side in self.network.fov],
            },
            "training": {"steps": 10**9},
            "comm": {"timeout_s": 0.0},
        }
        for section, values in (sections or {}).items():
            document.setdefault(section, {}).update(values)
        path = self.folder / f"{name}-{world.rank()}.toml"
        path.write_text(tomli_w.dumps(document))
        made = config.load(path, overrides)
        with world.using(comm or world.current()):
            self._trainers[name] = Trainer.from_config(made)
        return self._trainers[name]

    def trace(self, name: str) -> list[dict[str, Any]]:
        """What all ranks of a training did (Chrome trace events of type X); ends it. On rank 0; elsewhere nothing.
        Collective."""
        trainer = self._trainers[name]
        trainer.close()
        path = trainer.directory / "trace.json"
        if world.rank() > 0:
            return []
        events = json.loads(path.read_text())["traceEvents"]
        return [event for event in events if event["ph"] == "X"]


@contextlib.contextmanager
def laboratory(network: TrainedShape, threads: int) -> Iterator[Laboratory]:
    """A laboratory in a temporary folder that all ranks see; they have to be on one machine. Collective."""
    with contextlib.ExitStack() as stack:
        name = ""
        with world.agreed():
            if world.rank() == 0:
                name = stack.enter_context(tempfile.TemporaryDirectory(prefix="floodtide-bench-"))
                raw, labels = data.synth(_SHAPE, seed=1)
                data.write_volume(Path(name) / "volume.h5", {"raw": raw, "labels": labels})
        folder = Path(world.broadcast_object(name))
        data.partition(
            f"{folder}/volume.h5:labels",
            f"{folder}/partitions.h5:af",
            lom_radius=(4, 4, 4),
            min_size=10,
        )
        yield Laboratory(folder, network, threads)
        world.current().barrier()  # nobody reads any more


def timed_step(trainer: Trainer) -> tuple[float, float]:
    """Seconds of a step that all ranks begin together, and of the processor's time in it, all threads of the rank.

    Both are the largest of all ranks. Collective.
    """
    world.current().barrier()
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    trainer.step()
    step_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    return slowest(step_s), slowest(cpu_s)


def slowest(seconds: float) -> float:
    """The largest of all ranks' values. Collective."""
    value = np.array([seconds])
    world.current().allreduce(value, "max", "recursive_doubling")
    return float(value[0])


def take_metrics(trainer: Trainer) -> dict[str, float]:
    """Counts and sums over ranks since the last call, as floodtide::train::Metrics has them. Collective."""
    return trainer._trainer.take_metrics()


def delay_loads(trainer: Trainer, seconds: float) -> None:
    """Every load of an example on this rank sleeps so long first, from now on."""
    assert isinstance(trainer.data, data.Shards)  # U-Nets' sources have no such delay
    trainer.data.core.set_load_delay(seconds)


def quantiles(seconds: Sequence[float]) -> dict[str, Any]:
    """A row's `samples`, `median_s`, `p10_s`, `p90_s`, `min_s`, `mean_s`."""
    values = np.asarray(seconds)
    p10, median, p90 = np.quantile(values, (0.1, 0.5, 0.9))
    return {
        "samples": len(values),
        "median_s": float(median),
        "p10_s": float(p10),
        "p90_s": float(p90),
        "min_s": float(values.min()),
        "mean_s": float(values.mean()),
    }
