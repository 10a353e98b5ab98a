# SPDX-License-Identifier: Apache-2.0
"""What all reports share: rendering a page, and writing it with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from floodtide.base.files import replace_bytes
from floodtide.base.outputs import PICTURES, reserved, starts_like
from floodtide.errors import StorageError
from floodtide.report import growth, planes
from floodtide.train.recorded_run import Run

_REPORT = starts_like(
    "a report of floodtide",
    b'<meta name="generator" content="floodtide',
    b"<title>floodtide: ",  # of versions that named no generator
)
_CHECKS = {
    **PICTURES,
    ".csv": starts_like("a table of a floodtide report", b"line,", b"workers,", b"what,"),
}


def render(template: str, **values: Any) -> str:
    """Return a page from a template of `templates`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("floodtide.report"),
        undefined=StrictUndefined,
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def make_folder(folder: Path) -> None:
    """Create the folder of the figures.

    Raises:
        StorageError: If it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"report: cannot write {folder}: {error.strerror}") from error


def write_all(outputs: Mapping[Path, bytes], inputs: Sequence[Path]) -> None:
    """Write all files. If one of them must not be written, write none.

    Raises:
        InvalidArgumentError: If an existing file is not an older report, figure or table.
        StorageError: If a file cannot be written.
    """
    with ExitStack() as held:
        for path in outputs:
            check = _CHECKS.get(path.suffix, _REPORT)
            held.enter_context(reserved("report", path, check, inputs))
        for path, content in outputs.items():
            replace_bytes(path, content)


def reserve(path: Path, inputs: Sequence[Path]) -> AbstractContextManager[None]:
    """Return a context manager that reserves a page, so that a long command notices at its start what prevents it.

    Raises:
        InvalidArgumentError: If the file exists and is no older report, or is an input.
        StorageError: If its folder is missing or write-protected.
    """
    return reserved("report", path, _REPORT, inputs)


def inputs(run: Run) -> list[Path]:
    """Return the files of a run directory that a report reads."""
    names = ("config.toml", "log.jsonl", "scores.json", planes.FILE, growth.FILE)
    patterns = ("failure-rank-*.json", "checkpoints/*.h5")
    found = [run.folder / name for name in names]
    return found + [path for pattern in patterns for path in run.folder.glob(pattern)]
