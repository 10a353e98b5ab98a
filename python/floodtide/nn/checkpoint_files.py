# SPDX-License-Identifier: Apache-2.0
"""Paths of the checkpoints in a run directory."""

from __future__ import annotations

import re
from pathlib import Path

from floodtide.base import reading

CHECKPOINT = re.compile(r"step-(\d+)\.h5")


def checkpoint_path(run: Path, step: int) -> Path:
    """Return the path of the checkpoint that is written after `step` training steps."""
    return run / "checkpoints" / f"step-{step}.h5"


def checkpoints(run: Path) -> list[Path]:
    """Return all checkpoints of a run directory, oldest first. Raise InvalidFileError if the folder cannot be read."""
    with reading.reading(run, "a run directory"):
        paths = (run / "checkpoints").glob("step-*.h5")
        found = [(int(step[1]), p) for p in paths if (step := CHECKPOINT.fullmatch(p.name))]
    return [path for _, path in sorted(found)]
