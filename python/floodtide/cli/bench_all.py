# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench all`."""

from __future__ import annotations

import datetime
import importlib.util
import json
import shlex
from pathlib import Path
from typing import Any

import click

from floodtide.cli.bench import counts_or_default, seconds_option, threads_option


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write a page (.md), its picture (.svg) and all rows (.json) to this folder, named after the processor.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@threads_option
@seconds_option
def command(
    out: Path | None, as_json: bool, thread_counts: tuple[int, ...], seconds: float
) -> None:
    """Measure everything that computes, beside PyTorch if it is installed, and print a table.

    It takes some minutes. Other programs should not run meanwhile.

    Example: floodtide bench all --out docs/performance
    """
    from floodtide.base.progress import bar
    from floodtide.bench import everything, machine

    with_peers = importlib.util.find_spec("torch") is not None
    if not with_peers:
        click.echo(
            "PyTorch is not installed: the table has no comparisons (pip install torch)", err=True
        )
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    found: dict[str, Any] = machine.facts() | {"date": now}
    counts = counts_or_default(thread_counts)
    results = []
    if not as_json:
        click.echo("\n".join([everything.conditions(found), "", *everything.HEADER]))
    with bar("benchmarks", "measure") as progress:
        benchmarks = everything.chosen(with_peers=with_peers)
        progress(0, len(benchmarks))
        for result in everything.measure(benchmarks, counts, seconds, with_peers=with_peers):
            results.append(result)
            progress(len(results), len(benchmarks))
            if not as_json:
                click.echo("\n".join(everything.lines(*result)))
    report = found | {
        "rows": [row | {"benchmark": str(benchmark)} for benchmark, rows in results for row in rows]
    }
    if as_json:
        click.echo(json.dumps(report))
    if out is not None:
        _write(out, found, results, report)


def _write(out: Path, found: dict[str, Any], results: list[Any], report: dict[str, Any]) -> None:
    from floodtide.base.files import replace_bytes, replace_text
    from floodtide.bench import everything, machine, roofline

    out.mkdir(parents=True, exist_ok=True)
    name = machine.file_name(found)
    replace_bytes(out / f"{name}.svg", roofline.draw(results, "svg"))
    text = everything.page(
        found,
        results,
        picture=f"{name}.svg",
        command=f"floodtide bench all --out {shlex.quote(str(out))}",
    )
    replace_text(out / f"{name}.md", text)
    replace_text(out / f"{name}.json", json.dumps(report, indent=1) + "\n")
    click.echo(f"{out / name}.md, .svg and .json are written.", err=True)
