# SPDX-License-Identifier: Apache-2.0
"""Shared code of the benchmarks of complete training: a synthetic volume on disk, and several trainers on all ranks.

Steps of the trainers alternate, so that all see the same state of the machine. The trainer is the same that users
have. Disturbances come from outside: slower loading (`ExampleSource.set_load_delay`), or sleep between steps.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from floodtide import config, data
from floodtide.base import limits, notes
from floodtide.base.options import option
from floodtide.bench.rows import Row, stamped, threads
from floodtide.comm import world
from floodtide.train import Trainer

_SHAPE = (80, 80, 80)
_NEVER = 1e9  # seconds


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The ranks and the network that all benchmarks of training have."""

    ranks: int = option(
        2, "Number of ranks to start, unless mpiexec started this command", range=limits.RANKS
    )
    threads: int = option(1, "Number of threads of each rank", range=limits.SOME_THREADS)
    depth: int = option(9, "Number of modules of the network", range=limits.FFN_DEPTH)
    fov: tuple[int, int, int] = option(
        (33, 33, 33), "Size z,y,x of the field of view in voxels", range=limits.FIELD_OF_VIEW
    )
    features: int = option(32, "Number of feature maps", range=limits.FFN_FEATURES)


@dataclass
class Laboratory:
    """Factory of trainers that use one synthetic volume. See `laboratory`."""

    folder: Path
    trained: Trained

    def trainer(
        self,
        name: str,
        sections: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        overrides: Sequence[str] = (),
    ) -> Trainer:
        """Return a trainer with one walker per rank that neither logs, saves nor ends by itself. Collective.

        Args:
            name: Name of the run directory.
            sections: Keys that replace those of the default configuration, {section: {key: value}}.
            overrides: Further keys, as "section.key=value".
        """
        document: dict[str, dict[str, Any]] = {
            "run": {
                "dir": str(self.folder / name),
                "threads": self.trained.threads,
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
                "depth": self.trained.depth,
                "features": self.trained.features,
                "fov": list(self.trained.fov),
                "deltas": [side // 4 for side in self.trained.fov],
            },
            "training": {"steps": 10**9},
            "comm": {"timeout_s": 0.0},
        }
        for section, values in (sections or {}).items():
            document.setdefault(section, {}).update(values)
        path = self.folder / f"{name}-{world.rank()}.toml"
        path.write_text(tomli_w.dumps(document))
        made = config.load(path, overrides)
        return Trainer.from_config(made)


@contextlib.contextmanager
def laboratory(trained: Trained) -> Iterator[Laboratory]:
    """Return a context manager that gives a laboratory in a temporary folder. Collective; all ranks on one machine."""
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
        yield Laboratory(folder, trained)
        world.current().barrier()  # no rank reads the files after this


def rows(
    measure: Callable[[Laboratory, Any], Iterable[Row]], trained: Trained, options: Any
) -> Iterator[Row]:
    """Measure in a laboratory on the ranks that there are, and yield the rows on rank 0. Collective.

    Args:
        measure: Function of a laboratory and `options`. Called on every rank.
        trained: Threads and network.
        options: The benchmark's own options.
    """
    common = {"ranks": world.size(), "threads": trained.threads}
    with notes.no_warnings(), threads(trained.threads), laboratory(trained) as lab:
        for row in measure(lab, options):
            if world.rank() == 0:
                yield stamped({**row, **common})


def timed_step(trainer: Trainer) -> tuple[float, float]:
    """Run one step that all ranks begin together, and return (wall time, processor time of all threads) in seconds.

    Both are the largest values over ranks. Collective.
    """
    world.current().barrier()
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    trainer.step()
    step_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    return slowest(step_s), slowest(cpu_s)


def slowest(seconds: float) -> float:
    """Return the largest value over all ranks. Collective."""
    value = np.array([seconds])
    world.current().start_allreduce(value, "max", "recursive_doubling").wait()
    return float(value[0])


def delay_loads(trainer: Trainer, seconds: float) -> None:
    """From now on, sleep for `seconds` before every load of an example on this rank."""
    source: Any = trainer.data.core  # the sources of U-Nets have no such delay
    source.set_load_delay(seconds)
