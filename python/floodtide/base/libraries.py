# SPDX-License-Identifier: Apache-2.0
"""Libraries that floodtide needs for some commands only."""

from __future__ import annotations

import importlib
import os
from typing import Any

from floodtide.errors import UnsupportedError


def install(extra: str) -> str:
    """Return the command that installs an extra of floodtide, for messages."""
    return f"in floodtide's source tree: pip install '.[{extra}]'"


def library(name: str, what: str, extra: str) -> Any:
    """Import an optional library.

    Args:
        what: What needs it, for the message.
        extra: The extra of floodtide that installs it.

    Raises:
        UnsupportedError: If the library is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name in (name, package):
            problem = f"which is not installed; {install(extra)}"
        else:
            problem = f"which cannot be imported: {error}"
        raise UnsupportedError(f"{what}: needs the Python package {package}, {problem}") from None


_tensorstore_process: int | None = None  # that has started tensorstore's threads


def tensorstore_library(what: str) -> Any:
    """Import tensorstore for use in this process.

    Raises:
        UnsupportedError: If it is not installed, or in a child of fork() whose parent has used it: tensorstore would
            end such a child.
    """
    global _tensorstore_process
    found = library("tensorstore", what, "formats")
    _tensorstore_process = _tensorstore_process or os.getpid()
    if _tensorstore_process != os.getpid():
        raise UnsupportedError(
            f"{what}: tensorstore cannot be used in a child of fork() whose parent has used it; expected processes that"
            " start by 'spawn' or 'forkserver', or a parent that opens no volume in a folder before it forks"
        )
    return found
