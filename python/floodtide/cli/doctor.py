# SPDX-License-Identifier: Apache-2.0
"""`floodtide doctor`: find what would make a job slow or fail."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from floodtide.cli import options as shared


@click.command()
@click.argument("file", metavar="[CONFIG.toml]", required=False)
@shared.overrides
@click.option(
    "--dir",
    "directory",
    help="Run directory to examine [default: run.dir of CONFIG.toml, else the working directory].",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    file: str | None, overrides: tuple[str, ...], directory: str | None, as_json: bool
) -> int:
    """Examine launcher, MPI, threads, cores, memory, run directory and clocks before the training of CONFIG.toml.

    Without CONFIG.toml, the training of the paper's network is assumed. Under mpiexec, all ranks are examined and
    rank 0 prints the findings.

    The exit status is 1 if a finding is a problem, else 0. Advice is not a problem.

    \b
    Example:
      mpiexec -n 2 floodtide doctor fib25.toml
    """
    from floodtide.doctor import host

    started_s = host.since_process_start_s()  # before MPI starts
    from floodtide import config
    from floodtide.comm import world
    from floodtide.doctor import examine

    if overrides and not file:
        raise click.UsageError("--set overrides keys of a CONFIG.toml, expected a CONFIG.toml too")
    settings = config.load(file, overrides) if file else config.from_dict({})
    where = Path(directory or (settings.run.dir if file else "."))
    findings, facts = examine(settings, where, started_s=started_s)
    healthy = all(finding.level != "problem" for finding in findings)
    if world.rank() == 0:
        if as_json:
            found = [dataclasses.asdict(finding) for finding in findings]
            click.echo(json.dumps({"ok": healthy, "findings": found, "ranks": facts}))
        else:
            for finding in findings:
                click.echo(f"{finding.level:<8} {finding.check:<13} {finding.text}")
                if finding.advice:
                    click.echo(f"{'':<22} -> {finding.advice}")
    return 0 if healthy else 1
