# SPDX-License-Identifier: Apache-2.0
"""Examination of a job before it starts: launcher, MPI library, threads, cores, memory, file system and clocks.

Every rank collects facts about itself (`host`, `files`). Then all ranks receive the facts of all ranks and derive the
same findings (`judge`). Therefore `judge` consists of pure functions of dictionaries.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from floodtide.comm import world
from floodtide.config import Config
from floodtide.doctor import files, host, judge
from floodtide.doctor.judge import Diagnosis
from floodtide.errors import UnsupportedError


def examine(
    config: Config, directory: Path, *, started_s: float | None = None
) -> tuple[list[Diagnosis], list[dict[str, Any]]]:
    """Return findings and the facts of every rank, equal on all ranks. Collective if a launcher started this process.

    The examination takes one or two seconds. It writes a file of 16 MiB to the directory and removes it. It starts MPI
    only if there are several ranks.

    Args:
        config: Configuration of the planned training.
        directory: Run directory. If it does not exist, the nearest existing parent is examined.
        started_s: Seconds from the start of the process until floodtide was imported; None if unknown.
    """
    mpi4py = host.mpi4py_version() if world.rank() == 0 else ""
    facts: dict[str, Any] = {"started_s": started_s, "mpi4py": mpi4py}
    try:
        facts |= host.mpi_facts()
        world.ensure_init()
    except UnsupportedError as error:
        # Without a communicator, processes cannot exchange facts. The launcher's rank 0 reports.
        return judge.launch_failed(str(error)), [facts | {"rank": world.rank()}]
    facts |= host.facts(config)
    facts["files"] = files.examine(files.existing(directory))
    facts["clock"] = host.clock_offset()
    everyone = [json.loads(r) for r in world.allgather_bytes(json.dumps(facts).encode())]
    return judge.findings(everyone), everyone
