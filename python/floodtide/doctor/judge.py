# SPDX-License-Identifier: Apache-2.0
"""Findings from the facts of all ranks. All functions are pure; their argument is a list of the facts of each rank."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from floodtide.base.counts import count_of
from floodtide.base.libraries import install

Facts = Mapping[str, Any]
Ranks = Sequence[Facts]

OK, ADVICE, PROBLEM = "ok", "advice", "problem"

SLOW_SHARE = 0.8  # ranks below this share of the median speed are named
CLOCK_S = 0.1
STARTUP_S = 10.0
MEMORY_SHARE = 0.8
CHECKPOINT_S = 10.0


@dataclass(frozen=True)
class Diagnosis:
    """One result of the examination. `level` is "ok", "advice" or "problem"; `advice` says what to do if not ok."""

    check: str
    level: str
    text: str
    advice: str = ""


def findings(ranks: Ranks) -> list[Diagnosis]:
    """Return all findings."""
    several = len(ranks) > 1
    return [
        launcher(ranks),
        *host_names(ranks),
        mpi4py(ranks),
        *([thread_level(ranks)] if several else []),
        *threads(ranks),
        affinity(ranks),
        *environment(ranks),
        speed(ranks),
        *memory(ranks),
        *directory(ranks),
        *([clock(ranks)] if several else []),
        *start_up(ranks),
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
        return Diagnosis(
            "launcher",
            ADVICE,
            f"{by}, 1 rank; {first['no_library']}",
            f"for more ranks: {install('mpi')}, or load the site's MPI and install floodtide again",
        )
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


def host_names(ranks: Ranks) -> Iterator[Diagnosis]:
    """Yield findings about hosts with equal names."""
    names = [here[0]["host"] for here in _hosts(ranks)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Diagnosis(
            "host names",
            ADVICE,
            f"{names.count(name)} hosts are all named {name}",
            "give each host its own name: messages, locks and records of failures name hosts",
        )


def mpi4py(ranks: Ranks) -> Diagnosis:
    """Return the finding whether mpi4py, if installed, uses the same MPI library as floodtide."""
    version, _, library = ranks[0]["mpi4py"].partition("\t")
    if not version:
        return Diagnosis("mpi4py", OK, "not installed; floodtide does not need it")
    if version == "?":
        advice = "install mpi4py for the MPI library in use if scripts pass communicators"
        return Diagnosis("mpi4py", ADVICE, f"cannot be imported: {library}", advice)
    ours = ranks[0].get("library_version")
    if ours is not None and " ".join(library.split()) != ours:
        return Diagnosis(
            "mpi4py",
            ADVICE,
            f"mpi4py {version} uses {library}, floodtide {ours}",
            "to pass communicators, install mpi4py for that library or name its library in FLOODTIDE_LIBMPI",
        )
    return Diagnosis("mpi4py", OK, f"mpi4py {version} uses the same library")


def thread_level(ranks: Ranks) -> Diagnosis:
    """Return the finding about the thread level that the MPI library provides."""
    levels = sorted({str(facts["thread_level"]) for facts in ranks})
    text = f"MPI_THREAD_{', MPI_THREAD_'.join(levels).upper()}"
    if set(levels) <= {"multiple", "serialized"}:
        return Diagnosis("thread level", OK, text)
    advice = "floodtide needs SERIALIZED or MULTIPLE: use an MPI library built with threads"
    return Diagnosis("thread level", PROBLEM, text, advice)


def threads(ranks: Ranks) -> list[Diagnosis]:
    """Return findings that compare, for each host, the threads of a training with the cores that they may use."""

    def of_host(here: Ranks) -> Diagnosis:
        wanted, cores, union = (
            sum(facts["threads"] for facts in here),
            usable_cores(here),
            _union(here),
        )
        text = (
            f"{here[0]['host']}: {count_of(wanted, 'thread')} of {count_of(len(here), 'rank')} on"
            f" {count_of(cores, 'core')}"
        )
        if cores < len(union):
            text += f" (control groups grant {cores:g} of {len(union)})"
        if wanted > cores:
            fewer = (
                f", and at most {count_of(math.floor(cores), 'rank')}" if len(here) > cores else ""
            )
            advice = (
                f"set OMP_NUM_THREADS or run.threads to {max(1, int(cores) // len(here))}{fewer}"
            )
            return Diagnosis("threads", PROBLEM, f"{text}: over-subscribed", advice)
        if wanted <= cores / 2:
            advice = f"set OMP_NUM_THREADS or run.threads to {int(cores) // len(here)}, or start more ranks"
            return Diagnosis("threads", ADVICE, f"{text}: cores stay idle", advice)
        return Diagnosis("threads", OK, text)

    return _of_hosts(ranks, of_host, "every host has as many cores as threads")


def affinity(ranks: Ranks) -> Diagnosis:
    """Return the finding about ranks that are bound to too few cores, or to cores of other ranks."""
    bound = [f for f in ranks if f["threads"] > f["cores"] and f["cores"] < f["host_cores"]]
    if bound:
        cores, wanted = count_of(bound[0]["cores"], "core"), count_of(bound[0]["threads"], "thread")
        return Diagnosis(
            "affinity",
            PROBLEM,
            f"{_names(bound)} may use {cores} for {wanted}: pinned",
            "give ranks their cores: srun --cpu-bind=cores --cpus-per-task=N, Open MPI --map-by slot:PE=N "
            "or --bind-to none, MPICH -bind-to none",
        )
    for here in _hosts(ranks):
        sets = [frozenset(facts["affinity"]) for facts in here]
        overlapping = sum(len(s) for s in sets) > len(frozenset().union(*sets))
        if overlapping and len(set(sets)) > 1:
            text = f"{here[0]['host']}: cores of different ranks overlap"
            return Diagnosis(
                "affinity", ADVICE, text, "bind each rank to separate cores, or do not bind ranks"
            )
    first = ranks[0]
    cores, wanted = count_of(first["cores"], "core"), count_of(first["threads"], "thread")
    return Diagnosis("affinity", OK, f"{cores} for {wanted} of a rank")


def environment(ranks: Ranks) -> list[Diagnosis]:
    """Return findings about environment variables that slow down threads."""
    found = []
    for names, harm, advice, matches in _HARMFUL:
        here = [facts for facts in ranks if matches(facts["environment"])]
        if here:
            environ = here[0]["environment"]
            settings = ", ".join(f"{name}={environ[name]}" for name in names if name in environ)
            found.append(Diagnosis("environment", ADVICE, f"{settings}: {harm}", advice))
    capped = [facts for facts in ranks if facts["isa"] != facts["processor_isa"]]
    if capped:
        isa, best = capped[0]["isa"], capped[0]["processor_isa"]
        text = f"FLOODTIDE_ISA caps {_names(capped)} at {isa}, the processor has {best}"
        advice = "unset FLOODTIDE_ISA unless ranks on different processors must give equal results"
        found.append(Diagnosis("environment", ADVICE, text, advice))
    if len({facts["environment"].get("OMP_NUM_THREADS") for facts in ranks}) > 1:
        advice = "export it to all ranks (mpiexec -genv, -x, srun --export)"
        found.append(
            Diagnosis("environment", ADVICE, "OMP_NUM_THREADS differs between ranks", advice)
        )
    return found or [Diagnosis("environment", OK, "no setting that makes threads wait")]


def _is(name: str, *values: str) -> Callable[[Facts], bool]:
    return lambda environ: environ.get(name, "").lower() in values


def _binds(environ: Facts) -> bool:
    bind = environ.get("OMP_PROC_BIND", "").lower()
    places = any(name in environ for name in ("OMP_PLACES", "GOMP_CPU_AFFINITY"))
    return bind not in ("", "false") or (bind == "" and places)


_SPIN = "threads without work keep their cores busy"

# Variables, their harm, the advice, and a function that is True if an environment has this problem.
_HARMFUL: tuple[tuple[tuple[str, ...], str, str, Callable[[Facts], bool]], ...] = (
    (
        ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"),
        "threads that read files and communicate also run on the single core of the main thread",
        "set OMP_PROC_BIND=false and let the launcher bind ranks",
        _binds,
    ),
    (
        ("OMP_WAIT_POLICY",),
        _SPIN,
        "set OMP_WAIT_POLICY=passive",
        _is("OMP_WAIT_POLICY", "active"),
    ),
    (
        ("KMP_BLOCKTIME",),
        f"with Intel's or LLVM's OpenMP {_SPIN}",
        "set KMP_BLOCKTIME=0",
        lambda environ: environ.get("KMP_BLOCKTIME", "0").strip("ms") not in ("0", ""),
    ),
    (
        ("GOMP_SPINCOUNT",),
        _SPIN,
        "unset GOMP_SPINCOUNT, set OMP_WAIT_POLICY=passive",
        lambda environ: environ.get("GOMP_SPINCOUNT", "0") != "0",
    ),
    (
        ("OMP_DYNAMIC",),
        "the number of threads may change from step to step",
        "unset OMP_DYNAMIC",
        _is("OMP_DYNAMIC", "true", "1"),
    ),
)


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


def memory(ranks: Ranks) -> list[Diagnosis]:
    """Return findings that compare, for each host, the memory that the training needs with the free memory."""

    def of_host(here: Ranks) -> Diagnosis:
        # The needed memory includes memory that the ranks already use.
        needed = sum(facts["memory_needed_bytes"] for facts in here)
        free = _least(facts["memory_available_bytes"] for facts in here)
        text = (
            f"{here[0]['host']}: {count_of(len(here), 'rank')} of the training need {_gib(needed)}"
        )
        if free is None:
            return Diagnosis("memory", OK, f"{text}, free memory unknown")
        text += f", {_gib(free)} is free"
        if needed <= MEMORY_SHARE * free:
            return Diagnosis("memory", OK, text)
        advice = 'fewer ranks or threads a host, or run.parallel = "voxels"'
        return Diagnosis("memory", PROBLEM if needed > free else ADVICE, text, advice)

    return _of_hosts(ranks, of_host, "every host has the memory that the training needs")


def directory(ranks: Ranks) -> Iterator[Diagnosis]:
    """Yield the findings about the file system of the run directory."""
    facts = ranks[0]["files"]
    where = f"{facts['path']} ({facts['type'] or 'unknown file system'})"
    if "error" in facts:
        yield Diagnosis(
            "directory",
            PROBLEM,
            f"{where}: cannot write: {facts['error']}",
            "choose another run.dir",
        )
        return
    yield _space(ranks[0], where)
    if facts["rename"]:
        advice = "a crash could leave a broken checkpoint: choose a file system with atomic rename for run.dir"
        yield Diagnosis("rename", PROBLEM, f"{where}: {facts['rename']}", advice)
    else:
        yield Diagnosis("rename", OK, "files are replaced atomically")
    yield _locks(ranks[0], where)
    blind = [facts["host"] for facts in ranks if facts["files"]["seen"] is False]
    if blind:
        yield Diagnosis(
            "shared",
            PROBLEM,
            f"{where} of rank 0 is not the one on {', '.join(blind)}",
            "put volumes on a file system that all hosts share; run.dir may be on the host of rank 0 only",
        )


def _space(first: Facts, where: str) -> Diagnosis:
    checkpoint, free = first["checkpoint_bytes"], first["files"]["free_bytes"]
    speed, most = first["files"]["write_bytes_per_s"], first["checkpoints"]
    text = (
        f"{where}: {_gib(free)} free, {speed / 1e6:.0f} MB/s to the disk, a checkpoint takes {checkpoint / 1e6:.1f} MB"
        f" and {checkpoint / speed:.1f} s"
    )
    if free < most * checkpoint:
        advice = f"make room for {most} checkpoints, or lower run.keep_checkpoints"
        return Diagnosis("space", PROBLEM, text, advice)
    if checkpoint / speed > CHECKPOINT_S:
        advice = "choose a faster file system for run.dir, or raise run.checkpoint_every_s"
        return Diagnosis("space", ADVICE, text, advice)
    return Diagnosis("space", OK, text)


def _locks(first: Facts, where: str) -> Diagnosis:
    hdf5, locks = first["files"]["hdf5"], first["files"]["locks"]
    setting = first["environment"].get("HDF5_USE_FILE_LOCKING", "")
    off = setting.upper() in ("FALSE", "0", "BEST_EFFORT")
    switch_off = "export HDF5_USE_FILE_LOCKING=FALSE on all ranks"
    if hdf5:
        text = f"{where}: HDF5 files cannot be written: {hdf5}"
        advice = switch_off if locks and not off else "choose another run.dir"
        return Diagnosis(
            "locks", PROBLEM, f"{text} (file locks: {locks})" if locks else text, advice
        )
    if locks and not off:
        advice = f"{switch_off}: only rank 0 writes, and inputs are only read"
        return Diagnosis("locks", ADVICE, f"{where}: file locks do not work ({locks})", advice)
    if locks:
        return Diagnosis("locks", OK, f"do not work, and HDF5_USE_FILE_LOCKING={setting}")
    return Diagnosis("locks", OK, "file locks work, HDF5 files can be written and read")


def clock(ranks: Ranks) -> Diagnosis:
    """Return the finding about differences between the clocks of hosts (lower bounds)."""
    apart = [max(facts["clock"][0], -facts["clock"][1], 0.0) for facts in ranks]
    unsure = max(facts["clock"][1] - facts["clock"][0] for facts in ranks)
    worst = max(range(len(ranks)), key=apart.__getitem__)
    if apart[worst] > CLOCK_S:
        text = f"{_names([ranks[worst]])} at least {apart[worst]:.3g} s off rank 0's clock"
        advice = (
            "times in logs of different hosts are not comparable: run NTP or chrony on the hosts"
        )
        return Diagnosis("clock", ADVICE, text, advice)
    return Diagnosis("clock", OK, f"within {1e3 * (apart[worst] + unsure):.3g} ms of rank 0's")


def start_up(ranks: Ranks) -> Iterator[Diagnosis]:
    """Yield the finding about the time from the start of the process until floodtide was imported, if it is known."""
    known = [facts for facts in ranks if facts["started_s"] is not None]
    if known:
        slowest = max(known, key=lambda facts: float(facts["started_s"]))
        text = f"{slowest['started_s']:.1f} s from the start of Python until floodtide is imported"
        text += f", slowest on {_names([slowest])}" if len(known) > 1 else ""
        advice = (
            "keep the Python environment on local disks or in one image file (docs/clusters.md)"
        )
        slow = slowest["started_s"] > STARTUP_S
        yield Diagnosis("start-up", ADVICE if slow else OK, text, advice if slow else "")


def usable_cores(here: Ranks) -> float:
    """Return the number of cores that the ranks of one host may use together, by affinity masks and control groups."""
    cores = len(_union(here))
    quotas = [float(facts["quota"]) for facts in here if facts["quota"] is not None]
    return min(cores, max(quotas)) if quotas else cores


def _union(here: Ranks) -> set[int]:
    bound = any(_binds(facts["environment"]) for facts in here)
    cores = {core for facts in here for core in facts["affinity"]}
    # OpenMP has bound each main thread to its first place. Of the masks before that, only the sizes are known.
    return set(range(max(len(cores), *(facts["cores"] for facts in here)))) if bound else cores


def _least(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _hosts(ranks: Ranks) -> list[list[Facts]]:
    """Return the facts of the ranks of each host, in the order of the first ranks of the hosts."""
    hosts: dict[str, list[Facts]] = defaultdict(list)
    for facts in ranks:
        hosts[facts["node"]].append(facts)
    return list(hosts.values())


def _of_hosts(ranks: Ranks, judge: Callable[[Ranks], Diagnosis], all_well: str) -> list[Diagnosis]:
    """Return the findings of hosts that are not ok; if there are none, one finding for all hosts."""
    found = [judge(here) for here in _hosts(ranks)]
    bad = [finding for finding in found if finding.level != OK]
    if bad or len(found) == 1:
        return bad or found
    text = f"{all_well} ({count_of(len(found), 'host')}; {found[0].text})"
    return [Diagnosis(found[0].check, OK, text)]


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
