# SPDX-License-Identifier: Apache-2.0
"""The step loop of a job, and its successors on the ranks that are left (`comm.on_lost_rank = "shrink"`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from floodtide.comm import world
from floodtide.errors import CommunicationError, StorageError
from floodtide.train.comm_hook import CoreHook
from floodtide.train.kinds.kind import Setup
from floodtide.train.loop.step_loop import StepLoop
from floodtide.train.signals import Requests
from floodtide.train.task import Record


class Recovery:
    """Begins the step loop of a job, and begins it again on the ranks that are left when one is lost. Collective.

    Args:
        setup: What the job trains.
        requests: What this rank asks of all ranks.
        on_record: Called on rank 0 with each record of the log.

    Attributes:
        loop: The step loop, which has begun.
    """

    def __init__(
        self, setup: Setup, requests: Requests, on_record: Callable[[Record], None]
    ) -> None:
        comm = world.current()
        self._shrinks = setup.config.comm.on_lost_rank == "shrink" and comm.size > 1
        self._start_state = setup.parts.model.state_dict() if self._shrinks else {}
        self._hook: CoreHook | None = None
        job = str(world.broadcast_object(os.urandom(8).hex()))

        def new_loop(comm: world.Communicator) -> StepLoop:
            return StepLoop(setup, comm, job, requests, on_record)

        self._new_loop = new_loop
        self.loop = new_loop(comm)
        self.loop.begin(None)

    def use_hook(self, hook: CoreHook | None) -> None:
        """Use a function instead of the allreduce of gradients, also in later loops; None: the allreduce."""
        self.loop.core.set_bucket_hook(hook)
        self._hook = hook

    def run(self, show: Callable[[int, int], None]) -> None:
        """Run the steps of the loop. If ranks are lost and the job shrinks, go on with the others. Collective.

        Args:
            show: Called as show(done, total) after each step.

        Raises:
            CommunicationError: If ranks cannot go on although none is lost.
        """
        comm = self.loop.comm
        if not self._shrinks or comm.size == 1:
            _run(self.loop, show)
            return
        shrunk = False  # whether `comm` is a new communicator, with which nothing has begun
        while True:
            failure = None
            try:
                if shrunk:
                    self._begin_again(comm)
                    self.loop.validate_after_a_kill()
                _run(self.loop, show)
            except CommunicationError as error:
                failure = error
            rest = comm.settle(failure is None)
            if rest is None:
                return
            if rest.size == comm.size:
                raise failure or CommunicationError("train: another rank could not go on")
            comm, shrunk = rest, True

    def _begin_again(self, comm: world.Communicator) -> None:
        """Begin a loop on the ranks that are left, from the newest checkpoint. Collective."""
        self.loop.end()
        world.replace(comm)
        with contextlib.suppress(StorageError):  # what is lost here is written again
            self.loop.directory.close()
        # if there is no checkpoint yet
        self.loop.setup.parts.model.load_state_dict(self._start_state)
        self.loop = self._new_loop(comm)
        self.loop.begin(self._hook)


def _run(loop: StepLoop, show: Callable[[int, int], None]) -> None:
    for _ in loop.steps(show):
        pass
