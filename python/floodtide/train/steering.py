# SPDX-License-Identifier: Apache-2.0
"""What callbacks and loops of a script may do with a training that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.errors import InvalidArgumentError
from floodtide.train.learners.learner import Record
from floodtide.train.signals import Requests
from floodtide.train.step_loop import KINDS, StepLoop


@dataclass(frozen=True, kw_only=True)
class GradBucket:
    """A bucket: neighbouring gradients that are summed over the ranks in one allreduce.

    Attributes:
        index: Index of the bucket in the step, from 0, in the order in which the buckets are sent.
        buffer: The gradients, float32 (n,). The hook changes them in place. The array shows the trainer's memory, which
            the next step overwrites: a hook that keeps gradients keeps a copy of the array.
        parameters: Names of the parameters in the bucket, in the order of the buffer. The last bucket also holds the
            requests of the ranks, such as "save a checkpoint", under the name "flags".
        is_last: True for the last bucket of the step.
    """

    index: int
    buffer: NDArray[np.float32]
    parameters: tuple[str, ...]
    is_last: bool


CommHook = Callable[[Any, GradBucket], None]


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
        if kind in KINDS or not kind:
            raise InvalidArgumentError(
                f"add_record: kind is '{kind}', expected a name other than {', '.join(KINDS)}"
            )
        if taken := sorted({"kind", "step", "time_s"} & values.keys()):
            raise InvalidArgumentError(
                f"add_record: '{taken[0]}' is part of every record, expected another name"
            )
        self._loop.directory.record({"kind": kind, "step": self._loop.steps_done, **values})

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
        names = ["flags", *self._loop.setup.model.state_dict()]

        def call(index: int, buffer: Any, parts: Sequence[int], is_last: bool) -> None:
            assert hook is not None
            parameters = tuple(names[part] for part in parts)
            hook(
                state,
                GradBucket(index=index, buffer=buffer, parameters=parameters, is_last=is_last),
            )

        self._loop.core.set_bucket_hook(None if hook is None else call)

    def take_metrics(self) -> dict[str, float]:
        """Return counts and sums over ranks since the last call or the last record of the log. Collective.

        The names are those of floodtide::train::Metrics.
        """
        return self._loop.core.take_metrics()
