# SPDX-License-Identifier: Apache-2.0
"""Forecasts of a job that is described by the options of `floodtide lab simulate`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from floodtide.base import limits, reading
from floodtide.base.options import option
from floodtide.config import CommConfig
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.lab import ranges
from floodtide.lab.simulate import paper
from floodtide.lab.simulate.allreduce import (
    ALGORITHMS,
    BEST,
    Links,
    MeasuredAllreduce,
    agreement_s,
    allreduce_cost_s,
    allreduce_cpu_s,
)
from floodtide.lab.simulate.calibration import Calibration
from floodtide.lab.simulate.gradient import ffn_buckets
from floodtide.lab.simulate.job import LATE, Job, alone, at_once, by_the_adapter
from floodtide.lab.simulate.networks import NETWORKS, Interconnect
from floodtide.lab.simulate.rows import FORECAST, MEASURED, Named, Row
from floodtide.lab.simulate.workload import Compute, Loading

OWN_NETWORK = "own"

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Assumptions of a forecast. None means the value of the measured run; without a run, the default in brackets."""

    compute_s: float | None = option(
        None,
        "Seconds that the forward and backward pass of one field of view take; needed without RUN and samples",
        range=ranges.SOME_SECONDS,
    )
    sigma: float | None = option(
        None,
        "Sigma of a random lognormal factor (mean 1) on the compute time.  [default: samples of RUN, else 0]",
        range=ranges.SPREAD,
    )
    samples: Path | None = option(None, "File of measured compute times in seconds, one per line")
    update_s: float | None = option(
        None, "Seconds of a parameter update.  [default: 0]", range=limits.SECONDS
    )
    depth: int | None = option(
        None, "Number of modules of the network.  [default: 9]", range=limits.FFN_DEPTH
    )
    features: int | None = option(
        None, "Number of feature maps of the network.  [default: 32]", range=limits.FFN_FEATURES
    )
    walkers_per_rank: int | None = option(
        None,
        "Number of fields of view that each rank computes in a step.  [default: that of RUN, rounded, or 1]",
        range=limits.WALKERS,
    )
    load_s: float | None = option(
        None,
        "Seconds to load a patch.  [default: the time that RUN waited for a patch, if any]",
        range=limits.SECONDS,
    )
    moves: float | None = option(
        None, "Mean number of fields of view on a patch", range=ranges.MOVES
    )
    prefetch: int = option(
        0, "Number of patches that each walker loads in advance", range=limits.PREFETCH
    )
    readers: int = option(
        1, "Number of patches that each rank loads at the same time", range=limits.READERS
    )
    backup: float = option(
        0.0, "Number of backup ranks, as a share of the ranks that count", range=ranges.BACKUP
    )
    late: str = option(
        "drop",
        "What a rank does if its gradient is late: abandon it at once, or finish it and then drop it or carry it over."
        " floodtide's training offers drop and carry",
        choices=LATE,
    )
    network: tuple[str, ...] = option(
        (),
        "Network to simulate: 10gbe, 100gbe or dragonfly. Can be given several times.  [default: all]",
    )
    alpha_us: float | None = option(
        None, "Latency in microseconds of a custom network; needs --gb-per-s", range=ranges.LATENCY
    )
    gb_per_s: float | None = option(
        None,
        "Bandwidth of the custom network in 1e9 bytes per second; needs --alpha-us",
        range=ranges.BANDWIDTH,
    )
    cpu_ns_per_byte: float | None = option(
        None,
        "Processor time, in nanoseconds, to send one byte and receive one byte on the custom network.  [default: 0]",
        range=ranges.CPU_PER_BYTE,
    )
    ranks_per_node: int = option(
        1,
        "Number of consecutive ranks on a node; they share its network adapter",
        range=limits.RANKS,
    )
    cores: int | None = option(
        None,
        "Number of cores that the ranks of a node share. Each rank has as many threads as in RUN, or 1.  [default:"
        " enough for all threads]",
        range=limits.COUNT,
    )
    algorithm: str = option(
        BEST, f"Allreduce algorithm: {', '.join(ALGORITHMS)}, or best (the fastest of them)"
    )
    allreduce: Path | None = option(
        None, "File of measured allreduce times to use instead of a network"
    )
    bucket_mib: float | None = option(
        None,
        "Minimum size (MiB) of a bucket; buckets are summed during the backward pass.  [default: that of RUN, or that"
        " of `comm.bucket_mib`]",
        range=limits.BUCKET,
    )


