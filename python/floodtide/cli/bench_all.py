# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench all`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from floodtide.bench.shapes import Timing
from floodtide.cli import options as shared


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write a page (.md), its picture (.svg) and all rows (.json) to this folder, named after the processor.",
)
@shared.of_fields(Timing)
@shared.as_json
def command(out: Path | None, as_json: bool, **options: Any) -> None:
    """Measure everything that computes, beside PyTorch if it is installed, and print a table.

    It takes some minutes. Other programs should not run meanwhile.

    Example: floodtide bench all --out docs/performance
    """
    from floodtide.base.progress import bar
    from floodtide.bench import everything, machine, report

    if not everything.has_torch():
        click.echo(
            "PyTorch is not installed: the table has no comparisons (pip install torch)", err=True
        )
    found = machine.facts()
    results: list[everything.Result] = []
    if not as_json:
        click.echo("\n".join([report.conditions(found), "", *report.HEADER]))
    with bar("benchmarks", "measure") as progress:
        for result in everything.measure(shared.filled(Timing, options), progress):
            results.append(result)
            if not as_json:
                click.echo("\n".join(report.lines(*result)))
    if as_json:
        click.echo(json.dumps(report.document(found, results)))
    if out is not None:
        report.write(out, found, results)
        click.echo(f"{out / machine.file_name(found)}.md, .svg and .json are written.", err=True)
