# SPDX-License-Identifier: Apache-2.0
"""Findings from the facts of all ranks. All functions are pure; their argument is a list of the facts of each rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from floodtide.base.libraries import install
from floodtide.base.notes import count_of

Facts = Mapping[str, Any]
Ranks = Sequence[Facts]

OK, ADVICE, PROBLEM = "ok", "advice", "problem"

SLOW_SHARE = 0.8  # ranks below this share of the median speed are named
MEMORY_SHARE = 0.8


@dataclass(frozen=True)
class Diagnosis:
    """One result of the examination. `level` is "ok", "advice" or "problem"; `advice` says what to do if not ok."""

    check: str
    level: str
    text: str
    advice: str = ""


def findings(ranks: Ranks) -> list[Diagnosis]:
    """Return all findings."""
    return [
        launcher(ranks),
        *_of_hosts(ranks, threads),
        affinity(ranks),
        environment(ranks),
        speed(ranks),
        *_of_hosts(ranks, memory),
        *directory(ranks),
    ]


def launch_failed(message: str) -> list[Diagnosis]:
    """Return the single finding for ranks that cannot connect to each other."""
    advice = "start with the mpiexec of the MPI library that floodtide uses (docs/mpi.md)"
    return [Diagnosis("launcher", PROBLEM, message.removeprefix("mpi: "), advice)]


def launcher(ranks: Ranks) -> Diagnosis:
    """Return the finding about launcher, MPI library and ABI family."""
    first = ranks[0]
    by = first["launcher"] or "no launcher"
    if first["library"] is None:
        advice = (
            f"for more ranks: {install('mpi')}, or load the site's MPI and install floodtide again"
        )
        return Diagnosis("launcher", ADVICE, f"{by}, 1 rank; {first['no_library']}", advice)
    versions = sorted({facts["library_version"] for facts in ranks})
    if len(versions) > 1:
        text = f"hosts have different MPI libraries: {', '.join(versions)}"
        return Diagnosis("launcher", PROBLEM, text, "use one environment on all hosts")
    return Diagnosis(
        "launcher",
        OK,
        f"{count_of(len(ranks), 'rank')} on {count_of(len(_hosts(ranks)), 'host')}, {by}; {first['library_version']} "
        f"({first['library']}), plug-in for the ABI of {first['family']}",
    )


def threads(here: Ranks) -> Diagnosis:
    """Return the finding that compares the threads of a training with the cores that the ranks of a host may use."""
    wanted, cores = sum(facts["threads"] for facts in here), usable_cores(here)
    text = (
        f"{here[0]['host']}: {count_of(wanted, 'thread')} of {count_of(len(here), 'rank')} on"
        f" {count_of(cores, 'core')}"
    )
    each = max(1, int(cores) // len(here))
    advice = f"set OMP_NUM_THREADS or run.threads to {each}"
    if wanted > cores:
        return Diagnosis("threads", PROBLEM, f"{text}: over-subscribed", advice)
    if wanted <= cores / 2:
        more = f"{advice}, or start more ranks"
        return Diagnosis("threads", ADVICE, f"{text}: cores stay idle", more)
    return Diagnosis("threads", OK, text)


def affinity(ranks: Ranks) -> Diagnosis:
    """Return the finding about ranks that are bound to too few cores."""
    bound = [f for f in ranks if f["threads"] > f["cores"] and f["cores"] < f["host_cores"]]
    first = (bound or ranks)[0]
    cores, wanted = count_of(first["cores"], "core"), count_of(first["threads"], "thread")
    if not bound:
        return Diagnosis("affinity", OK, f"{cores} for {wanted} of a rank")
    return Diagnosis(
        "affinity",
        PROBLEM,
        f"{_names(bound)} may use {cores} for {wanted}: pinned",
        "give ranks their cores: srun --cpu-bind=cores --cpus-per-task=N, Open MPI --map-by slot:PE=N "
        "or --bind-to none, MPICH -bind-to none",
    )


def environment(ranks: Ranks) -> Diagnosis:
    """Return the finding about environment variables that put threads on one core."""
    binding = next((f["environment"] for f in ranks if _binds(f["environment"])), None)
    if binding is None:
        return Diagnosis("environment", OK, "no setting that binds threads to single cores")
    settings = ", ".join(f"{name}={binding[name]}" for name in _BINDING if name in binding)
    return Diagnosis(
        "environment",
        ADVICE,
        f"{settings}: threads that read files and communicate also run on the single core of the main thread",
        "set OMP_PROC_BIND=false and let the launcher bind ranks",
    )


_BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")


def _binds(environ: Facts) -> bool:
    bind = environ.get("OMP_PROC_BIND", "").lower()
    places = any(name in environ for name in _BINDING[1:])
    return bind not in ("", "false") or (bind == "" and places)


def speed(ranks: Ranks) -> Diagnosis:
    """Return the finding about ranks whose peak multiply-add rate per thread is low. All ranks wait for them."""
    rates = [facts["gflops"] / facts["threads"] for facts in ranks]
    middle = median(rates)
    slow = [facts for facts, rate in zip(ranks, rates, strict=True) if rate < SLOW_SHARE * middle]
    if not slow:
        text = f"{middle:.0f} GFLOP/s a thread ({ranks[0]['isa']}, {ranks[0]['processor']})"
        return Diagnosis("speed", OK, text)
    return Diagnosis(
        "speed",
        ADVICE,
        f"{_names(slow)} slow: {min(rates):.0f} of {middle:.0f} GFLOP/s a thread",
        "every step waits for the slowest rank: look for other programs, heat or power limits on these "
        "hosts, or exclude these hosts",
    )


def memory(here: Ranks) -> Diagnosis:
    """Return the finding that compares the memory that the training needs with the free memory of a host."""
    # The needed memory includes memory that the ranks already use.
    needed = sum(facts["memory_needed_bytes"] for facts in here)
    known = [facts["memory_available_bytes"] for facts in here]
    free = min((count for count in known if count is not None), default=None)
    text = f"{here[0]['host']}: {count_of(len(here), 'rank')} of the training need {_gib(needed)}"
    if free is None:
        return Diagnosis("memory", OK, f"{text}, free memory unknown")
    text += f", {_gib(free)} is free"
    if needed <= MEMORY_SHARE * free:
        return Diagnosis("memory", OK, text)
    advice = 'fewer ranks or threads a host, or run.parallel = "voxels"'
    return Diagnosis("memory", PROBLEM if needed > free else ADVICE, text, advice)


def directory(ranks: Ranks) -> Iterator[Diagnosis]:
    """Yield the findings about the file system of the run directory."""
    first, facts = ranks[0], ranks[0]["files"]
    where, problem = facts["path"], facts.get("error") or facts["hdf5"]
    if problem:
        text = f"{where}: files cannot be written: {problem}"
        advice = "choose another run.dir; if it is about locks, export HDF5_USE_FILE_LOCKING=FALSE on all ranks"
        yield Diagnosis("directory", PROBLEM, text, advice)
        return
    size, most = first["checkpoint_bytes"], first["checkpoints"]
    text = f"{where}: {_gib(facts['free_bytes'])} free, a checkpoint takes {size / 1e6:.1f} MB"
    if facts["free_bytes"] < most * size:
        advice = f"make room for {most} checkpoints, or lower run.keep_checkpoints"
        yield Diagnosis("directory", PROBLEM, text, advice)
    else:
        yield Diagnosis("directory", OK, text)
    if blind := [facts["host"] for facts in ranks if facts["files"]["seen"] is False]:
        yield Diagnosis(
            "shared",
            PROBLEM,
            f"{where} of rank 0 is not the one on {', '.join(blind)}",
            "put volumes on a file system that all hosts share; run.dir may be on the host of rank 0 only",
        )


def usable_cores(here: Ranks) -> float:
    """Return the number of cores that the ranks of one host may use together, by affinity masks and control groups."""
    # If OpenMP has bound each main thread to one core, only the sizes of the masks before that are known.
    union = len({core for facts in here for core in facts["affinity"]})
    cores = float(max(union, *(facts["cores"] for facts in here)))
    quotas = [float(facts["quota"]) for facts in here if facts["quota"] is not None]
    return min(cores, max(quotas, default=cores))


def _hosts(ranks: Ranks) -> list[list[Facts]]:
    """Return the facts of the ranks of each host, in the order of the first ranks of the hosts."""
    hosts: dict[str, list[Facts]] = defaultdict(list)
    for facts in ranks:
        hosts[facts["node"]].append(facts)
    return list(hosts.values())


def _of_hosts(ranks: Ranks, judge: Callable[[Ranks], Diagnosis]) -> list[Diagnosis]:
    """Return the findings of hosts that are not ok; if there are none, the finding of the first host."""
    found = [judge(here) for here in _hosts(ranks)]
    return [finding for finding in found if finding.level != OK] or found[:1]


def _names(ranks: Ranks) -> str:
    """Return a text that names ranks: "rank 3 (node7)" or "ranks 1, 2, 3, 4 and 5 more (node1, ...)"."""
    numbers = [str(facts["rank"]) for facts in ranks]
    hosts = list(dict.fromkeys(facts["host"] for facts in ranks))
    shown = ", ".join(hosts[:3]) + (", ..." if len(hosts) > 3 else "")
    if len(numbers) == 1:
        return f"rank {numbers[0]} ({shown})"
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"ranks {', '.join(numbers[:4])}{more} ({shown})"


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