def forecast_jobs(options: Options, run: Calibration | None) -> list[Named]:
    """Return one job for each network, or a single job for a file of measured allreduce times.

    Raises:
        InvalidArgumentError: If options are missing, contradict each other or are out of range.
        InvalidFileError: If a file does not contain what its option needs.
    """
    compute = _compute(options, run)
    depth = _first(options.depth, run and run.depth, paper.DEPTH)
    features = _first(options.features, run and run.features, paper.FEATURES)
    walkers = _first(options.walkers_per_rank, run and max(1, round(run.walkers_per_rank)), 1)
    loading = _loading(options, run)
    update_s = _first(options.update_s, run and run.update_s, 0.0)
    bucket_mib = _first(options.bucket_mib, run and run.bucket_mib, CommConfig().bucket_mib)
    if not (math.isfinite(bucket_mib) and bucket_mib > 0):
        raise InvalidArgumentError(f"buckets of {bucket_mib} MiB, expected a positive number")
    buckets = ffn_buckets(depth, features, round(bucket_mib * 2**20))
    slowdown = _slowdown(options, run)
    return [
        Named(
            scenario=FORECAST,
            network=costs.network,
            algorithm=options.algorithm,
            job=Job(
                compute=compute,
                walkers_per_rank=walkers,
                loading=loading,
                buckets=buckets,
                allreduce_s=costs.allreduce_s,
                agreement_s=costs.agreement_s,
                cpu_s=costs.cpu_s,
                update_s=update_s,
                slowdown=slowdown,
                backup=options.backup,
                late=options.late,
            ),
        )
        for costs in _costs(options)
    ]


def measured_row(run: Calibration) -> Row:
    """Return a row with the measurements of the run.

    The log does not separate waiting for the slowest rank from sending, so comm_s includes both. input_s is the mean
    over ranks.
    """
    steps = run.walkers_per_rank
    return Row(
        scenario=f"{MEASURED}: {run.name}",
        network="-",
        algorithm="-",
        ranks=run.ranks,
        paid_ranks=run.ranks,
        step_s=run.step_s,
        compute_s=run.compute_s * steps,
        input_s=run.stall_s * steps / run.moves,
        straggler_s=None,
        comm_s=run.reduce_s,
        update_s=run.update_s,
        fovs_per_s=run.fovs_per_s,
        efficiency=None,
        paid_efficiency=None,
        largest_loss=None,
    )


def _first(given: Number | None, measured: Any, default: Number) -> Number:
    """Return the option if given, else the measured value if there is one, else the default."""
    if given is not None:
        return given
    return default if measured is None else measured


def _slowdown(options: Options, run: Calibration | None) -> Callable[[int], float]:
    """Return the slowdown of ranks that share the cores of a node equally, relative to that of the measured run."""
    cores, per_node = options.cores, options.ranks_per_node
    if cores is None:
        return alone
    if cores < 1:
        raise InvalidArgumentError(f"{cores} cores, expected at least 1")
    threads, before = (run.threads, run.ranks) if run else (1, 1)

    def share(ranks: int) -> float:
        return max(1.0, min(ranks, per_node) * threads / cores)

    return lambda ranks: share(ranks) / share(before)


def _compute(options: Options, run: Calibration | None) -> Compute:
    mean_s = options.compute_s if options.compute_s is not None or run is None else run.compute_s
    samples: tuple[float, ...] = ()
    if options.samples:
        samples = _read_samples(options.samples)
        mean_s = sum(samples) / len(samples) if mean_s is None else mean_s
    elif run and options.sigma is None:
        samples = run.samples
    if mean_s is None:
        raise InvalidArgumentError(
            "no compute time: expected a run directory, --compute-s or --samples"
        )
    return Compute(mean_s=mean_s, sigma=options.sigma or 0.0, samples=samples)


