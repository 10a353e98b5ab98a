# SPDX-License-Identifier: Apache-2.0
"""Groups of commands that import a command only when it is used. This keeps start-up fast on a thousand ranks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

Commands = Mapping[str, tuple[str, str]]
"""By name: where the command is, as "module:attribute", and its help text."""


class LazyGroup(click.Group):
    """A group of the commands of a table.

    Args:
        commands: The table, in the order in which `--help` lists the commands.
        headings: Headings of this list, by the command that follows.
    """

    def __init__(
        self,
        *arguments: Any,
        commands: Commands,
        headings: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._table, self._headings = commands, headings or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name, (_, text) in self._table.items():
            heading = self._headings.get(name, heading)
            rows.setdefault(heading, []).append((name, text))
        for heading, part in rows.items():
            with formatter.section(heading):
                formatter.write_dl(part)
