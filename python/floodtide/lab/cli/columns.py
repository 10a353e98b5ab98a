# SPDX-License-Identifier: Apache-2.0
"""Tables of some columns, each in its own format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click


def print_columns(
    rows: Iterable[Mapping[str, Any]], as_json: bool, formats: Mapping[str, str]
) -> None:
    """Print each row as soon as there is one, below the names of the columns.

    Args:
        rows: The rows, as JSON values by name.
        as_json: Print JSON objects, with all values.
        formats: Formats of the columns by name.
    """
    for number, row in enumerate(rows):
        if as_json:
            click.echo(json.dumps(row))
            continue
        widths = {n: 22 if isinstance(row[n], str) else -max(len(n), 9) for n in formats}
        if number == 0:
            heads = {n: format(n, f) if isinstance(row[n], str) else n for n, f in formats.items()}
            click.echo(_line(heads, widths))
        cells = {n: "-" if row[n] is None else format(row[n], f) for n, f in formats.items()}
        click.echo(_line(cells, widths))


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    """Return cells beside each other. A cell with a negative width is aligned on the right."""
    aligned = (
        text.ljust(widths[name]) if widths[name] > 0 else text.rjust(-widths[name])
        for name, text in cells.items()
    )
    return "  ".join(aligned).rstrip()
