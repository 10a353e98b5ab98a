# SPDX-License-Identifier: Apache-2.0
"""A report's page, taken apart for tests."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """The page's images, table rows and texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text("utf-8")
        self.images: dict[str, str] = {}
        self.rows: list[list[str]] = []
        self._in_cell = False
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "img":
            self.images[str(values["alt"])] = str(values["src"])
        if tag == "tr":
            self.rows.append([])
        self._in_cell = tag in ("td", "th")
        if self._in_cell:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data

    def row_before(self, name: str) -> list[str]:
        """The head of the first table with a row of that name in first place."""
        return self.rows[self.rows.index(self.row(name)) - 1]

    def row(self, name: str) -> list[str]:
        return next(row for row in self.rows if row and row[0].startswith(name))
