# SPDX-License-Identifier: Apache-2.0
"""Progress display of long work on rank 0: a bar on a terminal, else plain lines. Other ranks print nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from floodtide.base import notes


class Progress:
    """A progress display: a context manager, and a progress callback that is called as progress(done, total)."""

    def __init__(
        self,
        unit: str,
        description: str,
        *,
        line_every_s: float = 30.0,
        note: Callable[[], str] | None = None,
    ) -> None:
        self._unit = unit
        self._description = description
        self._line_every_s = line_every_s
        self._note = note
        self._line_s = time.monotonic()
        self._first: tuple[int, float] | None = None  # work done and time at the first call
        self._bar: Any = None
        self._shown = notes.speaks()
        self._terminal = self._shown and sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._first is None:
            self._first = done, time.monotonic()
        if self._terminal:
            if self._bar is None:
                from tqdm import tqdm

                self._bar = tqdm(
                    total=total,
                    initial=done,  # work of an earlier call says nothing about the speed of this one
                    unit=f" {self._unit}",
                    desc=self._description,
                    leave=False,
                    file=sys.stderr,
                )
            self._bar.total = total
            if self._note is not None:
                self._bar.set_postfix_str(self._note(), refresh=False)
            self._bar.update(done - self._bar.n)
        elif self._shown and time.monotonic() - self._line_s >= self._line_every_s:
            self._line_s = time.monotonic()
            before, start_s = self._first
            rest_s = (self._line_s - start_s) / max(1, done - before) * (total - done)
            left = f", about {rest_s:.0f} s left" if done > before else ""
            note = "" if self._note is None else f", {self._note()}"
            print(
                f"{self._description}: {done} of {total} {self._unit}{note}{left}",
                file=sys.stderr,
                flush=True,
            )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def bar(
    unit: str,
    description: str,
    *,
    line_every_s: float = 30.0,
    note: Callable[[], str] | None = None,
) -> Progress:
    """Return a progress display: `with bar("voxels", "segment") as progress: work(progress=progress)`.

    Args:
        unit: What is counted.
        description: What is done.
        line_every_s: Seconds between two lines, where there is no terminal.
        note: Returns what to show beside the work done.
    """
    return Progress(unit, description, line_every_s=line_every_s, note=note)
