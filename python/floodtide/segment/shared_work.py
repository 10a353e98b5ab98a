# SPDX-License-Identifier: Apache-2.0
"""Pieces of work that processes share through files: whoever has the lock of a piece's output does it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from floodtide.base.locks import Lock, take
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.errors import LockedError

_FIRST_LOOK_S, _LAST_LOOK_S = 1.0, 10.0  # between two looks at what others have stored
_RETRY_S = 60.0  # until a waiting process looks whether the owner of a missing piece is gone


def lock_directory(command: str, directory: str | os.PathLike[str]) -> Lock:
    """Take the lock of a directory for a job. Not collective: the job's rank 0 takes it.

    Raises:
        LockedError: If another job has it.
        StorageError: If the directory is missing or write-protected.
    """
    what = f"{command}: the directory {os.fspath(directory)}"
    return take(Path(directory) / f"{command}.lock", what, "wait until it has ended")


def work_in_turn(numbers: Iterable[int], work: Callable[[int], bool]) -> int:
    """Do pieces of work that no other process does. Not collective.

    Args:
        numbers: The pieces, in the order in which to try them.
        work: Does a piece, and returns False if it was done before. Raises LockedError while another process does it.

    Returns:
        The number of pieces that this call has done.
    """
    count = 0
    for number in numbers:
        with contextlib.suppress(LockedError):
            count += work(number)
    return count


def work_on_ranks(numbers: range, done: Callable[[int], bool], work: Callable[[int], bool]) -> int:
    """Do pieces of work on all ranks, until all are done. A rank that is done takes the next piece. Collective.

    Args:
        numbers: The pieces.
        done: Returns True if a piece is done.
        work: As for `work_in_turn`.

    Returns:
        The number of pieces that this call has done, over all ranks.
    """
    # Ranks begin at different places, so that they seldom ask for the same piece.
    first = len(numbers) * world.rank() // world.size()
    order = [*numbers[first:], *numbers[:first]]
    count = 0
    while order:
        count += work_in_turn(order, work)
        order = _wait(order, done)
    return sum(allgather_object(count))


def _wait(numbers: Sequence[int], done: Callable[[int], bool]) -> list[int]:
    """Wait while other processes do some pieces. Return the pieces that are still missing after a while.

    Ranks wait here, not in a collective: the time limit of `floodtide.init` does not count.
    """
    started_s, pause_s = time.monotonic(), _FIRST_LOOK_S
    while True:
        numbers = [number for number in numbers if not done(number)]
        if not numbers or time.monotonic() - started_s > _RETRY_S:
            return list(numbers)
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LAST_LOOK_S)
