# SPDX-License-Identifier: Apache-2.0
"""The text of a plan: a TOML file with the reason of each value, from the templates in `plan/templates`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

import tomli_w

from floodtide.base.templates import render
from floodtide.data.boxes import box_text
from floodtide.data.formats.geometry import size_text

MARK = "# Planned by floodtide init"
"""Beginning of the files that `floodtide init` writes, by which it recognises its own."""

_WIDTH = 100  # columns of comments
_BARE = re.compile("[A-Za-z0-9_-]+")  # a key that needs no quotes


def sections(template: str, **facts: Any) -> str:
    """Return the sections of a plan as TOML. Each value has its reason above it.

    Args:
        template: Name of a file in `plan/templates`.
    """
    text = render(
        template,
        "plan/templates",
        filters={
            "toml": _value,
            "box": box_text,
            "boxes": lambda boxes: "; ".join(map(box_text, boxes)),
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


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, Mapping):
        rows = (f"{k if _BARE.fullmatch(k) else _value(k)} = {_value(v)}" for k, v in value.items())
        return "{ " + ", ".join(rows) + " }"
    return tomli_w.dumps({"v": value}).removeprefix("v = ").strip()