def _read_samples(path: Path) -> tuple[float, ...]:
    expected = "seconds, one a line"
    words = reading.read_text(path, expected).split()
    with reading.reading(path, expected):
        values = tuple(float(word) for word in words)
    if not values:
        raise InvalidFileError(f"{path}: expected seconds, one a line; it is empty")
    return values


def _loading(options: Options, run: Calibration | None) -> Loading | None:
    moves = options.moves if options.moves is not None or run is None else run.moves
    if options.load_s is not None:
        if moves is None:
            raise InvalidArgumentError("--load-s needs --moves: fields of view on a patch")
        return Loading(
            load_s=options.load_s, moves=moves, prefetch=options.prefetch, readers=options.readers
        )
    if options.prefetch or options.readers != 1 or (options.moves is not None and run is None):
        raise InvalidArgumentError(
            "--moves, --prefetch and --readers are for --load-s, which is not given"
        )
    if run and moves and run.stall_s > 0:
        return Loading(load_s=run.stall_s, moves=moves)
    return None


def _networks(options: Options) -> list[Interconnect]:
    own = [options.alpha_us, options.gb_per_s]
    if own.count(None) == 1:
        raise InvalidArgumentError("--alpha-us and --gb-per-s describe a network together")
    cpu_ns = options.cpu_ns_per_byte
    if cpu_ns is not None and options.gb_per_s is None:
        raise InvalidArgumentError(
            "--cpu-ns-per-byte belongs to a network of your own: expected --alpha-us and --gb-per-s too"
        )
    for name in options.network:
        if name not in NETWORKS:
            raise InvalidArgumentError(
                f"unknown network '{name}', expected one of {', '.join(NETWORKS)}; "
                "--alpha-us and --gb-per-s describe another"
            )
    found = [NETWORKS[name] for name in options.network]
    if options.alpha_us is not None and options.gb_per_s is not None:
        if not (0 <= options.alpha_us < math.inf and 0 < options.gb_per_s < math.inf):
            raise InvalidArgumentError(
                f"network with a latency of {options.alpha_us} us and {options.gb_per_s} GB/s, "
                "expected at least 0 and more than 0"
            )
        found.append(
            Interconnect(
                name=OWN_NETWORK,
                alpha_s=options.alpha_us * 1e-6,
                beta_s_per_byte=1e-9 / options.gb_per_s,
                cpu_s_per_byte=1e-9 * (cpu_ns or 0.0),
            )
        )
    return found or list(NETWORKS.values())


@dataclass(frozen=True, kw_only=True)
class _Costs:
    """Cost functions of sums on a network, as in `Job`."""

    network: str
    allreduce_s: Callable[[int, int], float]
    agreement_s: Callable[[int], float]
    cpu_s: Callable[[int, int], float]


def _costs(options: Options) -> list[_Costs]:
    algorithm = options.algorithm
    if options.allreduce:
        own = (options.alpha_us, options.gb_per_s, options.cpu_ns_per_byte)
        if options.network or any(number is not None for number in own):
            raise InvalidArgumentError("--allreduce takes the place of a network: give one of them")
        measured = MeasuredAllreduce.read(options.allreduce)
        if algorithm == BEST:
            raise InvalidArgumentError(
                f"--allreduce needs --algorithm: one of {', '.join(sorted(measured.times_s))}"
            )
        return [
            _Costs(
                network=options.allreduce.stem,
                allreduce_s=lambda size, ranks: measured.cost_s(algorithm, size, ranks),
                agreement_s=at_once,  # the measured times include the agreement
                cpu_s=by_the_adapter,  # not measured
            )
        ]
    if algorithm not in (*ALGORITHMS, BEST):
        raise InvalidArgumentError(
            f"no cost formula for algorithm '{algorithm}', expected one of "
            f"{', '.join((*ALGORITHMS, BEST))}; measured times of others come with --allreduce"
        )

    def costs(network: Interconnect) -> _Costs:
        links = Links(network=network, ranks_per_node=options.ranks_per_node)
        return _Costs(
            network=network.name,
            allreduce_s=lambda size, ranks: allreduce_cost_s(algorithm, size, ranks, links),
            agreement_s=lambda ranks: agreement_s(ranks, links),
            cpu_s=lambda size, ranks: allreduce_cpu_s(algorithm, size, ranks, links),
        )

    return [costs(network) for network in _networks(options)]
