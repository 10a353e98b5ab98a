# SPDX-License-Identifier: Apache-2.0
"""`floodtide inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from floodtide.cli import options as shared
from floodtide.comm import world


@click.command()
@click.argument("target", metavar="IMAGE | CONFIG.toml")
@shared.text("--labels", "LABELS", "Labels of the image: one id for each object.")
@shared.voxel_nm
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("inspect.html"),
    help="Page of IMAGE (default: inspect.html).",
)
@shared.text(
    "--patches",
    "FILE.png",
    "Draw 24 training examples of CONFIG.toml, augmented, with what the network learns of them.",
)
@shared.overrides
@shared.as_json
def command(
    target: str,
    labels: str | None,
    voxel_nm: tuple[float, float, float] | None,
    out: Path,
    patches: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Write a page about IMAGE and its labels, or look for mistakes in the data of CONFIG.toml.

    docs/checks.md lists what the page shows, and the mistakes. Partitions that the configuration does not name are made
    in the run directory, where `train` uses them again. The exit status is 2 if there is an error.

    \b
    Example:
      floodtide inspect stack.tif --labels labels.tif --voxel-nm 40,4,4
      floodtide inspect fib25.toml --set data.volumes.0.mean=148 --patches patches.png
    """
    shared.require_same_arguments()
    if Path(target).suffix == ".toml":
        shared.refuse_given(("labels", "voxel_nm", "out"), "is for an image, not for CONFIG.toml")
        from floodtide import config, plan

        if patches:
            from floodtide.report.training_patches import write_patches

            with world.agreed():
                settings = config.load(target, overrides)
            write_patches(settings, Path(patches))
        report = plan.check(target, overrides)
        shared.show(report, as_json)
        return 2 if report["errors"] else 0
    shared.refuse_given(("overrides", "patches"), "is for a configuration, expected CONFIG.toml")
    from floodtide.data import Volume
    from floodtide.report import inspection

    with world.agreed():
        if world.rank() == 0:
            truth = Volume(labels) if labels else None
            found = inspection.write(Volume(target), truth, voxel_nm, out)
            brief = {
                **found.stated,
                "mean": found.image.proposed_mean,
                "std": found.image.proposed_std,
                **({"labelled": found.labels.words} if found.labels else {}),
                "verdict": inspection.verdict(found),
                "mistake": [one.text for one in found.problems if one.error] or None,
                "doubt": [one.text for one in found.problems if not one.error] or None,
                "page": str(out),
            }
            shared.show(brief, as_json)
    return 0
