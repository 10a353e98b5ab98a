# SPDX-License-Identifier: Apache-2.0
"""Fields of configuration dataclasses: a default and the help text that the documentation is generated from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

REQUIRED = dataclasses.MISSING


def option(
    default: Any,
    text: str,
    *,
    choices: Sequence[str] = (),
    path: bool = False,
    kinds: Sequence[str] = (),
) -> Any:
    """A configuration field with its help text (and unit).

    Args:
        default: Immutable default, or REQUIRED.
        text: One line of help.
        choices: The only values that are accepted, if there are such.
        path: Whether `~` and `$NAME` are expanded in the value.
        kinds: Kinds of networks (`model.kind`) that it has a meaning for, if not for all.
    """
    metadata = {"help": text, "choices": tuple(choices), "path": path, "kinds": tuple(kinds)}
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
