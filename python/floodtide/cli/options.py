# SPDX-License-Identifier: Apache-2.0
"""Options that several subcommands have."""

from __future__ import annotations

import click

overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="A.B=VALUE",
    help="Override a key of the configuration.",
)
