# SPDX-License-Identifier: Apache-2.0
"""What a rank asks of all ranks. Requests travel with the gradients, so that all ranks act after the same step."""

from __future__ import annotations

import struct
import time

from floodtide import _core
from floodtide.comm import world
from floodtide.config import RunConfig
from floodtide.train.signals import StopRequest


class Requests:
    """What this rank asks for.

    Attributes:
        signal: The signal that asks for the end.
        stop: True if a script, or the end of hope, asks for the end.
        rate_factor: The factor that a script asks for; None: no change.
    """

    def __init__(self) -> None:
        self.signal = StopRequest()
        self.stop = False
        self.rate_factor: float | None = None
        self._start_s = self._logged_s = self._saved_s = time.monotonic()

    def time_left_s(self, run: RunConfig) -> float | None:
        """Seconds until `run.stop_after_s` ends the job at the latest, by the clock of this rank; None: no limit."""
        if not run.stop_after_s:
            return None
        return max(0.0, run.stop_after_s - (time.monotonic() - self._start_s))

    def restart_clocks(self) -> None:
        """Count the time to the next record and the next checkpoint from now on."""
        self._logged_s = self._saved_s = time.monotonic()

    def saved(self) -> None:
        """Count the time to the next checkpoint from now on."""
        self._saved_s = time.monotonic()

    def logged(self) -> float:
        """Count the time to the next record from now on; return the seconds since the last one."""
        before, self._logged_s = self._logged_s, time.monotonic()
        return self._logged_s - before

    def bits(self, run: RunConfig, *, decides: bool) -> int:
        """Return the requests for the next step.

        Args:
            run: When records and checkpoints are due, and when the job ends.
            decides: True on the rank whose clock decides.
        """
        bits = 0
        if decides:
            now = time.monotonic()
            if now - self._logged_s >= run.log_every_s:
                bits |= _core.REQUEST_LOG
            if now - self._saved_s >= run.checkpoint_every_s:
                bits |= _core.REQUEST_CHECKPOINT
            if run.stop_after_s and now - self._start_s >= run.stop_after_s:
                bits |= _core.REQUEST_STOP
        if self.signal or self.stop:
            bits |= _core.REQUEST_STOP
        if self.rate_factor is not None:
            bits |= _core.REQUEST_RATE
        return bits

    def agreed_rate_factor(self) -> float | None:
        """Return the factor that the lowest rank has asked for, and forget this rank's. Collective.

        None if no rank has asked: ranks that do not wait for each other may have learnt of it twice.
        """
        own = b"" if self.rate_factor is None else struct.pack("d", self.rate_factor)
        self.rate_factor = None
        asked = next(filter(None, world.allgather_bytes(own)), None)
        return None if asked is None else float(struct.unpack("d", asked)[0])

    def signals(self) -> list[str]:
        """Return the name of the signal that each rank has received, or an empty text. Collective."""
        return [name.decode() for name in world.allgather_bytes(self.signal.name.encode())]
