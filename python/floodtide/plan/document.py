# SPDX-License-Identifier: Apache-2.0
"""A plan as a TOML file with the reason of each value, and as lines for the console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tomli_w

MARK = "# Planned by floodtide init"
"""Beginning of the files that `floodtide init` writes, by which it recognises its own."""

_WIDTH = 100  # columns of comments


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A value of a configuration and its reason.

    Attributes:
        section: "model", or "[data.volumes]" for an array of tables.
        key: Key in the section.
        value: Number, text, truth value, or list of numbers.
        reason: Why, in a sentence or two.
    """

    section: str
    key: str
    value: Any
    reason: str


def as_toml(choices: Sequence[Choice], head: Sequence[str]) -> str:
    """Return the configuration as TOML. Each value has its reason above it.

    Args:
        choices: Values, those of a section one after another.
        head: Lines for the beginning of the file.
    """
    lines = [f"{MARK}. The reason of each value stands above it; change what you know better."]
    for text in head:
        lines += _comment(text)
    section = ""
    for choice in choices:
        if choice.section != section:
            section = choice.section
            lines += ["", f"[{section}]"]
        lines += [*_comment(choice.reason), f"{choice.key} = {_value(choice.value)}"]
    return "\n".join(lines) + "\n"


def as_lines(choices: Sequence[Choice]) -> list[str]:
    """Return one line for each choice: key, value and reason."""
    rows = [
        (f"{choice.section.strip('[]')}.{choice.key}", _value(choice.value), choice.reason)
        for choice in choices
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    widths[1] = min(widths[1], 28)
    return [f"{key:{widths[0]}}  {value:{widths[1]}}  {reason}" for key, value, reason in rows]


def _comment(text: str) -> list[str]:
    lines, line = [], "#"
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH and line != "#":
            lines.append(line)
            line = "#"
        line += f" {word}"
    return [*lines, line]


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return tomli_w.dumps({"v": value}).removeprefix("v = ").strip()
