# SPDX-License-Identifier: Apache-2.0
"""What a user should know although nothing is wrong: one line on standard error, from rank 0, once a process."""

from __future__ import annotations

import sys

from floodtide import _comm

_shown: set[str] = set()


def show(text: str) -> None:
    """Print `floodtide: note: <text>`, unless this process has printed it before."""
    if text in _shown or _comm.rank() != 0:
        return
    _shown.add(text)
    print(f"floodtide: note: {text}", file=sys.stderr, flush=True)


def unprotected(checkpoint: str) -> None:
    """Say that damage to a checkpoint without checksums goes unnoticed."""
    show(
        f"{checkpoint} is of an older floodtide and has no checksums: damage to it goes unnoticed; "
        "floodtide convert writes a network with checksums"
    )
