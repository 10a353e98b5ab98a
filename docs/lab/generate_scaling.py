# SPDX-License-Identifier: Apache-2.0
"""Write the tables of docs/lab/scaling.md, and its pictures, from the model.

Usage: python docs/lab/generate_scaling.py [--compute-s SECONDS] [--check]
SECONDS: of a field of view on one core, as `floodtide bench step --threads 1` measures it. --check
writes nothing and exits with 1 if the tables are not what would be written.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from floodtide.lab.simulate import figure, forecast, model, paper, scenarios
from floodtide.lab.simulate.scenarios import Named, Row

PAGE = Path(__file__).with_name("scaling.md")
IMAGES = Path(__file__).parents[1] / "images"
COMPUTE_S = 0.231  # of a training step on one core of a Xeon with AVX-512, as the page says
STEPS = 2000
NETWORKS = ("10gbe", "100gbe", "dragonfly")
HEADS = ("10 GbE", "100 GbE", "dragonfly")
CURVE = tuple(2**power for power in range(11))

# Options of `floodtide lab simulate` and the same as fields of forecast.Options.
RING = ("`--algorithm ring`", {"algorithm": "ring"})
BEST = ("fastest algorithm", {})
STRAGGLING = ("`--sigma 0.107`: stragglers, as perhaps in the paper", {"sigma": 0.107})
WHOLE = ("`--bucket-mib 2`", {"bucket_mib": 2.0})
WHOLE_RING = ("`--bucket-mib 2 --algorithm ring`", {"bucket_mib": 2.0, "algorithm": "ring"})


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def percent(value: float | None) -> str:
    """Return per cent with one digit."""
    return "-" if value is None else f"{100 * value:.1f}"


def jobs(compute_s: float, changes: dict[str, object]) -> list[Named]:
    """A forecast on each of NETWORKS."""
    options = forecast.Options(compute_s=compute_s, network=NETWORKS)
    return forecast.forecast_jobs(dataclasses.replace(options, **changes), None)  # type: ignore[arg-type]


def explanations() -> tuple[str, list[Row]]:
    """The paper's machine: efficiency for each paid node, and the rows for the picture."""
    nodes = (2, 32, 128, paper.NODES)
    lines, curves = [], []
    for named in scenarios.paper_jobs():
        rows = scenarios.sweep(named, CURVE, steps=STEPS, seed=0)
        curves += rows
        by_ranks = {row.ranks: row for row in rows}
        last = by_ranks[paper.NODES]
        spare = f" on {last.paid_ranks:,}" if last.paid_ranks > last.ranks else ""
        cells = [percent(by_ranks[count].paid_efficiency) for count in nodes]
        lines.append(
            [named.scenario.removeprefix("paper: "), *cells, f"{last.fovs_per_s:.0f}{spare}"]
        )
    heads = ["efficiency in % by nodes", *(f"{n:,}" for n in nodes), "fields of view / s on 1,024"]
    return table(heads, lines), curves


def cores(compute_s: float) -> str:
    """Least ranks that reach the paper's throughput."""
    lines = []
    for label, changes in (RING, BEST, STRAGGLING):
        found = [
            model.least_ranks(named.job, paper.FOVS_PER_S, steps=STEPS)
            for named in jobs(compute_s, changes)
        ]
        lines.append([label, *map(str, found)])
    return table(["cores", *HEADS], lines)


def efficiencies(compute_s: float) -> str:
    """Efficiency at 1,024 ranks."""
    lines = []
    for label, changes in (RING, WHOLE_RING, BEST, WHOLE):
        found = [
            scenarios.sweep(named, (1024,), steps=64, seed=0)[0]
            for named in jobs(compute_s, changes)
        ]
        lines.append([label, *(percent(row.efficiency) for row in found)])
    return table(["efficiency in %", *HEADS], lines)


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with what stands between `<!-- NAME -->` and `<!-- end -->` replaced."""
    for name, text in tables.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = pattern.subn(lambda found, t=text: f"{found[1]}{t}\n{found[2]}", page)
        if count != 1:
            raise SystemExit(f"{PAGE}: expected one table {name}, found {count}")
    return page


def main() -> None:
    """Parse the command line and write or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compute-s", type=float, default=COMPUTE_S)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    explained, curves = explanations()
    tables = {
        "explanations": explained,
        "cores": cores(arguments.compute_s),
        "efficiencies": efficiencies(arguments.compute_s),
    }
    page = PAGE.read_text("utf-8")
    written = with_tables(page, tables)
    if arguments.check:
        if written != page:
            sys.exit("docs/lab/scaling.md: run docs/lab/generate_scaling.py")
        return
    PAGE.write_text(written, "utf-8")
    (IMAGES / "scaling_paper.png").write_bytes(figure.draw(curves, "png"))
    forecasts = []
    for named in jobs(arguments.compute_s, dict(RING[1])):
        forecasts += scenarios.sweep(named, CURVE, steps=STEPS, seed=0)
    (IMAGES / "scaling_forecast.png").write_bytes(figure.draw(forecasts, "png"))


if __name__ == "__main__":
    main()
