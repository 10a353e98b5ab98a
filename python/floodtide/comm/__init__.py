# SPDX-License-Identifier: Apache-2.0
"""Ranks: initialisation, collectives, process sets, and ranks started from a notebook.

Importing this package starts nothing. `floodtide` exports the names for scripts. `allreduce_rounds` gives the messages
of an allreduce algorithm, and `delayed` puts ranks behind a slower wire.
"""

from floodtide import _core

MessageRounds = _core.comm.MessageRounds
allreduce_rounds = _core.comm.allreduce_rounds
delayed = _core.comm.delayed

__all__ = ["MessageRounds", "allreduce_rounds", "delayed", "notebook", "world"]
