# SPDX-License-Identifier: Apache-2.0
"""What all reports share: rendering a page, and writing it with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from floodtide.base import templates
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import PICTURES, reserved, starts_like
from floodtide.train.recorded_run import SEGMENTATION, Run

_REPORT = starts_like("a report of floodtide", b'<meta name="generator" content="floodtide')
_CHECKS = {
    **PICTURES,
    ".csv": starts_like("a table of a floodtide report", b"line,", b"walkers,", b"what,"),
}


def render(template: str, folder: str = "report/templates", **values: Any) -> str:
    """Return a page from a template in a folder of the package, which may use those of this folder."""
    return templates.render(template, folder, "report/templates", html=True, **values)


def write_all(outputs: Mapping[Path, bytes], inputs: Sequence[Path]) -> None:
    """Write all files. If one of them must not be written, write none."""
    with ExitStack() as held:
        for path in outputs:
            check = _CHECKS.get(path.suffix, _REPORT)
            held.enter_context(reserved("report", path, check, inputs))
        for path, content in outputs.items():
            replace_bytes(path, content)


def reserve(path: Path, inputs: Sequence[Path]) -> AbstractContextManager[None]:
    """Return a context manager that reserves a page, so that a long command notices at its start what prevents it."""
    return reserved("report", path, _REPORT, inputs)


def inputs(run: Run) -> list[Path]:
    """Return the files of a run directory that a report reads."""
    names = ("config.toml", "log.jsonl", SEGMENTATION)
    patterns = ("failure-rank-*.json", "checkpoints/*.h5")
    found = [run.folder / name for name in names]
    return found + [path for pattern in patterns for path in run.folder.glob(pattern)]
