# SPDX-License-Identifier: Apache-2.0
"""What stands between a job and full speed: launcher, library, threads, cores, memory, file system, clocks.

Every rank collects facts about itself (`host`, `files`); all ranks get all facts and draw the same findings from them
(`judge`), which is why the judging is plain functions of dictionaries.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from floodtide.comm import world
from floodtide.config import Config
from floodtide.doctor import files, host, judge
from floodtide.doctor.finding import Finding
from floodtide.errors import UnsupportedError

__all__ = ["Finding", "examine"]


def examine(
    config: Config, directory: Path, *, started_s: float | None = None
) -> tuple[list[Finding], list[dict[str, Any]]]:
    """Findings and every rank's facts, the same on all ranks. Collective when a launcher started this process.

    Takes a second or two, writes and removes a file of 16 MiB in the directory, and starts MPI only with several ranks.

    Args:
        config: What would be trained: its network, walkers, threads.
        directory: Run directory; its nearest existing parent is examined.
        started_s: Seconds from the start of the process until floodtide was imported, if known.
    """
    mpi4py = host.mpi4py_version() if world.rank() == 0 else ""
    facts: dict[str, Any] = {"started_s": started_s, "mpi4py": mpi4py}
    try:
        facts |= host.mpi_facts()
        world.ensure_init()
    except UnsupportedError as error:
        # No communicator, so each process is on its own; rank 0 of the launcher speaks.
        return judge.launch_failed(str(error)), [facts | {"rank": world.rank()}]
    facts |= host.facts(config)
    facts["files"] = files.examine(files.existing(directory))
    facts["clock"] = host.clock_offset()
    everyone = [json.loads(r) for r in world.allgather_bytes(json.dumps(facts).encode())]
    return judge.findings(everyone), everyone
