# SPDX-License-Identifier: Apache-2.0
"""Shares of work for ranks."""

from __future__ import annotations


def share(total: int, rank: int, size: int) -> tuple[int, int]:
    """Return the range [begin, end) of `total` items that a rank works on."""
    return total * rank // size, total * (rank + 1) // size
