# SPDX-License-Identifier: Apache-2.0
"""Choose and load the MPI library and the plug-in of this process. `launchers` finds out who started the process.

There are two ABI families: "mpich" (MPICH, Intel MPI, Cray MPICH; libmpi.so.12) and "openmpi"
(libmpi.so.40). Launcher, library and plug-in must belong to one family. With a launcher of another
family, every process would be a separate job of one rank; this module raises an error instead.

Environment variables: FLOODTIDE_MPI_FAMILY (mpich or openmpi) forces the family. FLOODTIDE_LIBMPI names
the library file.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.comm.launching.launchers import Launcher, launcher
from floodtide.errors import InvalidArgumentError, UnsupportedError, on_all_ranks

MpiLibrary = _core.comm.MpiLibrary

__all__ = ["launcher"]

FAMILIES = {"mpich": "MPICH", "openmpi": "Open MPI"}
LIBRARIES = {"mpich": ["libmpi.so.12", "libmpich.so.12"], "openmpi": ["libmpi.so.40"]}


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
        if loaded := _loaded_libraries():
            return loaded
        raise UnsupportedError(
            "mpi: mpi4py uses an MPI library that no plug-in supports "
            f"({first_line(sys.modules['mpi4py.MPI'].Get_library_version())}, standard ABI)"
        )
    beside = [Path(sys.prefix) / "lib" / name for name in LIBRARIES[family]]
    return [str(path) for path in beside if path.exists()] + LIBRARIES[family]


def _loaded_libraries() -> list[str]:
    pattern = re.compile(r"/\S*/libmpi(?:ch)?\.so\S*$")
    maps = Path("/proc/self/maps").read_text()
    return list(dict.fromkeys(m[0] for line in maps.splitlines() if (m := pattern.search(line))))


def load(launched: Launcher | None) -> MpiLibrary:
    """Load and return the MPI library for this process, without starting MPI.

    Raises:
        UnsupportedError: If no MPI library can be loaded, or none of the launcher's family.
        InvalidArgumentError: If FLOODTIDE_MPI_FAMILY is not a family.
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
    """Return the MPI families to try, in this order."""
    chosen = os.environ.get("FLOODTIDE_MPI_FAMILY")
    if chosen is not None and chosen not in FAMILIES:
        raise InvalidArgumentError(
            f"FLOODTIDE_MPI_FAMILY is '{chosen}', expected {' or '.join(FAMILIES)}"
        )
    if (module := sys.modules.get("mpi4py.MPI")) is not None:
        family = "openmpi" if "Open MPI" in module.Get_library_version() else "mpich"
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
    """Return the families whose library is in the environment of this Python, where wheels install it."""
    folder = Path(sys.prefix) / "lib"
    return [
        family
        for family, names in LIBRARIES.items()
        if any((folder / name).exists() for name in names)
    ]


def prepare_for(launched: Launcher | None) -> None:
    """Check that the launcher that MPI needs in order to start may still exist, and hide other launchers from MPI.

    MPICH aborts if it finds PMIx variables in addition to its own: they are removed from this process's environment.

    Raises:
        UnsupportedError: If the channel to the launcher is closed.
    """
    if launched is not None and launched.gone and launched.ranks != 1:
        raise _agreed(f"mpi: {_started(launched)}{launched.gone}: {_left_over(launched)}")
    if launched is not None and launched.live and launched.family == "mpich":
        for name in [name for name in os.environ if name.startswith("PMIX_")]:
            del os.environ[name]


def wrong_size(launched: Launcher, size: int) -> UnsupportedError:
    """Return the error for a job whose number of ranks differs from what its launcher says."""
    return _agreed(
        f"mpi: {_started(launched)}MPI_COMM_WORLD has {size}; "
        f"the variables {', '.join(launched.variables)} belong to another job"
    )


def mismatch(launched: Launcher, family: str) -> UnsupportedError:
    """Return the error for an MPI library that does not support the launcher."""
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
    return on_all_ranks(UnsupportedError(message))  # every process finds the same error


def _started(launched: Launcher | None) -> str:
    if launched is None:
        return ""
    ranks = "" if launched.ranks is None else f" {launched.ranks} ranks"
    return f"{launched.name} started{ranks or ' this process'}, but "


def first_line(text: str) -> str:
    """Return the first line of a text that an MPI library gives, without null characters."""
    return " ".join(text.replace("\0", "").splitlines()[0].split()) if text else ""
