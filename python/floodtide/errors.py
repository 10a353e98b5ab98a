# SPDX-License-Identifier: Apache-2.0
"""Exceptions of floodtide. `exit_status` is the exit status of the command line: 2 for wrong usage or input, else 1."""

from __future__ import annotations

import typing


class Error(Exception):
    """Base class of the exceptions of floodtide. The message is one line: what is wrong, where, what was expected.

    Attributes:
        exit_status: Exit status of the command line.
        agreed: True if all ranks raise the same failure, so that no rank waits for another.
    """

    exit_status = 1
    agreed = False


_Any = typing.TypeVar("_Any", bound=Error)


def on_all_ranks(error: _Any, *, agreed: bool = True) -> _Any:
    """Return the error, marked as one that all ranks raise alike, unless `agreed` is False."""
    error.agreed = agreed
    return error


class InvalidArgumentError(Error, ValueError):
    """A value that the operation does not accept."""

    exit_status = 2


class ShapeError(InvalidArgumentError):
    """Arrays or volumes whose shapes do not match."""


class OutOfRangeError(Error, IndexError):
    """An index or coordinate that is outside of its array."""

    exit_status = 2


class UnsupportedError(Error):
    """A valid request that this build or machine does not support."""

    exit_status = 2


class InvalidFileError(Error, OSError):
    """An input file that is missing, damaged or of another kind than expected."""

    exit_status = 2


class ConfigurationError(InvalidArgumentError):
    """An unknown key or a wrong value in a configuration."""


class StorageError(Error, OSError):
    """Reading or writing failed although the request was valid (for example: disk full, no permission)."""


class MissingFolderError(StorageError, InvalidArgumentError):
    """The folder of an output does not exist."""

    exit_status = 2


class LockedError(StorageError):
    """Files that another process is writing. The message names that process and since when it writes."""


class NumericalError(Error, ArithmeticError):
    """A loss, gradient or network output that is not finite."""


class CommunicationError(Error):
    """A lost rank or a failed message."""


class RankError(CommunicationError):
    """A failed rank of `floodtide.run`. `rank` is its number; None: several ended without a result."""

    rank: int | None = None


class InUseError(Error):
    """A network that another thread trains or changes, so that this use of the network would give wrong results."""


class InternalError(Error):
    """A mistake in floodtide itself. Please report it."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a training on all ranks, after writing a checkpoint. `Trainer.run` continues from there."""

    exit_status = 130
    agreed = True

    def _render_traceback_(self) -> list[str]:
        """Return what notebooks show: only the message, because a traceback does not help here."""
        return [str(self)]
