# SPDX-License-Identifier: Apache-2.0
"""Find the launcher that started this process, and choose and load its MPI library and the plug-in.

Environment variables outlive the launcher that set them: a batch script, a notebook or an outer mpiexec passes them on.
A launcher is live if the channel that its variables name exists: an open file descriptor, or a port on which a process
listens. If several are live, MPI finds out: its number of ranks is another one than the variables say.

There are two ABI families: "mpich" (MPICH, Intel MPI, Cray MPICH; libmpi.so.12) and "openmpi" (libmpi.so.40). Launcher,
library and plug-in must belong to one family. With a launcher of another family, every process would be a separate job
of one rank; this module raises an error instead.

The environment variable FLOODTIDE_LIBMPI names the library file.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.errors import UnsupportedError, on_all_ranks

__all__ = ["launcher"]

MpiLibrary = _core.comm.MpiLibrary

FAMILIES = {"mpich": "MPICH", "openmpi": "Open MPI"}
LIBRARIES = {"mpich": ["libmpi.so.12", "libmpich.so.12"], "openmpi": ["libmpi.so.40"]}


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """The launcher of a process, according to one kind of environment variables.

    Attributes:
        name: Name for messages.
        family: MPI family of the launcher; None if the launcher serves several families.
        ranks: Number of processes that the launcher started; None if unknown.
        rank: Rank of this process among them.
        live: True if the launcher still exists. If False, this process may be alone, so it reports as rank 0.
        gone: Description of the channel to the launcher if it is certainly closed, else "". With a closed channel,
            MPI cannot start.
        variables: Environment variables, "NAME=value", that name this launcher.
    """

    name: str
    family: str | None
    ranks: int | None
    rank: int
    live: bool = True
    gone: str = ""
    variables: tuple[str, ...] = ()


def launcher(environ: Mapping[str, str] = os.environ) -> Launcher | None:
    """Return the launcher of this process, or None if it was started as an ordinary program."""
    claims = [claim for find in (_pmi, _pmix, _slurm) if (claim := find(environ)) is not None]
    # srun itself provides PMI or PMIx, and mpiexec in an allocation starts its ranks through Slurm. In both cases the
    # two launchers mean the same job, and the one that MPI talks to counts: it is earlier in the list.
    live = sorted((claim for claim in claims if claim.live), key=lambda claim: claim.ranks == 1)
    # Claims of one rank change nothing, and claims of an unknown number of ranks are not credible.
    several = [claim for claim in claims if claim.ranks not in (None, 1)]
    return next(iter([*live, *several, *claims]), None)


def _pmi(environ: Mapping[str, str]) -> Launcher | None:
    """Return the claim of PMI variables: from MPICH, Intel MPI, Cray MPICH, or srun with PMI-2."""
    rank, ranks = _number(environ, "PMI_RANK"), _number(environ, "PMI_SIZE")
    if rank is None and ranks is None:
        return None
    live = rank is not None and ranks is not None and _pmi_is_there(environ)
    gone = f"PMI_FD={environ['PMI_FD']} is closed" if "PMI_FD" in environ and not live else ""
    slurm = live and _number(environ, "SLURM_STEP_NUM_TASKS") == ranks
    return Launcher(
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
    """Return the TCP ports of this host on which a process listens (state 0A)."""
    tables = ""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            tables += Path(f"/proc/net/{name}").read_text()
    return {int(port, 16) for port in re.findall(r":([0-9A-F]{4}) [0-9A-F]+:0000 0A ", tables)}


def _slurm(environ: Mapping[str, str]) -> Launcher | None:
    """Return the claim of srun without PMI. Its ranks exist but cannot connect to each other."""
    ranks = _number(environ, "SLURM_STEP_NUM_TASKS")
    rank = _number(environ, "SLURM_PROCID")
    if rank is None or ranks is None or ranks < 2:
        return None
    variables = _present(environ, "SLURM_")
    return Launcher(name="srun", family=None, ranks=ranks, rank=rank, variables=variables)


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


def mpi4py() -> Any:
    """Return the module mpi4py.MPI if this process has imported it and MPI is running, else None."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized() or module.Is_finalized():
        return None
    return module


def plugin(family: str) -> Path:
    """Return the path of the plug-in of a family. The file exists only if the plug-in was built."""
    return Path(_core.__file__).with_name(f"_mpi_{family}.so")


