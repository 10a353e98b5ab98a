# SPDX-License-Identifier: Apache-2.0
"""Rows of results on the terminal: a table, or one JSON object per row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")

_FIRST = (
    "benchmark", "name", "kernel", "threads", "ranks", "median_s", "gflops", "peak_gflops", "ratio",
)  # fmt: skip
_CONDITIONS = (
    *("level", "shape", "wire", "transport", "samples", "processor", "version", "date"),
    *("p10_s", "p90_s", "min_s", "mean_s"),
)  # the table leaves them out
_WORDS = 22  # width of a column of texts
_FIGURES = 9  # width of a column of numbers at least


def print_rows(
    rows: Iterable[Mapping[str, Any]], as_json: bool, columns: Mapping[str, str] | None = None
) -> None:
    """Print each row as soon as there is one, and the names of the columns whenever they change.

    Args:
        rows: The rows, as JSON values by name.
        as_json: Print JSON objects, with all values.
        columns: Formats of the columns of the table by name; None: all values but lists and conditions of the
            measurement.
    """
    shown: list[str] = []
    formats = columns or {}
    for row in rows:
        if as_json:
            click.echo(json.dumps(row))
            continue
        names = list(columns or [])
        if columns is None:
            others = (name for name in row if name not in (*_FIRST, *_CONDITIONS))
            known = (*(name for name in _FIRST if name in row), *others)
            names = [name for name in known if not isinstance(row[name], list | dict)]
        if names != shown:
            heads = (_aligned(name, row[name], _head(name, row[name], formats)) for name in names)
            click.echo("  ".join(heads).rstrip())
            shown = names
        cells = (_aligned(name, row[name], _text(row[name], formats.get(name))) for name in names)
        click.echo("  ".join(cells).rstrip())


def _aligned(name: str, value: Any, text: str) -> str:
    if isinstance(value, str):
        return text.ljust(_WORDS)
    return text.rjust(max(len(name), _FIGURES))


def _head(name: str, value: Any, formats: Mapping[str, str]) -> str:
    return format(name, formats.get(name, "")) if isinstance(value, str) else name


def _text(value: Any, form: str | None) -> str:
    if value is None:
        return "-"
    if form is None:
        form = ".4g" if isinstance(value, float) else ""
    return format(value, form)
