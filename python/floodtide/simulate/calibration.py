# SPDX-License-Identifier: Apache-2.0
"""The model's figures from a measured run: what its log.jsonl says of compute, data, sums and updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide.errors import InvalidFileError
from floodtide.train import record_checks as checks
from floodtide.train.recorded_run import Record, read_run

_LEAST_SAMPLES = 20


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a run measured.

    Attributes:
        name: The run directory's name.
        ranks: Of the run.
        threads: Of a rank.
        walkers_per_rank: Fields of view of a rank's step, a mean if they do not divide: walkers times
            `training.accumulate`.
        depth: Modules of its network.
        features: Its feature maps.
        bucket_mib: `comm.bucket_mib` of the run.
        compute_s: Seconds of a field of view on a rank.
        samples: Seconds of a field of view, step by step (n,); empty unless the log has a record for
            each step and the run one rank.
        update_s: Seconds of an update.
        moves: Fields of view on a patch.
        stall_s: Seconds that a walker waited for a patch, prefetch and all.
        reduce_s: Seconds of a step in the sum of gradients, waiting included: mean of the ranks.
        step_s: Seconds of a step, all included.
        fovs_per_s: Of all ranks.
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
    """Read a run directory of `floodtide train`.

    The first record is left out if there are others: it holds the start. Steps are fields of view divided by those of
    a step.

    Raises:
        InvalidFileError: If there is no such run, or its log has not what is needed.
    """
    run = read_run(folder)
    model, comm, training = (run.config.get(name, {}) for name in ("model", "comm", "training"))
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
        own_fovs = fovs / ranks  # of one rank; times in the log are means of the ranks
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


def _total(records: list[Record], key: str) -> float:
    return sum(_figure(record, key) for record in records)


def _figure(record: Mapping[str, Any], key: str) -> float:
    """A finite number from 0 on."""
    value = record[key]
    if not checks.finite(value) or value < 0:
        raise ValueError(key)
    return float(value)


def _count(record: Mapping[str, Any], key: str) -> int:
    """A whole number from 1 on."""
    value = record[key]
    if not checks.positive(value):
        raise ValueError(key)
    return int(value)


def _samples(records: list[Record], ranks: int, walkers: int) -> tuple[float, ...]:
    """A mean over ranks or steps varies less than a step of one rank: it is no sample."""
    single: list[Any] = [record for record in records if record["fovs"] == walkers]
    if ranks > 1 or len(single) < len(records) or len(single) < _LEAST_SAMPLES:
        return ()
    return tuple(float(record["compute_s"]) / walkers for record in single)
