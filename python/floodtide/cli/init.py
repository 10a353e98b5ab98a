# SPDX-License-Identifier: Apache-2.0
"""`floodtide init`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared


@click.command()
@click.argument("image")
@click.option(
    "--labels", required=True, metavar="LABELS", help="Object ids of the image; 0 is no object."
)
@shared.voxel_nm
@click.option(
    "--from",
    "start",
    metavar="NETWORK",
    help="Train this network further: fib25 (`floodtide fetch fib25`), a checkpoint or a run directory.",
)
@click.option(
    "--network",
    type=click.Choice(["affinities", "ffn"]),
    help="A U-Net for affinities (the default below 240 minutes), or a flood-filling network.",
)
@click.option(
    "--minutes",
    type=shared.Number(limits.MINUTES),
    default=30.0,
    show_default=True,
    help="Time for the training.",
)
@click.option(
    "--out", metavar="FILE.toml", help="The plan to write (default: IMAGE's name and .toml)."
)
@click.option("--replace", is_flag=True, help="Write over an older plan of the same name.")
@shared.as_json
def command(
    image: str, labels: str, start: str | None, out: str | None, as_json: bool, **asked: Any
) -> None:
    """Look at IMAGE and LABELS, and write a configuration for `floodtide train`, with the reason of every value.

    IMAGE and LABELS are volumes of any format: stack.tif, volume.zarr, file.h5:dataset. If the network to start from
    needs other voxels, resampled copies are written beside the plan. A few passes of the network measure this machine.

    \b
    Example:
      floodtide init stack.tif --labels labels.tif --voxel-nm 8,8,8 --minutes 10
      floodtide train stack.toml
    """
    from floodtide.data.formats.table import stem
    from floodtide.plan import prepare
    from floodtide.plan.known import known_network
    from floodtide.train.setup import set_threads

    name = out or f"{stem(image)}.toml"
    set_threads(0)
    known = None if start is None else known_network(start)
    run = f"runs/{Path(name).stem}"
    asked["voxel_size_nm"] = asked.pop("voxel_nm")
    plan = prepare(image, labels, Path(name), start=known, run=run, **asked)
    if as_json:
        facts = {"out": name, "notes": plan.notes, "head": plan.head}
        click.echo(json.dumps(facts | {"config": plan.tables}))
        return
    click.echo(plan.text)
    click.echo(f"{name} is written. Next: floodtide train {shlex.quote(name)}")
