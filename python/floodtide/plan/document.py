# SPDX-License-Identifier: Apache-2.0
"""The text of a plan: a TOML file with the reason of each value, from the templates in `plan/templates`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import tomli_w

from floodtide.base.templates import render
from floodtide.data.boxes import Box, box_text
from floodtide.data.formats.geometry import size_text

MARK = "# Planned by floodtide init"
"""Beginning of the files that `floodtide init` writes, by which it recognises its own."""

_WIDTH = 100  # columns of comments


def sections(task: str, **facts: Any) -> str:
    """Return the sections of a plan as TOML. Each value has its reason above it.

    Args:
        task: Name of the task.
        facts: What the template shows, by name.
    """
    text = render(
        "flood.toml" if task == "flood" else "unet.toml",
        "plan/templates",
        filters={
            "toml": _value,
            "box": box_text,
            "boxes": _boxes,
            "size": size_text,
            "line": _line,
        },
        **facts,
    )
    lines = text.strip("\n").split("\n")
    return "".join(comment(one) if one.startswith("#") else f"{one}\n" for one in lines)


def comment(text: str) -> str:
    """Return a text, with or without a # before it, as lines of a comment."""
    words = _line(text.removeprefix("#"))
    return (
        textwrap.fill(
            words,
            _WIDTH,
            initial_indent="# ",
            subsequent_indent="# ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


def _line(text: str) -> str:
    """Return a text without line breaks, which would end a comment."""
    return " ".join(text.split())


def _boxes(boxes: Sequence[Box]) -> str:
    return "; ".join(map(box_text, boxes))


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return tomli_w.dumps({"v": value}).removeprefix("v = ").strip()
