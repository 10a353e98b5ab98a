# SPDX-License-Identifier: Apache-2.0
"""Which MPI library and plug-in serve this process; `_launcher` finds out who started it.

Two ABI families exist: "mpich" (MPICH, Intel MPI, Cray MPICH; libmpi.so.12) and "openmpi"
(libmpi.so.40). Launcher, library and plug-in must be of one family: with a launcher of another
family every process would be a job of one rank, so that is found out here and is an error.

Environment: FLOODTIDE_MPI_FAMILY (mpich or openmpi) forces the family, FLOODTIDE_LIBMPI names the
library file.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.comm.launching.launchers import Launcher, launcher
from floodtide.errors import InvalidArgumentError, UnsupportedError

MpiLibrary = _core.comm.MpiLibrary

__all__ = ["Launcher", "launcher"]

FAMILIES = {"mpich": "MPICH", "openmpi": "Open MPI"}
LIBRARIES = {"mpich": ["libmpi.so.12", "libmpich.so.12"], "openmpi": ["libmpi.so.40"]}


def mpi4py() -> Any:
    """The module mpi4py.MPI if this process has imported it and MPI runs, else None."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized() or module.Is_finalized():
        return None
    return module


def family_of(version: str) -> str:
    """The family of a library by the text that MPI_Get_library_version gives."""
    return "openmpi" if "Open MPI" in version else "mpich"


def plugin(family: str) -> Path:
    """Where the plug-in of a family lies if it was built."""
    return Path(_core.__file__).with_name(f"_mpi_{family}.so")


def plugins() -> list[str]:
    """The families whose plug-in was built."""
    return [family for family in FAMILIES if plugin(family).exists()]


def libraries(family: str) -> list[str]:
    """Names and paths under which the MPI library is looked for, in this order."""
    if forced := os.environ.get("FLOODTIDE_LIBMPI"):
        return [forced]
    if "mpi4py.MPI" in sys.modules:
        if loaded := _loaded_libraries():
            return loaded
        raise UnsupportedError(
            "mpi: mpi4py uses an MPI library that no plug-in fits "
            f"({_one_line(sys.modules['mpi4py.MPI'].Get_library_version())}, standard ABI)"
        )
    beside = [Path(sys.prefix) / "lib" / name for name in LIBRARIES[family]]
    return [str(path) for path in beside if path.exists()] + LIBRARIES[family]


def _loaded_libraries() -> list[str]:
    pattern = re.compile(r"/\S*/libmpi(?:ch)?\.so\S*$")
    maps = Path("/proc/self/maps").read_text()
    return list(dict.fromkeys(m[0] for line in maps.splitlines() if (m := pattern.search(line))))


def load(launched: Launcher | None) -> MpiLibrary:
    """Load the MPI library that this process should use; does not start MPI.

    Raises:
        UnsupportedError: If there is none, or none of the launcher's family.
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
    for family in _beside():
        if launched is not None and launched.family not in (None, family):
            raise mismatch(launched, family)
    raise _agreed(f"mpi: {_started(launched)}no MPI can be used: {'; '.join(reasons)}")


def _candidates(launched: Launcher | None) -> list[str]:
    """Families to try, in this order."""
    chosen = os.environ.get("FLOODTIDE_MPI_FAMILY")
    if chosen is not None and chosen not in FAMILIES:
        raise InvalidArgumentError(
            f"FLOODTIDE_MPI_FAMILY is '{chosen}', expected {' or '.join(FAMILIES)}"
        )
    module = sys.modules.get("mpi4py.MPI")
    if module is not None:
        family = family_of(module.Get_library_version())
        if chosen not in (None, family):
            raise _agreed(
                f"mpi: FLOODTIDE_MPI_FAMILY is {chosen}, but mpi4py has loaded {FAMILIES[family]}"
            )
        chosen = family
    if chosen is not None:
        if launched is not None and launched.family not in (None, chosen):
            raise mismatch(launched, chosen)
        return [chosen]
    if launched is not None and launched.family is not None:
        return [launched.family]
    return list(dict.fromkeys([*_beside(), *FAMILIES]))


def _beside() -> list[str]:
    """Families whose library lies in this Python's environment, as the wheels put it."""
    folder = Path(sys.prefix) / "lib"
    return [
        family
        for family, names in LIBRARIES.items()
        if any((folder / name).exists() for name in names)
    ]


def require_there(launched: Launcher | None) -> None:
    """Refuse to start MPI where the launcher that should help is certainly gone.

    Raises:
        UnsupportedError: If so.
    """
    if launched is not None and launched.gone and launched.ranks != 1:
        raise _agreed(f"mpi: {_started(launched)}{launched.gone}: {_left_over(launched)}")


def hide_others(launched: Launcher | None) -> None:
    """Take what another launcher has left out of this process's environment, which MPI libraries read, too.

    MPICH aborts where it finds variables of PMIx beside its own.
    """
    if launched is not None and launched.live and launched.family == "mpich":
        for name in [name for name in os.environ if name.startswith("PMIX_")]:
            del os.environ[name]


def wrong_size(launched: Launcher, size: int) -> UnsupportedError:
    """The error for a job that has another number of ranks than its launcher says."""
    return _agreed(
        f"mpi: {_started(launched)}MPI_COMM_WORLD has {size}; "
        f"the variables {', '.join(launched.variables)} are of another job"
    )


def mismatch(launched: Launcher, family: str) -> UnsupportedError:
    """The error for a library that does not understand the launcher."""
    if not launched.live:
        return _agreed(
            f"mpi: {_started(launched)}this process finds no other: {_left_over(launched)}"
        )
    return _agreed(
        f"mpi: {_started(launched)}the MPI library of this Python ({FAMILIES[family]}) takes each "
        f"process for a job of one rank; use the mpiexec of this {FAMILIES[family]} (look in "
        f"{Path(sys.prefix) / 'bin'}) or a Python environment with the launcher's MPI"
    )


def _left_over(launched: Launcher) -> str:
    return (
        f"{', '.join(launched.variables)} may be left over from another job; unset them to run one rank, "
        "or start the ranks with mpiexec"
    )


def _agreed(message: str) -> UnsupportedError:
    error = UnsupportedError(message)
    error.agreed = True  # each process comes to the same conclusion
    return error


def _started(launched: Launcher | None) -> str:
    if launched is None:
        return ""
    ranks = "" if launched.ranks is None else f" {launched.ranks} ranks"
    return f"{launched.name} started{ranks or ' this process'}, but "


def _one_line(text: str) -> str:
    return text.splitlines()[0].strip() if text else ""
