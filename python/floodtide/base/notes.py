# SPDX-License-Identifier: Apache-2.0
"""What a user should know although nothing is wrong: one line on standard error, from rank 0, once a process.

This room knows no ranks: `floodtide` tells it at its import how to ask whether this process is rank 0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

_shown: set[str] = set()


def _always() -> bool:
    return True


_speaks: Callable[[], bool] = _always


def speak_if(speaks: Callable[[], bool]) -> None:
    """Have notes and progress appear only while `speaks()` is true: on rank 0."""
    global _speaks
    _speaks = speaks


def speaks() -> bool:
    """Whether this process tells its user things: the other ranks of its job are silent."""
    return _speaks()


def show(text: str) -> None:
    """Print `floodtide: note: <text>`, unless this process has printed it before."""
    if text in _shown or not speaks():
        return
    _shown.add(text)
    print(f"floodtide: note: {text}", file=sys.stderr, flush=True)


def unprotected(checkpoint: str) -> None:
    """Say that damage to a checkpoint without checksums goes unnoticed."""
    show(
        f"{checkpoint} is of an older floodtide and has no checksums: damage to it goes unnoticed; "
        "floodtide convert writes a network with checksums"
    )
