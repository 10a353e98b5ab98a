# SPDX-License-Identifier: Apache-2.0
"""Find the launcher that started this process, without trusting environment variables alone.

Environment variables outlive the launcher that set them: a batch script, a notebook or an outer mpiexec passes them on.
A launcher is live if the channel that its variables name exists: an open file descriptor, or a port on which a process
listens. If two launchers are live, the nearest ancestor of this process decides. Otherwise MPI finds out: its
number of ranks is another one than the variables say.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# Programs that start ranks, with their names in /proc/PID/comm (at most 15 characters), and what they provide.
PROGRAMS = {
    "hydra_pmi_proxy": "pmi", "hydra_bstrap_pr": "pmi", "palsd": "pmi", "prted": "pmix",
    "prterun": "pmix", "prte": "pmix", "orted": "pmix", "orterun": "pmix", "slurmstepd": "slurm",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """The launcher of a process, according to one kind of environment variables.

    Attributes:
        kind: The kind of variables: "pmi", "pmix" (also of Open MPI) or "slurm".
        name: Name for messages.
        family: MPI family of the launcher; None if the launcher serves several families.
        ranks: Number of processes that the launcher started; None if unknown.
        rank: Rank of this process among them.
        live: True if the launcher still exists. If False, this process may be alone, so it reports as rank 0.
        gone: Description of the channel to the launcher if it is certainly closed, else "". With a closed channel,
            MPI cannot start.
        variables: Environment variables, "NAME=value", that name this launcher.
    """

    kind: str
    name: str
    family: str | None
    ranks: int | None
    rank: int
    live: bool = True
    gone: str = ""
    variables: tuple[str, ...] = ()


def launcher(
    environ: Mapping[str, str] = os.environ, ancestors: Iterable[str] | None = None
) -> Launcher | None:
    """Return the launcher of this process, or None if it was started as an ordinary program.

    Args:
        ancestors: Names of the ancestors of this process, the parent first; None: read them from the system.
    """
    claims = [claim for find in (_pmi, _pmix, _slurm) if (claim := find(environ)) is not None]
    live = [claim for claim in claims if claim.live]
    if len(live) > 1:
        # srun itself provides PMI or PMIx, and mpiexec in an allocation starts its ranks through Slurm. In both cases
        # the two launchers mean the same job, and the one that MPI talks to counts.
        kind = nearest(_ancestors() if ancestors is None else ancestors)
        return min(live, key=lambda claim: (claim.kind != kind, claim.kind == "slurm"))
    # Claims of one rank change nothing, and claims of an unknown number of ranks are not credible.
    several = [claim for claim in claims if claim.ranks not in (None, 1)]
    return next(iter([*live, *several, *claims]), None)


def nearest(ancestors: Iterable[str]) -> str:
    """Return the kind of the first launcher in a list of process names, or "" if there is none."""
    return next((PROGRAMS[name] for name in ancestors if name in PROGRAMS), "")


def _ancestors() -> Iterable[str]:
    pid = os.getppid()
    while pid > 1:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        name, _, rest = text.partition("(")[2].rpartition(")")
        yield name
        pid = int(rest.split()[1])


def _pmi(environ: Mapping[str, str]) -> Launcher | None:
    """Return the claim of PMI variables: from MPICH, Intel MPI, Cray MPICH, or srun with PMI-2."""
    rank, ranks = _number(environ, "PMI_RANK"), _number(environ, "PMI_SIZE")
    if rank is None and ranks is None:
        return None
    live = rank is not None and ranks is not None and _pmi_is_there(environ)
    gone = f"PMI_FD={environ['PMI_FD']} is closed" if "PMI_FD" in environ and not live else ""
    slurm = live and _number(environ, "SLURM_STEP_NUM_TASKS") == ranks
    return Launcher(
        kind="pmi",
        name="srun" if slurm else "MPICH's mpiexec",
        family=None if slurm else "mpich",
        ranks=ranks,
        rank=rank or 0,
        live=live,
        gone=gone,
        variables=_present(environ, "PMI_"),
    )


def _pmi_is_there(environ: Mapping[str, str]) -> bool:
    if (descriptor := _number(environ, "PMI_FD")) is not None:
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            return False
        return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)
    # Do not connect to the port to test it: the launcher would take the connection for a rank.
    return "PMI_PORT" in environ or "PMI_CONTROL_PORT" in environ


def _pmix(environ: Mapping[str, str]) -> Launcher | None:
    """Return the claim of PMIx variables: from Open MPI, srun or PRRTE."""
    ranks = _number(environ, "OMPI_COMM_WORLD_SIZE")
    rank = _number(environ, "OMPI_COMM_WORLD_RANK")
    pmix_rank = _number(environ, "PMIX_RANK")
    if ranks is None and rank is None and pmix_rank is None:
        return None
    servers = [value for name, value in environ.items() if name.startswith("PMIX_SERVER_URI")]
    there = any(_listened_to(server) for server in servers)
    live = pmix_rank is not None and "PMIX_NAMESPACE" in environ and there
    if live and rank not in (None, pmix_rank):
        ranks = rank = None  # the variables of Open MPI belong to another job
    variables = (*_present(environ, "OMPI_COMM_WORLD_"), *_present(environ, "PMIX_"))
    if ranks is not None:
        name, family = "Open MPI's mpiexec", "openmpi"
    else:
        ranks = _number(environ, "SLURM_STEP_NUM_TASKS") if "SLURM_PROCID" in environ else None
        name, family = "srun" if ranks else "a PMIx launcher", None
    gone = "the server that PMIX_SERVER_URI* names does not exist any more"
    return Launcher(
        kind="pmix",
        name=name,
        family=family,
        ranks=ranks,
        rank=(pmix_rank if rank is None else rank) or 0,
        live=live,
        gone="" if live or pmix_rank is None else gone,
        variables=variables,
    )


def _listened_to(server: str) -> bool:
    """Return True if the server of a PMIx address exists: "name;tcp4://127.0.0.1:49989" or the file of a socket."""
    if match := re.search(r"tcp[46]?://.*:(\d+)", server):
        return int(match[1]) in _listening_ports()
    path = Path(server.rpartition(":")[2].split(";")[0])
    return path.is_absolute() and path.is_socket()


def _listening_ports() -> set[int]:
    """Return the TCP ports of this host on which a process listens."""
    ports = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A":  # LISTEN
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def _slurm(environ: Mapping[str, str]) -> Launcher | None:
    """Return the claim of srun without PMI. Its ranks exist but cannot connect to each other."""
    ranks = _number(environ, "SLURM_STEP_NUM_TASKS")
    rank = _number(environ, "SLURM_PROCID")
    if rank is None or ranks is None or ranks < 2:
        return None
    variables = _present(environ, "SLURM_")
    return Launcher(
        kind="slurm", name="srun", family=None, ranks=ranks, rank=rank, variables=variables
    )


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() else None


def _present(environ: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Return "NAME=value" of the relevant variables with a prefix, for messages."""
    told = ("RANK", "SIZE", "FD", "PORT", "NAMESPACE", "PROCID", "STEP_NUM_TASKS")
    return tuple(
        f"{name}={environ[name]}"
        for name in sorted(environ)
        if name.startswith(prefix) and name.removeprefix(prefix) in told
    )
