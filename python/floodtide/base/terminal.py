# SPDX-License-Identifier: Apache-2.0
"""The terminal on which a job shows its progress.

A launcher such as mpiexec gives ranks a pipe as standard error and copies the pipe to its own standard error. The
launcher is an ancestor of the ranks of its host, so Linux tells whether its standard error is a terminal.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_LAUNCHERS = ("mpiexec", "mpirun", "orterun", "prterun")  # names begin so: mpiexec.hydra
_MOST_ANCESTORS = 12
_USUAL = 80  # columns of a terminal that does not tell its width
_TERMINALS = (4, *range(136, 144))  # major device numbers of Linux: consoles and pseudo-terminals


def columns() -> int | None:
    """Return the width of the terminal to which standard error goes, directly or through a launcher of this host.

    Returns:
        The number of columns; None if standard error is a file, or a pipe to anything else.
    """
    try:
        if sys.stderr.isatty():
            return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL
    except (OSError, ValueError):  # closed, or no file
        return None
    path = _launchers_terminal()
    if path is None:
        return None
    try:
        terminal = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.get_terminal_size(terminal).columns or _USUAL
    except OSError:
        return None
    finally:
        os.close(terminal)


def _launchers_terminal() -> str | None:
    """Return the standard error of the launcher that is an ancestor of this process, if that is a terminal."""
    process = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        try:
            # The name stands in brackets and may hold any character. The parent is the second word after it.
            name, _, rest = (
                Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")
            )
            if name.partition("(")[2].startswith(_LAUNCHERS):
                path = f"/proc/{process}/fd/2"
                status = os.stat(path)
                if not stat.S_ISCHR(status.st_mode) or os.major(status.st_rdev) not in _TERMINALS:
                    return None
                return path
            process = int(rest.split()[1])
        except (OSError, ValueError, IndexError):
            return None
        if process <= 1:
            return None
    return None
