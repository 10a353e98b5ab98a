# SPDX-License-Identifier: Apache-2.0
"""TensorBoard events, written by the caller's thread.

tensorboardX's SummaryWriter hands them to a thread of its own: if that dies of a full disk, its queue fills and the
training waits for it for ever.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FLUSH_S = 10.0


class EventFile:
    """A file of events in a run directory. All methods raise OSError if it cannot be written.

    Args:
        folder: Where it is made, under a name that TensorBoard looks for.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboardX.event_file_writer import EventsWriter

        self._writer: Any = EventsWriter(str(folder / "events"))
        self._flushed_s = time.monotonic()
        self._begin_s = (
            time.time() - self._flushed_s
        )  # wall time that goes on steadily when the clock is set

    def add(self, scalars: Iterable[tuple[str, float]], step: int) -> None:
        """Append numbers by name. They are on disk after at most ten seconds of further calls, or after close."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        wall_s = self._begin_s + time.monotonic()
        for name, value in scalars:
            self._writer.write_event(
                Event(wall_time=wall_s, step=step, summary=scalar(name, value))
            )
        now = time.monotonic()
        if now - self._flushed_s >= FLUSH_S:
            self._writer.flush()
            self._flushed_s = now

    def close(self) -> None:
        """Bring the file to disk and close it."""
        self._writer.close()
