# SPDX-License-Identifier: Apache-2.0
"""What one trial is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzz.commands import Command


@dataclass(frozen=True)
class Case:
    """A damaged input and the command that reads it.

    Attributes:
        command: What is run.
        damage: What was damaged, in words.
        strict: Whether the result must be the undamaged one, if there is one.
        outcome_of: Name of the undamaged command to compare with; empty: there is none.
        arguments: Further words of the command line.
    """

    command: Command
    damage: str
    strict: bool
    outcome_of: str
    arguments: tuple[str, ...] = ()


Maker = Callable[[Path, Random], Case]
"""Damages something in a folder that holds the samples."""
