# SPDX-License-Identifier: Apache-2.0
"""Progress display of long work on rank 0: a bar on a terminal, else plain lines. Other ranks print nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from floodtide.base import notes


@dataclass(eq=False)
class bar:
    """A progress display: `with bar("voxels", "segment") as progress: work(progress=progress)`.

    It is called as progress(done, total).

    Args:
        unit: What is counted.
        description: What is done.
        line_every_s: Seconds between two lines, where there is no terminal.
        at_most_s: Returns the seconds after which the work ends in any case; None: no limit.
        fitted_s: Returns the seconds that are left if the work is fitted to them, whatever its speed was; None: it is
            not.
    """

    unit: str
    description: str
    line_every_s: float = 30.0
    at_most_s: Callable[[], float | None] = lambda: None
    fitted_s: Callable[[], float | None] = lambda: None

    def __post_init__(self) -> None:
        self._line_s = time.monotonic()
        self._first: tuple[int, float] | None = None  # work done and time at the first call
        self._bar: Any = None
        self._shown = notes.speaks()
        # tqdm's rule, too; a launcher gives ranks a pipe
        self._draws = self._shown and not sys.stderr.closed and sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._first is None:
            self._first = done, time.monotonic()
        if self._draws:
            self._draw(done, total)
        elif self._shown and time.monotonic() - self._line_s >= self.line_every_s:
            self._line_s = time.monotonic()
            left = self._left(done, total)
            shown = f"{self.description}: {done} of {total} {self.unit}"
            notes.line(f"{shown}, {left}" if left else shown)

    def _draw(self, done: int, total: int) -> None:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(
                total=total,
                initial=done,  # work of an earlier call says nothing about the speed of this one
                unit=f" {self.unit}",
                desc=self.description,
                leave=False,
                file=sys.stderr,
                dynamic_ncols=True,
                bar_format="{desc}: {percentage:3.0f}%|{bar}| {n}/{total}{unit}{postfix}",
            )
        self._bar.total = total
        self._bar.set_postfix_str(self._left(done, total), refresh=False)
        self._bar.update(done - self._bar.n)

    def _left(self, done: int, total: int) -> str:
        """Return a text with the time that is left; empty if it is unknown."""
        left_s = self._left_s(done, total)
        return "" if left_s is None else f"about {duration(left_s)} left"

    def _left_s(self, done: int, total: int) -> float | None:
        """Return the seconds until the work is done or its time is over; None if neither is known."""
        assert self._first is not None
        fitted_s = self.fitted_s()
        if fitted_s is not None and done < total:
            return fitted_s
        before, start_s = self._first
        limit_s = self.at_most_s()
        if done <= before:
            return limit_s
        rest_s = (time.monotonic() - start_s) / (done - before) * (total - done)
        return rest_s if limit_s is None else min(rest_s, limit_s)

    def __enter__(self) -> bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def duration(seconds: float) -> str:
    """Return a duration for people, in its two largest units: "40 s", "12 min", "3 h 05 min"."""
    whole = max(0, round(seconds))
    if whole <= 180:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"
