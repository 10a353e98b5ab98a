# SPDX-License-Identifier: Apache-2.0
"""What `floodtide init` does: check the volumes, copy them if a network needs others, plan, and write the plan."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.base.files import replace_text
from floodtide.base.network_files import checkpoints
from floodtide.base.outputs import files_of, reserved, starts_like
from floodtide.base.progress import bar
from floodtide.base.tasks import BY_KIND, Classes, Task
from floodtide.data import Box, Volume, convert
from floodtide.data.boxes import Vec3, as_vec3, of_slices
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look import problems
from floodtide.data.look.alignment import require_same_shape
from floodtide.data.look.image import require_image
from floodtide.data.look.labels import LabelStatistics, label_statistics, require_labels
from floodtide.data.no_label import missing
from floodtide.data.volumes import labels_of, none_of, require_same_grid, settled_size, stated_by
from floodtide.errors import InvalidArgumentError
from floodtide.plan.document import MARK
from floodtide.plan.flooding import is_small, needs_membrane
from floodtide.plan.judging import voxel_size_of
from floodtide.plan.known import KnownNetwork
from floodtide.plan.naming import classes_of
from floodtide.plan.planner import TrainingPlan, make_plan
from floodtide.plan.unets import coarser
from floodtide.plan.wish import Wish

COMMAND = "floodtide init"
_TOML = starts_like("a plan of floodtide init", MARK.encode())
_IGNORED = 255  # what many data sets write where a voxel has no label
_SPARSE = 0.2  # share of labelled voxels below which 0 may mean that they are not labelled


def prepare(
    images: Sequence[str],
    labels: Sequence[str],
    out: Path,
    *,
    voxel_size_nm: Sequence[float] | None,
    start: KnownNetwork | None,
    task: str | None = None,
    minutes: float,
    run: str,
    unlabelled: int | None = None,
    replace: bool = False,
) -> TrainingPlan:
    """Plan a training and write its configuration, and changed copies of volumes beside it if the network needs them.

    Args:
        images, labels, start, minutes, unlabelled: As in `Wish`.
        out: The TOML file.
        voxel_size_nm: Voxel size (z, y, x); None: what the images state.
        task: "classes", "affinities", "lsd", "distance" or "flood"; None: classes if the labels are classes;
            for objects "flood" with `start`, else "affinities".
        replace: Write over an older plan.

    Raises:
        InvalidArgumentError, InvalidFileError, ShapeError: For volumes that cannot be trained on; see `make_plan`.
        InvalidArgumentError: If `out` exists and is not to be replaced, or the labels do not say what they are.
        StorageError: If a file cannot be written.
    """
    if out.exists() and not replace:  # the user may have changed it
        raise InvalidArgumentError(
            f"init: {out} exists, expected another --out, or --replace to write over it"
        )
    pairs = _pairs(images, labels, voxel_size_nm)
    seen = [_seen(objects, unlabelled) for _, objects in pairs]
    learnt = BY_KIND[_task(task, seen, start)]()
    size, known = _voxel_size([picture for picture, _ in pairs], voxel_size_nm, learnt)
    if start is not None and learnt.predicts:
        raise InvalidArgumentError(
            f"init: task {learnt.kind} and a network to start from, expected flood: only flood-filling networks are"
            " trained further"
        )
    if not learnt.of_objects and unlabelled is None and _zero_is_outside(seen):
        notes.show(
            f"{labels[0]}: in {seen[0].place} no voxel is 0, so that 0 outside is taken for unlabelled"
            " (data.unlabelled); if it is a class, give it another value"
        )
        unlabelled = 0
    for one, (_, objects) in zip(seen, pairs, strict=True):
        sparse = one.form == "scattered" or (one.form == "everywhere" and one.share < _SPARSE)
        if sparse and hasattr(learnt, "zero_is_boundary"):
            notes.show(
                f"{objects.name}: labels fill {100 * one.share:.0f} % of {one.place}: whether 0 is background, or not"
                " labelled, cannot be told; look at task.zero_is_boundary in the plan"
            )
        settled_size(objects, voxel_size_nm, "--voxel-nm")
    wish = Wish(
        images=tuple(images),
        labels=tuple(labels),
        shapes=tuple(picture.shape for picture, _ in pairs),
        labels_seen=tuple(seen),
        boxes=tuple(_boxes(one, learnt) for one in seen),
        voxel_size_nm=size,
        size_is_unknown=not known,
        start=start,
        task=learnt,
        minutes=minutes,
        run=run,
        unlabelled=unlabelled,
        stated=tuple(stated_by(one, voxel_size_nm, "--voxel-nm").text for one, _ in pairs),
    )
    if not learnt.of_objects:
        wish = _with_classes(wish, [objects for _, objects in pairs])
    with contextlib.ExitStack() as held:
        held.enter_context(reserved("init", out, _TOML, files_of([*images, *labels])))
        wish = _at_wanted_size(wish, pairs, out)
        plan = make_plan(wish)
        if checkpoints(Path(run)):
            note = (
                f"{run} holds a training already, and `floodtide train` continues it; for a new training, give another"
                " --out"
            )
            plan = dataclasses.replace(plan, notes=(*plan.notes, note))
        _ = plan.config  # every value is valid
        replace_text(out, plan.text)
    return plan


def _pairs(
    images: Sequence[str], labels: Sequence[str], voxel_size_nm: Sequence[float] | None
) -> list[tuple[Volume, Volume]]:
    """Open the images with their labels, and check that they fit each other."""
    if len(images) != len(labels):
        numbers = [name for name in images if re.fullmatch(r"\d+(\.\d+)?", name)]
        if voxel_size_nm is not None and len(numbers) == len(images) - len(labels) == 2:
            sizes = ",".join([f"{voxel_size_nm[0]:g}", *numbers])
            raise InvalidArgumentError(
                f"init: --voxel-nm {sizes.replace(',', ' ')}, expected commas: write --voxel-nm {sizes}"
            )
        raise InvalidArgumentError(
            f"init: {len(images)} image(s) and {len(labels)} labels (--labels), expected the labels of each image, in"
            " the same order"
        )
    pairs = [
        (Volume(image), Volume(objects)) for image, objects in zip(images, labels, strict=True)
    ]
    for picture, objects in pairs:
        require_labels(objects)
        require_image(picture)
        require_same_shape(picture, objects)
        require_same_grid("init", objects, picture)
    return pairs


def _zero_is_outside(seen: Sequence[LabelStatistics]) -> bool:
    """True if the labels fill boxes or sections, with classes other than 0 in every voxel."""
    filled = all(one.form in ("box", "boxes", "sections") and one.share == 1 for one in seen)
    return filled and len({value for one in seen for value, _ in one.values if value}) > 1


def _seen(labels: Volume, unlabelled: int | None) -> LabelStatistics:
    known = labels_of(labels, unlabelled)
    with bar("voxels", f"look at {labels.name}") as progress:
        return label_statistics(known, progress=progress)


def _with_classes(wish: Wish, labels: Sequence[Volume]) -> Wish:
    """Return the wish with the table of classes, and with the boxes in which voxels have a class, 0 or another."""
    seen, boxes = list(wish.labels_seen), list(wish.boxes)
    for number, volume in enumerate(labels):
        if wish.unlabelled is not None or none_of(volume) is not None:
            found = _seen(Volume(_Known(volume, wish.unlabelled), name=volume.name), None)
            values = tuple((value - 1, voxels) for value, voxels in found.values if value > 0)
            inner = tuple(value - 1 for value in found.inner if value > 0)
            lowest, highest = min(value for value, _ in values), found.highest - 1
            seen[number] = dataclasses.replace(
                found, values=values, inner=inner, lowest=lowest, highest=highest
            )
            boxes[number] = found.boxes
        elif seen[number].form == "sections":
            notes.show(
                f"{volume.name}: {seen[number].empty_sections} of {volume.shape[0]} sections hold 0 only, and are"
                " taken for unlabelled; if they are background, set the boxes of the plan"
            )
    occurring = sorted({value for one in seen for value, _ in one.values})
    doubted = occurring[-1] == _IGNORED and len(occurring) > 2 and occurring[-2] < _IGNORED - 1
    if doubted and not any(one.inner for one in seen):
        notes.show(
            f"{wish.labels[0]}: {_IGNORED} is taken for a class; if it marks voxels without a label, as in many data"
            f" sets, give --unlabelled {_IGNORED}"
        )
    table, reason = classes_of(wish.labels, seen)
    return dataclasses.replace(
        wish,
        labels_seen=tuple(seen),
        boxes=tuple(boxes),
        task=Classes(classes=table),
        classes_reason=reason,
    )


class _Known:
    """Labels as numbers from 1; 0 where voxels have no label."""

    def __init__(self, volume: Volume, unlabelled: int | None) -> None:
        self._volume, self._unlabelled = volume, unlabelled
        self.shape, self.chunks, self.dtype = volume.shape, volume.chunks, np.dtype(np.int64)

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[np.int64]:
        block = self._volume.read(of_slices(box))
        none = missing(block)
        unknown = np.zeros(block.shape, bool) if none is None else none
        if self._unlabelled is not None:
            unknown |= block == self._unlabelled
        return np.where(unknown, 0, block.astype(np.int64) + 1)


def _boxes(seen: LabelStatistics, task: Task) -> tuple[Box, ...]:
    """Return the boxes of a volume that have labels: of classes, whole sections, in which 0 is the background."""
    whole = ((0, 0, 0), as_vec3(seen.shape))
    if task.of_objects or seen.form != "sections":
        return seen.boxes if task.of_objects else (whole,)
    return tuple(((start[0], 0, 0), (size[0], *whole[1][1:])) for start, size in seen.boxes)


def _task(task: str | None, seen: Sequence[LabelStatistics], start: KnownNetwork | None) -> str:
    """Return the task that was given, else that of the labels; refuse labels that may be classes as well as objects."""
    if not any(one.objects for one in seen):
        raise InvalidArgumentError(f"init: {seen[0].name}: no voxel is labelled, expected labels")
    if task is not None:
        return task
    kinds = {one.kind for one in seen}
    if kinds == {"classes"}:
        return "classes"
    if kinds != {"objects"} and start is None:
        reason = next(one for one in seen if one.kind != "objects").kind_reason
        raise InvalidArgumentError(
            f"init: {seen[0].name}: {reason}; expected --task classes, or --task affinities for objects"
        )
    return "affinities" if start is None else "flood"


def _voxel_size(
    images: Sequence[Volume], given: Sequence[float] | None, task: Task
) -> tuple[SizeNm, bool]:
    """Return the voxel size of all images, and whether it is known: classes of sections can be learnt without."""
    if not task.of_objects and all(
        settled_size(image, given, "--voxel-nm") is None for image in images
    ):
        notes.show(
            f"{images[0].name}: states no voxel size: sections are taken for independent; --voxel-nm z,y,x states it"
        )
        return (1.0, 1.0, 1.0), False
    sizes = [voxel_size_of(image, given) for image in images]
    for image, size in zip(images[1:], sizes[1:], strict=True):
        if not problems.fits(size, sizes[0]):
            raise InvalidArgumentError(
                f"init: {images[0].name} has voxels of {sizes[0]} nm, {image.name} of {size}, expected the same;"
                " `floodtide convert` resamples one (--resample-nm)"
            )
    return sizes[0], True


def _at_wanted_size(wish: Wish, pairs: Sequence[tuple[Volume, Volume]], out: Path) -> Wish:
    """Return the wish with the volumes of the training. Changed copies that it needs are written beside the plan."""
    size, wanted = wish.voxel_size_nm, wish.voxel_size_nm
    if wish.task.of_objects and (wish.task.predicts or is_small(wish)):
        z, y, x = (min(extents) for extents in zip(*wish.shapes, strict=True))
        wanted = coarser((z, y, x), wish.smallest, size)
    if wish.start is not None and wish.start.voxel_size_nm is not None:
        wanted = wish.start.voxel_size_nm
    resample = None if problems.fits(size, wanted) else wanted
    eroded = needs_membrane(wish)
    if resample is None and not eroded:
        return wish
    # Wherever two objects meet, a coarse voxel between them must hold at least as much membrane as object.
    ratios = [new / old for new, old in zip(resample or size, size, strict=True)]
    erode = as_vec3([math.ceil(ratio / 2) if eroded else 0 for ratio in ratios])
    names = [
        _copies(*pair, out, wish, resample, erode, "" if len(pairs) == 1 else str(number))
        for number, pair in enumerate(pairs)
    ]
    labels = [Volume(name) for _, name in names]
    seen = [_seen(one, wish.unlabelled) for one in labels]
    return dataclasses.replace(
        wish,
        images=tuple(image for image, _ in names),
        labels=tuple(name for _, name in names),
        shapes=tuple(one.shape for one in labels),
        labels_seen=tuple(seen),
        boxes=tuple(_boxes(one, wish.task) for one in seen),
        voxel_size_nm=resample or size,
        resampled_from=None if resample is None else size,
        eroded=eroded,
    )


def _copies(
    image: Volume,
    labels: Volume,
    out: Path,
    wish: Wish,
    wanted: SizeNm | None,
    erode: Vec3,
    number: str,
) -> tuple[str, str]:
    """Write what a training needs to an HDF5 file beside the plan, and return the names of image and labels.

    Args:
        wanted: Voxel size (z, y, x) of the copies; None: that of the volumes, and the image is not copied.
        erode: Voxels (z, y, x) by which labels are eroded.
        number: Distinguishes several pairs.
    """
    ending = "labels" if wanted is None else f"{'x'.join(f'{n:g}' for n in wanted)}nm"
    path = out.with_name(f"{out.stem}{number}-{ending}.h5")
    names = []
    for volume, dataset in ((image, "raw"), (labels, "labels")):
        name, of_labels = f"{path}:{dataset}", dataset == "labels"
        if wanted is None and not of_labels:
            names.append(image.name)
            continue
        with bar("voxels", f"copy {dataset}") as progress:
            convert(
                volume,
                name,
                voxel_size_nm=wish.voxel_size_nm,
                resample_nm=wanted,
                labels=of_labels,
                erode=erode if of_labels else 0,
                command=COMMAND,
                progress=progress,
            )
        names.append(name)
    return names[0], names[1]
