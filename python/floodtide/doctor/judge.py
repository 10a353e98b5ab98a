# SPDX-License-Identifier: Apache-2.0
"""Findings from the facts of all ranks. All functions are pure; their argument is a list of the facts of each rank."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from statistics import median
from typing import Any

from floodtide.base.counts import count_of
from floodtide.doctor.finding import (
    ADVICE,
    OK,
    PROBLEM,
    Facts,
    Finding,
    Ranks,
    gib,
    names_of,
)
from floodtide.doctor.judge_files import directory

SLOW_SHARE = 0.8  # ranks below this share of the median speed are named
CLOCK_S = 0.1
STARTUP_S = 10.0
MEMORY_SHARE = 0.8


def findings(ranks: Ranks) -> list[Finding]:
    """Return all findings."""
    return [
        launcher(ranks),
        *host_names(ranks),
        mpi4py(ranks),
        *([thread_level(ranks)] if len(ranks) > 1 else []),
        *threads(ranks),
        *affinity(ranks),
        *environment(ranks),
        *speed(ranks),
        *memory(ranks),
        *directory(ranks),
        *([clock(ranks)] if len(ranks) > 1 else []),
        *start_up(ranks),
    ]


def launch_failed(message: str) -> list[Finding]:
    """Return the single finding for ranks that cannot connect to each other."""
    return [
        Finding(
            check="launcher",
            level=PROBLEM,
            text=message.removeprefix("mpi: "),
            advice="start with the mpiexec of the MPI library that floodtide uses (docs/mpi.md)",
        )
    ]


def launcher(ranks: Ranks) -> Finding:
    """Return the finding about launcher, MPI library and ABI family."""
    first = ranks[0]
    by = first["launcher"] or "no launcher"
    if first["library"] is None:
        return Finding(
            check="launcher",
            level=ADVICE,
            text=f"{by}, 1 rank; {first['no_library']}",
            advice="for more ranks: pip install 'floodtide[mpi]', or load the site's MPI and install floodtide again",
        )
    versions = {facts["library_version"] for facts in ranks}
    text = (
        f"{count_of(len(ranks), 'rank')} on {count_of(len(_hosts(ranks)), 'host')}, {by}; {first['library_version']} "
        f"({first['library']}), plug-in for the ABI of {first['family']}"
    )
    if len(versions) > 1:
        return Finding(
            check="launcher",
            level=PROBLEM,
            text=f"hosts have different MPI libraries: {', '.join(sorted(versions))}",
            advice="use one environment on all hosts",
        )
    return Finding(check="launcher", level=OK, text=text)


def host_names(ranks: Ranks) -> list[Finding]:
    """Return findings about hosts with equal names."""
    names = [here[0]["host"] for here in _hosts(ranks)]
    shared = sorted({name for name in names if names.count(name) > 1})
    return [
        Finding(
            check="host names",
            level=ADVICE,
            text=f"{names.count(name)} hosts are all named {name}",
            advice="give each host its own name: messages, locks and records of failures name hosts",
        )
        for name in shared
    ]


def mpi4py(ranks: Ranks) -> Finding:
    """Return the finding whether mpi4py, if installed, uses the same MPI library as floodtide."""
    version, _, library = ranks[0]["mpi4py"].partition("\t")
    if not version:
        return Finding(check="mpi4py", level=OK, text="not installed; floodtide does not need it")
    if version == "?":
        return Finding(
            check="mpi4py",
            level=ADVICE,
            text=f"cannot be imported: {library}",
            advice="install mpi4py for the MPI library in use if scripts pass communicators",
        )
    ours = ranks[0].get("library_version")
    if ours is not None and " ".join(library.split()) != ours:
        return Finding(
            check="mpi4py",
            level=ADVICE,
            text=f"mpi4py {version} uses {library}, floodtide {ours}",
            advice="to pass communicators, install mpi4py for that library or name its library in FLOODTIDE_LIBMPI",
        )
    return Finding(check="mpi4py", level=OK, text=f"mpi4py {version} uses the same library")


def thread_level(ranks: Ranks) -> Finding:
    """Return the finding about the thread level that the MPI library provides."""
    levels = sorted({str(facts["thread_level"]) for facts in ranks})
    good = set(levels) <= {"multiple", "serialized"}
    return Finding(
        check="thread level",
        level=OK if good else PROBLEM,
        text=f"MPI_THREAD_{', MPI_THREAD_'.join(levels).upper()}",
        advice=""
        if good
        else "floodtide needs SERIALIZED or MULTIPLE: use an MPI library built with threads",
    )


def threads(ranks: Ranks) -> list[Finding]:
    """Return findings that compare, for each host, the threads of a training with the cores that they may use."""
    found = []
    for here in _hosts(ranks):
        host = here[0]["host"]
        wanted = sum(facts["threads"] for facts in here)
        cores = usable_cores(here)
        text = f"{host}: {count_of(wanted, 'thread')} of {count_of(len(here), 'rank')} on {count_of(cores, 'core')}"
        quota = _quota(here)
        if quota is not None and quota < len(_union(here)):
            text += f" (control groups grant {quota:g} of {len(_union(here))})"
        if wanted > cores:
            share = max(1, int(cores) // len(here))
            fewer = (
                f", and at most {count_of(math.floor(cores), 'rank')}" if len(here) > cores else ""
            )
            found.append(
                Finding(
                    check="threads",
                    level=PROBLEM,
                    text=f"{text}: over-subscribed",
                    advice=f"set OMP_NUM_THREADS or run.threads to {share}{fewer}",
                )
            )
        elif wanted <= cores / 2:
            found.append(
                Finding(
                    check="threads",
                    level=ADVICE,
                    text=f"{text}: cores stay idle",
                    advice=f"set OMP_NUM_THREADS or run.threads to {int(cores) // len(here)}, or start more ranks",
                )
            )
        else:
            found.append(Finding(check="threads", level=OK, text=text))
    return _summed(found, "every host has as many cores as threads")


def affinity(ranks: Ranks) -> list[Finding]:
    """Return findings about ranks that are bound to too few cores, or to cores of other ranks."""
    bound = [f for f in ranks if f["threads"] > f["cores"] and f["cores"] < f["host_cores"]]
    if bound:
        cores, wanted = count_of(bound[0]["cores"], "core"), bound[0]["threads"]
        return [
            Finding(
                check="affinity",
                level=PROBLEM,
                text=f"{names_of(bound)} may use {cores} for {count_of(wanted, 'thread')}: pinned",
                advice="give ranks their cores: srun --cpu-bind=cores --cpus-per-task=N, Open MPI --map-by slot:PE=N "
                "or --bind-to none, MPICH -bind-to none",
            )
        ]
    for here in _hosts(ranks):
        sets = [frozenset(facts["affinity"]) for facts in here]
        overlapping = sum(len(s) for s in sets) > len(frozenset().union(*sets))
        if overlapping and len(set(sets)) > 1:
            return [
                Finding(
                    check="affinity",
                    level=ADVICE,
                    text=f"{here[0]['host']}: cores of different ranks overlap",
                    advice="bind each rank to separate cores, or do not bind ranks",
                )
            ]
    first = ranks[0]
    return [
        Finding(
            check="affinity",
            level=OK,
            text=f"{count_of(first['cores'], 'core')} for {count_of(first['threads'], 'thread')} of a rank",
        )
    ]


def environment(ranks: Ranks) -> list[Finding]:
    """Return findings about environment variables that slow down threads."""
    found = []
    for names, harm, advice, matches in _HARMFUL:
        here = [facts for facts in ranks if matches(facts["environment"])]
        if here:
            environ = here[0]["environment"]
            settings = ", ".join(f"{name}={environ[name]}" for name in names if name in environ)
            text = f"{settings}: {harm}"
            found.append(Finding(check="environment", level=ADVICE, text=text, advice=advice))
    capped = [facts for facts in ranks if facts["isa"] != facts["processor_isa"]]
    if capped:
        found.append(
            Finding(
                check="environment",
                level=ADVICE,
                text=f"FLOODTIDE_ISA caps {names_of(capped)} at {capped[0]['isa']}, the processor has "
                f"{capped[0]['processor_isa']}",
                advice="unset FLOODTIDE_ISA unless ranks on different processors must give equal results",
            )
        )
    if len({facts["environment"].get("OMP_NUM_THREADS") for facts in ranks}) > 1:
        found.append(
            Finding(
                check="environment",
                level=ADVICE,
                text="OMP_NUM_THREADS differs between ranks",
                advice="export it to all ranks (mpiexec -genv, -x, srun --export)",
            )
        )
    return found or [
        Finding(check="environment", level=OK, text="no setting that makes threads wait")
    ]


def _is(name: str, *values: str) -> Any:
    return lambda environ: environ.get(name, "").lower() in values


def _binds(environ: Mapping[str, str]) -> bool:
    bind = environ.get("OMP_PROC_BIND", "").lower()
    places = any(name in environ for name in ("OMP_PLACES", "GOMP_CPU_AFFINITY"))
    return bind not in ("", "false") or (bind == "" and places)


_SPIN = "threads without work keep their cores busy"

# Variables, their harm, the advice, and a function that is True if an environment has this problem.
_HARMFUL = (
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


def speed(ranks: Ranks) -> list[Finding]:
    """Return findings about ranks whose peak multiply-add rate per thread is low. All ranks wait for them."""
    rates = [facts["gflops"] / facts["threads"] for facts in ranks]
    middle = median(rates)
    slow = [facts for facts, rate in zip(ranks, rates, strict=True) if rate < SLOW_SHARE * middle]
    text = f"{middle:.0f} GFLOP/s a thread ({ranks[0]['isa']}, {ranks[0]['processor']})"
    if not slow:
        return [Finding(check="speed", level=OK, text=text)]
    worst = min(slow, key=lambda facts: float(facts["gflops"]) / facts["threads"])
    rate = worst["gflops"] / worst["threads"]
    return [
        Finding(
            check="speed",
            level=ADVICE,
            text=f"{names_of(slow)} slow: {rate:.0f} of {middle:.0f} GFLOP/s a thread",
            advice="every step waits for the slowest rank: look for other programs, heat or power limits on these "
            "hosts, or exclude these hosts",
        )
    ]


def memory(ranks: Ranks) -> list[Finding]:
    """Return findings that compare, for each host, the memory that the training needs with the free memory."""
    found = []
    for here in _hosts(ranks):
        host = here[0]["host"]
        needed = sum(facts["memory_needed_bytes"] for facts in here)
        free = [
            f["memory_available_bytes"] for f in here if f["memory_available_bytes"] is not None
        ]
        # The needed memory includes memory that the ranks already use.
        text = f"{host}: {count_of(len(here), 'rank')} of the training need {gib(needed)}"
        if not free:
            found.append(Finding(check="memory", level=OK, text=f"{text}, free memory unknown"))
            continue
        text += f", {gib(min(free))} is free"
        level = PROBLEM if needed > min(free) else ADVICE
        if needed > MEMORY_SHARE * min(free):
            advice = 'fewer ranks or threads a host, or run.parallel = "voxels"'
            found.append(Finding(check="memory", level=level, text=text, advice=advice))
        else:
            found.append(Finding(check="memory", level=OK, text=text))
    return _summed(found, "every host has the memory that the training needs")


def clock(ranks: Ranks) -> Finding:
    """Return the finding about differences between the clocks of hosts (lower bounds)."""
    apart = [max(facts["clock"][0], -facts["clock"][1], 0.0) for facts in ranks]
    unsure = max(facts["clock"][1] - facts["clock"][0] for facts in ranks)
    worst = max(range(len(ranks)), key=apart.__getitem__)
    text = f"within {1e3 * (apart[worst] + unsure):.3g} ms of rank 0's"
    if apart[worst] > CLOCK_S:
        return Finding(
            check="clock",
            level=ADVICE,
            text=f"{names_of([ranks[worst]])} at least {apart[worst]:.3g} s off rank 0's clock",
            advice="times in logs of different hosts are not comparable: run NTP or chrony on the hosts",
        )
    return Finding(check="clock", level=OK, text=text)


def start_up(ranks: Ranks) -> list[Finding]:
    """Return the finding about the time from the start of the process until floodtide was imported."""
    known = [facts for facts in ranks if facts["started_s"] is not None]
    if not known:
        return []
    slowest = max(known, key=lambda facts: float(facts["started_s"]))
    seconds = slowest["started_s"]
    text = f"{seconds:.1f} s from the start of Python until floodtide is imported"
    text += f", slowest on {names_of([slowest])}" if len(known) > 1 else ""
    if seconds > STARTUP_S:
        return [
            Finding(
                check="start-up",
                level=ADVICE,
                text=text,
                advice="keep the Python environment on local disks or in one image file (docs/clusters.md)",
            )
        ]
    return [Finding(check="start-up", level=OK, text=text)]


def usable_cores(here: Ranks) -> float:
    """Return the number of cores that the ranks of one host may use together, by affinity masks and control groups."""
    quota = _quota(here)
    cores = len(_union(here))
    return cores if quota is None else min(cores, quota)


def _union(here: Ranks) -> set[int]:
    bound = any(_binds(facts["environment"]) for facts in here)
    cores = {core for facts in here for core in facts["affinity"]}
    # OpenMP has bound each main thread to its first place. Of the masks before that, only the sizes are known.
    return set(range(max(len(cores), *(facts["cores"] for facts in here)))) if bound else cores


def _quota(here: Ranks) -> float | None:
    quotas = [float(facts["quota"]) for facts in here if facts["quota"] is not None]
    return max(quotas, default=None)


def _hosts(ranks: Ranks) -> list[list[Facts]]:
    """Return the facts of the ranks of each host, in the order of the first ranks of the hosts."""
    hosts: dict[str, list[Facts]] = defaultdict(list)
    for facts in ranks:
        hosts[facts["node"]].append(facts)
    return list(hosts.values())


def _summed(found: list[Finding], all_well: str) -> list[Finding]:
    """Return the findings that are not ok; if there are none, one finding for all hosts."""
    bad = [finding for finding in found if finding.level != OK]
    if bad:
        return bad
    if len(found) == 1:
        return found
    return [
        Finding(
            check=found[0].check,
            level=OK,
            text=f"{all_well} ({count_of(len(found), 'host')}; {found[0].text})",
        )
    ]
