# SPDX-License-Identifier: Apache-2.0
"""Exceptions of floodtide. `exit_status` is what the command line ends with: 2 for wrong usage or input, else 1."""

from __future__ import annotations


class Error(Exception):
    """Base of all that floodtide raises on purpose. The message is one line: what, where, what was expected."""

    exit_status = 1
    agreed = False
    """True for a failure that all ranks raise alike, so that none waits for another."""


class InvalidArgumentError(Error, ValueError):
    """A value outside what the operation accepts."""

    exit_status = 2


class ShapeError(InvalidArgumentError):
    """Arrays or volumes whose sizes do not fit each other."""


class OutOfRangeError(Error, IndexError):
    """An index or coordinate outside its array."""

    exit_status = 2


class UnsupportedError(Error):
    """A valid request that this build or machine cannot serve."""

    exit_status = 2


class LauncherError(UnsupportedError):
    """Variables of several launchers, and nothing that tells which one started this process."""

    rank = 0
    """What this process's rank may be, so that one of them reports."""


class InvalidFileError(Error, OSError):
    """An input file that is missing, truncated or not what its name promises."""

    exit_status = 2


class ConfigurationError(InvalidArgumentError):
    """An unknown key or a wrong value in a configuration."""


class StorageError(Error, OSError):
    """Reading or writing failed although the request was right (disk full, permissions)."""


class LockedError(StorageError):
    """Files that another process is writing. The message says who, and since when."""


class NumericalError(Error, ArithmeticError):
    """A loss or gradient that is not finite."""


class GradientError(NumericalError):
    """An average of gradients that is not the gradient of all samples, or a gradient that is none."""


class CommunicationError(Error):
    """A lost rank or a failed message."""


class RankError(CommunicationError):
    """A rank that `floodtide.run` started has failed; `rank` is its number."""

    rank = -1


class InternalError(Error):
    """A broken invariant of floodtide's own: please report it."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C has ended a training in order: on all ranks alike, with a checkpoint. `Trainer.run` goes on from there."""

    exit_status = 130
    agreed = True

    def _render_traceback_(self) -> list[str]:
        """Have notebooks show the message alone: nothing went wrong where the training happened to be."""
        return [str(self)]
