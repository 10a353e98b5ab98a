# SPDX-License-Identifier: Apache-2.0
"""What `floodtide init` does: check the volumes, resample them if a network needs it, plan, and write the plan."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from floodtide.base.files import replace_text
from floodtide.base.outputs import files_of, reserved, starts_like
from floodtide.base.progress import bar
from floodtide.data import Volume, convert
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look.alignment import require_same_shape
from floodtide.data.look.image import require_image
from floodtide.data.look.labels import require_labels
from floodtide.data.volumes import require_same_grid, stated_by
from floodtide.errors import InvalidArgumentError
from floodtide.nn.checkpoint_files import checkpoints
from floodtide.plan.affinities import coarser
from floodtide.plan.document import MARK
from floodtide.plan.flooding import SMALL_BELOW_MINUTES
from floodtide.plan.judging import needs_resampling, voxel_size_of
from floodtide.plan.known import KnownNetwork
from floodtide.plan.planner import TrainingPlan, make_plan
from floodtide.plan.wish import Wish

COMMAND = "floodtide init"
_TOML = starts_like("a plan of floodtide init", MARK.encode())


def prepare(
    image: str,
    labels: str,
    out: Path,
    *,
    voxel_size_nm: Sequence[float] | None,
    start: KnownNetwork | None,
    network: str | None = None,
    minutes: float,
    run: str,
    replace: bool = False,
) -> TrainingPlan:
    """Plan a training and write its configuration. If the network needs it, write resampled volumes beside the plan.

    Args:
        image, labels: Names of the volumes.
        out: The TOML file.
        voxel_size_nm: Voxel size (z, y, x); None: what the image states.
        start: The network to start from; None: random weights.
        network: "affinities" or "ffn"; None: "ffn" with `start` or for at least SMALL_BELOW_MINUTES, else
            "affinities".
        minutes: Time for the training.
        run: The run directory.
        replace: Write over an older plan.

    Raises:
        InvalidArgumentError, InvalidFileError, ShapeError: For volumes that cannot be trained on; see `make_plan`.
        InvalidArgumentError: If `out` exists and is not to be replaced.
        StorageError: If a file cannot be written.
    """
    if out.exists() and not replace:  # the user may have changed it
        raise InvalidArgumentError(
            f"init: {out} exists, expected another --out, or --replace to write over it"
        )
    picture, objects = Volume(image), Volume(labels)
    require_labels(objects)
    require_image(picture)
    require_same_shape(picture, objects)
    require_same_grid("init", objects, picture)
    size = voxel_size_of(picture, voxel_size_nm)
    stated = stated_by(picture, voxel_size_nm, "--voxel-nm").text
    network = network or (
        "ffn" if start is not None or minutes >= SMALL_BELOW_MINUTES else "affinities"
    )
    if start is not None and network != "ffn":
        raise InvalidArgumentError(
            f"init: network {network} and a network to start from, expected ffn: only flood-filling networks are"
            " trained further"
        )
    with contextlib.ExitStack() as held:
        held.enter_context(reserved("init", out, _TOML, files_of([image, labels])))
        before: SizeNm | None = None
        wanted = coarser(picture.shape, size) if network == "affinities" else size
        if start is not None and start.voxel_size_nm is not None:
            wanted = start.voxel_size_nm
        if needs_resampling(size, wanted):
            image, labels = _resampled(picture, objects, out, size, wanted)
            before, size = size, wanted
        plan = make_plan(
            Wish(
                image=image,
                labels=labels,
                voxel_size_nm=size,
                start=start,
                network=network,
                minutes=minutes,
                run=run,
                resampled_from=before,
                stated=stated,
            )
        )
        if checkpoints(Path(run)):
            note = (
                f"{run} holds a training already, and `floodtide train` continues it; for a new training, give another"
                " --out"
            )
            plan = dataclasses.replace(plan, notes=(*plan.notes, note))
        _ = plan.config  # every value is valid
        replace_text(out, plan.text)
    return plan


def _resampled(
    image: Volume, labels: Volume, out: Path, before: SizeNm, wanted: SizeNm
) -> tuple[str, str]:
    """Write both volumes at another voxel size to an HDF5 file beside the plan, and return their names."""
    path = out.with_name(f"{out.stem}-{'x'.join(f'{n:g}' for n in wanted)}nm.h5")
    names = []
    for volume, dataset in ((image, "raw"), (labels, "labels")):
        name = f"{path}:{dataset}"
        with bar("voxels", f"resample {dataset}") as progress:
            convert(
                volume,
                name,
                voxel_size_nm=before,
                resample_nm=wanted,
                labels=dataset == "labels",
                command=COMMAND,
                progress=progress,
            )
        names.append(name)
    return names[0], names[1]
