# SPDX-License-Identifier: Apache-2.0
"""Findings from the facts of all ranks. All functions are pure; their argument is a list of the facts of each rank.

A check returns the level, a text, and what to do if the level is not OK.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from floodtide._core import describe_bytes
from floodtide.base.libraries import install
from floodtide.base.notes import count_of

Facts = Mapping[str, Any]
Ranks = Sequence[Facts]
Found = tuple[str, str, str]

OK, ADVICE, PROBLEM = "ok", "advice", "problem"

SLOW_SHARE = 0.8  # ranks below this share of the median speed are named
MEMORY_SHARE = 0.8


class Diagnosis(NamedTuple):
    """One result of the examination."""

    check: str
    level: str  # OK, ADVICE or PROBLEM
    text: str
    advice: str  # what to do if not OK


def findings(ranks: Ranks) -> list[Diagnosis]:
    """Return all findings, but only hosts that are not ok. If all hosts are ok, the first one stands for them."""
    hosts = defaultdict[str, list[Facts]](list)
    for facts in ranks:
        hosts[facts["node"]].append(facts)
    found = []
    for check in (launcher, threads, affinity, environment, speed, memory, directory, shared):
        parts = list(hosts.values()) if check in (threads, memory) else [ranks]
        rows = [Diagnosis(check.__name__, *check(part)) for part in parts]
        found += [row for row in rows if row.level != OK] or rows[:1]
    return found


def launcher(ranks: Ranks) -> Found:
    """Check launcher, MPI library and ABI family."""
    first, hosts = ranks[0], {facts["node"] for facts in ranks}
    by = first["launcher"] or "no launcher"
    if first["library"] is None:
        how = f"{install('mpi')}, or load the site's MPI and install floodtide again"
        return ADVICE, f"{by}, 1 rank; {first['no_library']}", f"for more ranks: {how}"
    versions = sorted({facts["library_version"] for facts in ranks})
    if len(versions) > 1:
        text = f"hosts have different MPI libraries: {', '.join(versions)}"
        return PROBLEM, text, "use one environment on all hosts"
    job = f"{count_of(len(ranks), 'rank')} on {count_of(len(hosts), 'host')}, {by}"
    library = f"{first['library_version']} ({first['library']})"
    return OK, f"{job}; {library}, plug-in for the ABI of {first['family']}", ""


def threads(here: Ranks) -> Found:
    """Compare the threads of a training with the cores that the ranks of a host may use."""
    wanted, cores = sum(facts["threads"] for facts in here), usable_cores(here)
    job = f"{count_of(wanted, 'thread')} of {count_of(len(here), 'rank')}"
    text = f"{here[0]['host']}: {job} on {count_of(cores, 'core')}"
    advice = f"set OMP_NUM_THREADS or run.threads to {max(1, int(cores) // len(here))}"
    if wanted > cores:
        return PROBLEM, f"{text}: over-subscribed", advice
    if wanted <= cores / 2:
        return ADVICE, f"{text}: cores stay idle", f"{advice}, or start more ranks"
    return OK, text, ""


def affinity(ranks: Ranks) -> Found:
    """Find ranks that are bound to too few cores."""
    bound = [f for f in ranks if f["threads"] > f["cores"] and f["cores"] < f["host_cores"]]
    first = (bound or ranks)[0]
    text = f"{count_of(first['cores'], 'core')} for {count_of(first['threads'], 'thread')}"
    advice = (
        "give ranks their cores: srun --cpu-bind=cores --cpus-per-task=N, Open MPI --map-by slot:PE=N or --bind-to"
        " none, MPICH -bind-to none"
    )
    if bound:
        return PROBLEM, f"{_names(bound)} may use {text}: pinned", advice
    return OK, f"{text} of a rank", ""


def environment(ranks: Ranks) -> Found:
    """Find environment variables that put threads on one core. OMP_PROC_BIND=false switches the others off."""
    for facts in ranks:
        found = facts["environment"]
        if found and found.get("OMP_PROC_BIND", "true").lower() != "false":
            settings = ", ".join(f"{name}={value}" for name, value in found.items())
            effect = "threads that read files and communicate also run on the single core of the main thread"
            advice = "set OMP_PROC_BIND=false and let the launcher bind ranks"
            return ADVICE, f"{settings}: {effect}", advice
    return OK, "no setting that binds threads to single cores", ""


def speed(ranks: Ranks) -> Found:
    """Find ranks whose peak multiply-add rate per thread is low. All ranks wait for them."""
    rates = [facts["gflops"] / facts["threads"] for facts in ranks]
    middle = median(rates)
    slow = [facts for facts, rate in zip(ranks, rates, strict=True) if rate < SLOW_SHARE * middle]
    advice = (
        "every step waits for the slowest rank: look for other programs, heat or power limits on these hosts, or"
        " exclude these hosts"
    )
    if slow:
        text = f"{_names(slow)} slow: {min(rates):.0f} of {middle:.0f} GFLOP/s a thread"
        return ADVICE, text, advice
    return OK, f"{middle:.0f} GFLOP/s a thread ({ranks[0]['isa']}, {ranks[0]['processor']})", ""


def memory(here: Ranks) -> Found:
    """Compare the memory that the training needs with the free memory of a host."""
    # The needed memory includes memory that the ranks already use.
    needed = sum(facts["memory_needed_bytes"] for facts in here)
    known = [facts["memory_available_bytes"] for facts in here]
    free = min((count for count in known if count is not None), default=None)
    text = f"{here[0]['host']}: {count_of(len(here), 'rank')} of the training need {describe_bytes(needed)}"
    if free is None:
        return OK, f"{text}, free memory unknown", ""
    text = f"{text}, {describe_bytes(free)} is free"
    if needed <= MEMORY_SHARE * free:
        return OK, text, ""
    advice = 'fewer ranks or threads a host, or run.parallel = "voxels"'
    return PROBLEM if needed > free else ADVICE, text, advice


def directory(ranks: Ranks) -> Found:
    """Check that the run directory can be written, and has room for the checkpoints."""
    first, facts = ranks[0], ranks[0]["files"]
    if "error" in facts:
        text = f"{facts['path']}: files cannot be written: {facts['error']}"
        advice = "choose another run.dir; if it is about locks, export HDF5_USE_FILE_LOCKING=FALSE on all ranks"
        return PROBLEM, text, advice
    size, most, free = first["checkpoint_bytes"], first["checkpoints"], facts["free_bytes"]
    text = (
        f"{facts['path']}: {describe_bytes(free)} free, a checkpoint takes {describe_bytes(size)}"
    )
    advice = f"make room for {most} checkpoints, or lower run.keep_checkpoints"
    return (PROBLEM, text, advice) if free < most * size else (OK, text, "")


def shared(ranks: Ranks) -> Found:
    """Check that all hosts see the run directory."""
    where = ranks[0]["files"]["path"]
    blind = [facts["host"] for facts in ranks if facts["files"]["seen"] is False]
    advice = "put volumes on a file system that all hosts share; run.dir may be on the host of rank 0 only"
    if blind:
        return PROBLEM, f"{where} of rank 0 is not the one on {', '.join(blind)}", advice
    return OK, f"all hosts see {where}", ""


def usable_cores(here: Ranks) -> float:
    """Return the number of cores that the ranks of one host may use together, by affinity masks and control groups."""
    # If OpenMP has bound each main thread to one core, only the sizes of the masks before that are known.
    union = len({core for facts in here for core in facts["affinity"]})
    cores = float(max(union, *(facts["cores"] for facts in here)))
    quotas = [float(facts["quota"]) for facts in here if facts["quota"] is not None]
    return min(cores, max(quotas, default=cores))


def _names(ranks: Ranks) -> str:
    """Return a text that names ranks: "rank 3 (node7), rank 4 (node7), ..."."""
    names = [f"rank {facts['rank']} ({facts['host']})" for facts in ranks[:4]]
    return ", ".join(names) + (f" and {len(ranks) - 4} more" if len(ranks) > 4 else "")
