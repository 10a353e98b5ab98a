# SPDX-License-Identifier: Apache-2.0
"""What callbacks and loops of a script may do with a training that runs."""

from __future__ import annotations

from typing import Any

from floodtide.base import limits
from floodtide.train.comm_hook import CommHook, adapted
from floodtide.train.loop.log_records import own_record
from floodtide.train.loop.step_loop import StepLoop
from floodtide.train.signals import Requests
from floodtide.train.task import Record


class Steering:
    """The methods of a `Trainer` that change a training while it runs."""

    __slots__ = ("_loop", "_requests")
    _loop: StepLoop
    _requests: Requests

    def stop(self) -> None:
        """Ask all ranks to end the training after the next step, with a checkpoint. For callbacks and loops.

        Any rank may call it. `complete` stays false, and a later trainer of the same run directory goes on.
        """
        self._requests.stop = True

    def scale_lr(self, factor: float) -> None:
        """Ask all ranks to multiply the schedule's rate by `factor` after the next step. For callbacks and loops.

        The factor replaces the factor before. It is 1 at the start, and checkpoints keep it. Any rank may call this. If
        several ranks call this before the same step, the factor of the lowest rank holds.

        Raises:
            InvalidArgumentError: If the factor is not above 0 and at most 1e6.
        """
        limits.RATE_FACTOR.check(factor, "scale_lr: factor")
        self._requests.rate_factor = float(factor)

    @property
    def lr_factor(self) -> float:
        """Factor that multiplies the schedule's rate; see `scale_lr`."""
        return self._loop.core.rate_factor

    def add_record(self, kind: str, values: Record) -> None:
        """Add a record of your own to log.jsonl and the TensorBoard events, with the step and the time.

        Ranks other than 0 do nothing. The trainer does not pass the record to callbacks, so callbacks may call this.

        Args:
            kind: Name of the kind of record. The names of its TensorBoard events begin with it.
            values: Values that JSON can hold, by name.

        Raises:
            InvalidArgumentError: For a kind that the trainer writes itself, or names that every record has.
        """
        self._loop.directory.record(own_record(kind, self._loop.steps_done, values))

    def register_comm_hook(self, state: Any, hook: CommHook | None) -> None:
        """Replace the allreduce of gradients by your own function. Call this on all ranks before `run`.

        Args:
            state: First argument of the hook.
            hook: Called as hook(state, bucket) on every rank for the same buckets in the same order, as soon as
                their gradients are computed. It must leave the sum over ranks in `bucket.buffer`. It may call
                `floodtide.allreduce` and other collectives. None: use the allreduce again.

        Raises:
            UnsupportedError: With `comm.exactness = "workers"`, which sums no buckets.
        """
        names = list(self._loop.setup.parts.model.state_dict())
        self._loop.core.set_bucket_hook(None if hook is None else adapted(hook, state, names))

    def take_metrics(self) -> dict[str, float]:
        """Return counts and sums over ranks since the last call or the last record of the log. Collective.

        The names are those of floodtide::train::Metrics.
        """
        return self._loop.core.take_metrics()
