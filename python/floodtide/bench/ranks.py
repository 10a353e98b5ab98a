# SPDX-License-Identifier: Apache-2.0
"""Start the ranks of a benchmark that runs on several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from floodtide.errors import InvalidArgumentError, UnsupportedError, on_all_ranks


def start_ranks(name: str, ranks: int) -> None:
    """Join the ranks if mpiexec started this process; else run this command under mpiexec and exit with its status.

    Args:
        name: The command, for messages: "bench scaling".
    """
    from floodtide.comm import notebook, world
    from floodtide.comm.launching import libraries

    if libraries.launcher() is not None:
        world.ensure_init()
        return
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        raise UnsupportedError(
            f"{name}: there is no mpiexec in the folder of {sys.executable}; "
            f"start the benchmark with another one: mpiexec -n {ranks} floodtide {name}"
        )
    command = [str(mpiexec), "-n", str(ranks), sys.executable, "-m", "floodtide", *sys.argv[1:]]
    sys.exit(subprocess.run(command, check=False, env=notebook.environment(ranks)).returncode)


def require_several_ranks(name: str) -> None:
    """Raise InvalidArgumentError on all ranks if there is only one rank. Collective."""
    from floodtide.comm import world

    world.ensure_init()
    if world.size() == 1:
        raise on_all_ranks(
            InvalidArgumentError(f"{name}: 1 rank, expected at least 2: start it with mpiexec -n 2")
        )
