# SPDX-License-Identifier: Apache-2.0
"""Locks of threads that a child of fork() finds open."""

from __future__ import annotations

import os
import threading
import weakref


class Gate:
    """A lock for `with` blocks. In a child process it is open, although a thread of the parent may be in its block.

    The child has only the thread that called fork(), so nobody would open the gate.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _gates.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_gates: weakref.WeakSet[Gate] = weakref.WeakSet()


def _after_fork() -> None:
    for gate in _gates:
        gate._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
