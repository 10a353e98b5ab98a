# SPDX-License-Identifier: Apache-2.0
"""Memory and file handles of processes over time, and whether they grow: a slope with its confidence interval."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

BLOCKS = 20  # means of consecutive samples that the line is fitted to
STUDENT_T = 2.101  # 97.5 % quantile with BLOCKS - 2 degrees of freedom


class Usage(NamedTuple):
    """What a process holds at one moment.

    Attributes:
        rss: Resident memory in MiB, shared pages included.
        own: What of it belongs to no file, in MiB: heaps and stacks.
        handles: Open file descriptors.
        threads: Threads.
    """

    rss: float
    own: float
    handles: float
    threads: float


class Slope(NamedTuple):
    """Growth per hour and the ends of its 95 % confidence interval."""

    per_hour: float
    low: float
    high: float


def usage(pid: int) -> Usage | None:
    """Return what a process holds now, None if the process has ended."""
    folder = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError, KeyError):
        lines = (folder / "smaps_rollup").read_text().splitlines()[1:]
        memory = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
        status = (folder / "status").read_text().splitlines()
        threads = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
        handles = len(list((folder / "fd").iterdir()))
        return Usage(memory["Rss"], memory["Anonymous"], handles, threads)
    return None


def slope(times_s: Sequence[float], values: Sequence[float]) -> Slope:
    """Fit a line by least squares to the means of BLOCKS blocks of samples.

    Neighbouring blocks resemble each other (an allocator grows in steps), so the interval is that of as many
    independent blocks as the residuals' correlation leaves.

    Args:
        times_s: Times of the samples in seconds, increasing.
        values: The samples.

    Raises:
        ValueError: For fewer than two samples a block.
    """
    if len(times_s) < 2 * BLOCKS:
        raise ValueError(f"{len(times_s)} samples, expected at least {2 * BLOCKS}")
    hours = np.array([np.mean(part) / 3600 for part in np.array_split(times_s, BLOCKS)])
    means = np.array([np.mean(part) for part in np.array_split(values, BLOCKS)])
    hours -= hours.mean()
    spread = np.sum(hours**2)
    per_hour = float(np.sum(hours * means) / spread)
    residuals = means - means.mean() - per_hour * hours
    variance = float(np.sum(residuals**2))
    if variance == 0:
        return Slope(per_hour, per_hour, per_hour)
    correlation = float(np.sum(residuals[1:] * residuals[:-1]) / variance)
    inflation = (1 + max(correlation, 0)) / (1 - min(correlation, 0.9))
    error = np.sqrt(variance / (BLOCKS - 2) / spread * max(inflation, 1))
    half = STUDENT_T * float(error)
    return Slope(per_hour, per_hour - half, per_hour + half)


def verdict(fitted: Slope, bound_per_hour: float) -> str:
    """Say whether a slope lies within a bound: "no growth", "GROWS", or "undecided" if the interval holds the bound."""
    if fitted.high <= bound_per_hour:
        return "no growth"
    return "GROWS" if fitted.low > bound_per_hour else "undecided"