def plugins() -> list[str]:
    """Return the families whose plug-in was built."""
    return [family for family in FAMILIES if plugin(family).exists()]


def libraries(family: str) -> list[str]:
    """Return the names and paths of MPI libraries to try, in this order.

    Raises:
        UnsupportedError: If mpi4py has loaded an MPI library that no plug-in supports.
    """
    if forced := os.environ.get("FLOODTIDE_LIBMPI"):
        return [forced]
    if "mpi4py.MPI" in sys.modules:
        maps = Path("/proc/self/maps").read_text()
        if loaded := re.findall(r"/\S*/libmpi(?:ch)?\.so\S*$", maps, re.MULTILINE):
            return list(dict.fromkeys(loaded))
        raise UnsupportedError(
            "mpi: mpi4py uses an MPI library that no plug-in supports "
            f"({sys.modules['mpi4py.MPI'].Get_library_version().splitlines()[0]}, standard ABI)"
        )
    return _beside(family) + LIBRARIES[family]


def load(launched: Launcher | None) -> MpiLibrary:
    """Load and return the MPI library for this process, without starting MPI.

    Raises:
        UnsupportedError: If no MPI library can be loaded, or none of the launcher's family.
    """
    reasons = []
    for family in _candidates(launched):
        if not plugin(family).exists():
            built = ", ".join(FAMILIES[other] for other in plugins()) or "none"
            reasons.append(f"this build has no plug-in for {FAMILIES[family]} (plug-ins: {built})")
            continue
        try:
            return MpiLibrary(str(plugin(family)), libraries(family))
        except UnsupportedError as error:
            reasons.append(str(error).removeprefix("mpi: "))
    for family in filter(_beside, FAMILIES):
        if launched is not None and launched.family not in (None, family):
            raise mismatch(launched, family)
    raise _refused(launched, f"no MPI can be used: {'; '.join(reasons)}")


def _candidates(launched: Launcher | None) -> list[str]:
    """Return the MPI families to try, in this order."""
    if (module := sys.modules.get("mpi4py.MPI")) is not None:
        family = "openmpi" if "Open MPI" in module.Get_library_version() else "mpich"
        if launched is not None and launched.family not in (None, family):
            raise mismatch(launched, family)
        return [family]
    if launched is not None and launched.family is not None:
        return [launched.family]
    return sorted(FAMILIES, key=lambda family: not _beside(family))


def _beside(family: str) -> list[str]:
    """Return the libraries of a family in the environment of this Python, where wheels install them."""
    paths = [Path(sys.prefix) / "lib" / name for name in LIBRARIES[family]]
    return [str(path) for path in paths if path.exists()]


def prepare_for(launched: Launcher | None) -> None:
    """Check that the launcher that MPI needs in order to start may still exist, and hide other launchers from MPI.

    MPICH aborts if it finds PMIx variables in addition to its own: they are removed from this process's environment.

    Raises:
        UnsupportedError: If the channel to the launcher is closed.
    """
    if launched is not None and launched.gone and launched.ranks != 1:
        raise mismatch(launched, launched.family or "mpich")
    if launched is not None and launched.live and launched.family == "mpich":
        for name in [name for name in os.environ if name.startswith("PMIX_")]:
            del os.environ[name]


def mismatch(launched: Launcher, family: str) -> UnsupportedError:
    """Return the error for an MPI library that does not support the launcher, or for a launcher that is gone."""
    problem = (
        f"the MPI library of this Python ({FAMILIES[family]}) takes each process for a job of one rank; use the mpiexec"
        f" of this {FAMILIES[family]} (look in {Path(sys.prefix) / 'bin'}) or a Python environment with the launcher's"
        " MPI"
    )
    if not launched.live:
        problem = (
            f"{launched.gone or 'this process finds no other'}: {', '.join(launched.variables)} may be left over from"
            " another job; unset them to run one rank, or start the ranks with mpiexec"
        )
    return _refused(launched, problem)


def _refused(launched: Launcher | None, problem: str) -> UnsupportedError:
    started = ""
    if launched is not None:
        ranks = "this process" if launched.ranks is None else f"{launched.ranks} ranks"
        started = f"{launched.name} started {ranks}, but "
    return on_all_ranks(UnsupportedError(f"mpi: {started}{problem}"))  # every process finds it


def one_line(text: str) -> str:
    """Return a text, such as an MPI library gives, as one line without null characters."""
    return " ".join(text.replace("\0", "").split())
