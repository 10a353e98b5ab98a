# SPDX-License-Identifier: Apache-2.0
"""Train to the end, and go on with the ranks that are left when one is lost (`comm.on_lost_rank = "shrink"`)."""

from __future__ import annotations

from collections.abc import Callable

from floodtide.comm import world
from floodtide.errors import CommunicationError
from floodtide.train.step_loop import StepLoop

Show = Callable[[int, int], None]


def train(
    loop: StepLoop, show: Show, begin_again: Callable[[world.Communicator], StepLoop]
) -> None:
    """Run the steps of a loop that has begun. Collective.

    Args:
        loop: The loop.
        show: Called as show(done, total) after each step.
        begin_again: Returns a loop on the ranks that are left, which has begun from the newest checkpoint.

    Raises:
        CommunicationError: If ranks cannot go on although none is lost.
    """
    comm = loop.comm
    if loop.setup.config.comm.on_lost_rank != "shrink" or comm.size == 1:
        _run(loop, show)
        return
    shrunk = False  # whether `comm` is a new communicator, with which nothing has begun
    while True:
        failure = None
        try:
            if shrunk:
                loop = begin_again(comm)
            _run(loop, show)
        except CommunicationError as error:
            failure = error
        rest = comm.settle(failure is None)
        if rest is None:
            return
        if rest.size == comm.size:
            raise failure or CommunicationError("train: another rank could not go on")
        comm, shrunk = rest, True


def _run(loop: StepLoop, show: Show) -> None:
    for _ in loop.steps(show):
        pass
