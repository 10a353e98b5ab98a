# SPDX-License-Identifier: Apache-2.0
"""`floodtide init`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click

from floodtide.base import limits
from floodtide.base.tasks import BY_KIND
from floodtide.cli import options as shared


@click.command()
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@shared.text(
    "--labels",
    "LABELS",
    "Labels of the image: ids of objects (0 is none), or classes; give the option once for each image.",
    required=True,
    multiple=True,
)
@click.option(
    "--task",
    type=click.Choice(tuple(BY_KIND)),
    help="What to learn: the class of each voxel, or objects: by affinities, affinities with shape"
    " descriptors (lsd), distances to the boundary, or flood filling; default: as the labels are, objects by"
    " affinities.",
)
@shared.number(
    "--unlabelled", limits.STORED_VALUE, "Value of voxels without a label.", metavar="VALUE"
)
@shared.voxel_nm
@click.option(
    "--from",
    "start",
    metavar="NETWORK",
    help="Train this network further: fib25 (`floodtide fetch fib25`), a checkpoint or a run directory.",
)
@shared.number("--minutes", limits.MINUTES, "Time for the training.", default=30.0)
@shared.text("--out", "FILE.toml", "The plan to write (default: IMAGE's name and .toml).")
@shared.switch("--replace", "Write over an older plan of the same name.")
@shared.as_json
def command(
    images: tuple[str, ...],
    labels: tuple[str, ...],
    start: str | None,
    out: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Look at images and labels, and write a configuration for `floodtide train`, with the reason of every value.

    Images and labels are volumes of any format: stack.tif, volume.zarr, file.h5:dataset. If the network to start from
    needs other voxels, resampled copies are written beside the plan. A few passes of the network measure this machine.

    \b
    Example:
      floodtide init stack.tif --labels labels.tif --voxel-nm 8,8,8 --minutes 10
      floodtide init 'em/*.tif' --labels 'mitochondria/*.png' --task classes --minutes 10
      floodtide train stack.toml
    """
    from floodtide.data.formats.table import stem
    from floodtide.plan import prepare
    from floodtide.plan.networks import known_network
    from floodtide.train.setup import set_threads

    name = out or f"{stem(images[0])}.toml"
    set_threads(0)
    known = None if start is None else known_network(start)
    run = f"runs/{Path(name).stem}"
    asked["voxel_size_nm"] = asked.pop("voxel_nm")
    plan = prepare(images, labels, Path(name), start=known, run=run, **asked)
    if as_json:
        facts = {"out": name, "notes": plan.notes, "head": plan.head}
        click.echo(json.dumps(facts | {"config": plan.tables}))
        return
    click.echo(plan.text)
    click.echo(f"{name} is written. Next: floodtide train {shlex.quote(name)}")
