# SPDX-License-Identifier: Apache-2.0
"""Files that `floodtide lab simulate` reads: a run directory with round figures, and measured allreduces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG = """
[model]
depth = 9
features = 32
[training]
accumulate = 1
[comm]
bucket_mib = 0.5
"""


def write_run(folder: Path, **changes: Any) -> Path:
    """A run of 2 ranks with 2 walkers each: a rank's field of view takes 0.25 s, patches last 5."""
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG)
    start = {"kind": "start", "step": 0, "ranks": 2, "walkers": 4, "threads": 1}
    records = [start]
    for step in (5, 15, 25):
        record = {"kind": "train", "step": step, "time_s": float(step), "fovs": 40, "examples": 8}
        record |= {"fovs_per_s": 6.4, "compute_s": 5.0, "wait_data_s": 0.4, "wait_comm_s": 0.6}
        records.append(record | {"update_s": 0.1} | changes)
    records[1]["compute_s"] = 99.0  # the first record holds the start and is left out
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def measured_file(path: Path) -> Path:
    rows = [
        {
            "name": "allreduce ring",
            "kernel": "ring",
            "ranks": r,
            "shape": f"{n} float32",
            "median_s": s,
        }
        for r, n, s in [(2, 100, 1.0), (2, 200, 2.0), (8, 100, 3.0), (8, 200, 6.0)]
    ]
    rows.append({"name": "conv forward", "median_s": 1.0})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
