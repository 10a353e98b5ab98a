# SPDX-License-Identifier: Apache-2.0
"""Libraries that floodtide needs for some commands only."""

from __future__ import annotations

import importlib
from typing import Any

from floodtide.errors import UnsupportedError


def install(extra: str) -> str:
    """Return the command that installs an extra of floodtide, for messages."""
    return f"in floodtide's source tree: pip install '.[{extra}]'"


def library(name: str, what: str, extra: str) -> Any:
    """Import an optional library.

    Args:
        name: The module.
        what: What needs it, for the message.
        extra: The extra of floodtide that installs it.

    Raises:
        UnsupportedError: If the library is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UnsupportedError(
            f"{what}: needs the Python package {package}, which is not installed; {install(extra)}"
        ) from None
