# SPDX-License-Identifier: Apache-2.0
"""`floodtide info`: show the build of floodtide and this machine, and find what would make a job slow or fail."""

from __future__ import annotations

import json
from pathlib import Path

import click

from floodtide.cli import options as shared


@click.command()
@click.argument("file", metavar="[CONFIG.toml]", required=False)
@shared.switch(
    "--machine",
    "Instead, examine launcher, MPI, threads, cores, memory and run directory before a training.",
)
@shared.overrides
@shared.as_json
def command(file: str | None, machine: bool, overrides: tuple[str, ...], as_json: bool) -> int:
    """Show version, build, instruction sets, threads, memory and MPI. Under mpiexec rank 0 prints.

    `--machine` examines this machine, and every rank under mpiexec, for the training of CONFIG.toml. Without
    CONFIG.toml, the training of the paper's network in the working directory is assumed. The exit status is then 1 if a
    finding is a problem, else 0. Advice is not a problem.

    \b
    Example:
      floodtide info
      mpiexec -n 2 floodtide info --machine fib25.toml
    """
    if not machine:
        from floodtide.doctor import host

        if file or overrides:
            raise click.UsageError("CONFIG.toml or --set without --machine, expected --machine too")
        shared.show(host.about(), as_json)
        return 0
    from floodtide import config
    from floodtide.comm import world
    from floodtide.doctor.host import examine

    settings = config.load(file, overrides) if file else config.from_dict({}, overrides=overrides)
    findings, facts = examine(settings, Path(settings.run.dir if file or overrides else "."))
    healthy = all(finding.level != "problem" for finding in findings)
    if world.rank() == 0 and as_json:
        found = [finding._asdict() for finding in findings]
        click.echo(json.dumps({"ok": healthy, "findings": found, "ranks": facts}))
    elif world.rank() == 0:
        for finding in findings:
            click.echo(f"{finding.level:<8} {finding.check:<13} {finding.text}")
            if finding.advice:
                click.echo(f"{'':<22} -> {finding.advice}")
    return 0 if healthy else 1
