# SPDX-License-Identifier: Apache-2.0
"""Parameters of the model from a measured run: times of computing, loading, summing and updating in its log.jsonl."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide.errors import InvalidFileError
from floodtide.train import Record, read_run

_LEAST_SAMPLES = 20


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Measurements of a training run.

    Attributes:
        name: Name of the run directory.
        ranks: Number of ranks.
        threads: Number of threads of each rank.
        walkers_per_rank: Mean number of fields of view that a rank computes in a step: walkers times
            `training.accumulate`, divided by ranks.
        depth: Number of modules of the network.
        features: Number of feature maps of the network.
        bucket_mib: `comm.bucket_mib` of the run.
        compute_s: Seconds of a field of view on a rank.
        samples: Seconds of a field of view in each step (n,). Empty unless the run had one rank and the log has a
            record for each step.
        update_s: Seconds of an update.
        moves: Mean number of fields of view on a patch.
        stall_s: Seconds that a walker waited for a patch, with the prefetching of that run.
        reduce_s: Seconds of a step spent in the sum of gradients, including waiting; mean over ranks.
        step_s: Seconds of a complete step.
        fovs_per_s: Fields of view per second of all ranks together.
    """

    name: str
    ranks: int
    threads: int
    walkers_per_rank: float
    depth: int
    features: int
    bucket_mib: float
    compute_s: float
    samples: tuple[float, ...]
    update_s: float
    moves: float
    stall_s: float
    reduce_s: float
    step_s: float
    fovs_per_s: float


def calibrate(folder: Path) -> Calibration:
    """Return the measurements in a run directory of `floodtide train`.

    The first record is ignored if there are others, because it includes the start-up. The number of steps is the number
    of fields of view divided by the fields of view of a step.

    Raises:
        InvalidFileError: If the run directory does not exist, its log lacks required values, or it trained a U-Net.
    """
    run = read_run(folder)
    model, comm, training = (run.config.get(name, {}) for name in ("model", "comm", "training"))
    if run.task.predicts:
        raise InvalidFileError(
            f"{folder}: is a training with model.kind {model.get('kind')!r}, simulate expects 'ffn'"
        )
    records = run.train[1:] or run.train
    try:
        ranks, threads = _count(run.start, "ranks"), _count(run.start, "threads")
        walkers = _count(run.start, "walkers") * _count(training, "accumulate")
        depth, features = _count(model, "depth"), _count(model, "features")
        fovs = _total(records, "fovs")
        steps = fovs / walkers
        patches = _total(records, "examples")
        elapsed_s = sum(
            _figure(record, "fovs") / _figure(record, "fovs_per_s") for record in records
        )
        own_fovs = fovs / ranks  # of one rank, because times in the log are means over ranks
        return Calibration(
            name=run.name,
            ranks=ranks,
            threads=threads,
            walkers_per_rank=walkers / ranks,
            depth=depth,
            features=features,
            bucket_mib=_figure(comm, "bucket_mib"),
            compute_s=_total(records, "compute_s") / own_fovs,
            samples=_samples(records, ranks, walkers),
            update_s=_total(records, "update_s") / steps,
            moves=max(fovs / patches, 1.0) if patches else fovs,
            stall_s=_total(records, "wait_data_s") * ranks / patches if patches else 0.0,
            reduce_s=_total(records, "wait_comm_s") / steps,
            step_s=elapsed_s / steps,
            fovs_per_s=fovs / elapsed_s,
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise InvalidFileError(
            f"{folder}: expected config.toml and a log.jsonl of floodtide train with at least one "
            "record of training steps"
        ) from None


def _total(records: Sequence[Record], key: str) -> float:
    return sum(_figure(record, key) for record in records)


def _figure(record: Mapping[str, Any], key: str) -> float:
    """Return a value of a record, which must be a finite number of at least 0."""
    value = record[key]
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError(key)
    return float(value)


def _count(record: Mapping[str, Any], key: str) -> int:
    """Return a value of a record, which must be an integer of at least 1."""
    value = record[key]
    if type(value) is not int or value < 1:
        raise ValueError(key)
    return int(value)


def _samples(records: Sequence[Record], ranks: int, walkers: int) -> tuple[float, ...]:
    """Return the compute times of single steps; () if records are means over ranks or steps, which vary less."""
    single: list[Any] = [record for record in records if record["fovs"] == walkers]
    if ranks > 1 or len(single) < len(records) or len(single) < _LEAST_SAMPLES:
        return ()
    return tuple(float(record["compute_s"]) / walkers for record in single)
