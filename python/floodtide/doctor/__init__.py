# SPDX-License-Identifier: Apache-2.0
"""Examination of a job before it starts: launcher, MPI library, threads, cores, memory, and the run directory.

Every rank collects facts about itself (`host`). Then all ranks receive the facts of all ranks and derive the
same findings (`judge`). Therefore `judge` consists of pure functions of dictionaries.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from floodtide.comm import world
from floodtide.config import Config
from floodtide.doctor import host, judge
from floodtide.doctor.judge import Diagnosis
from floodtide.errors import UnsupportedError


def examine(config: Config, directory: Path) -> tuple[list[Diagnosis], list[dict[str, Any]]]:
    """Return findings and the facts of every rank, equal on all ranks. Collective if a launcher started this process.

    The examination takes about a second. It starts MPI only if there are several ranks.

    Args:
        directory: Run directory. If it does not exist, the nearest existing parent is examined.
    """
    facts: dict[str, Any] = {}
    try:
        facts = host.mpi_facts()
        world.ensure_init()
    except UnsupportedError as error:
        # Without a communicator, processes cannot exchange facts. The launcher's rank 0 reports.
        return judge.launch_failed(str(error)), [facts | {"rank": world.rank()}]
    facts |= host.facts(config)
    facts["files"] = host.directory_facts(directory)
    everyone = [json.loads(r) for r in world.allgather_bytes(json.dumps(facts).encode())]
    return judge.findings(everyone), everyone
