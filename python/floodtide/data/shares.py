# SPDX-License-Identifier: Apache-2.0
"""How work is shared among ranks."""

from __future__ import annotations


def share(total: int, rank: int, size: int) -> tuple[int, int]:
    """The part [begin, end) of `total` things that belongs to a rank."""
    return total * rank // size, total * (rank + 1) // size
