# SPDX-License-Identifier: Apache-2.0
"""What `floodtide init` does: check the volumes, copy them if a network needs others, plan, and write the plan."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits, notes
from floodtide.base.files import replace_text
from floodtide.base.outputs import files_of, reserved, starts_like
from floodtide.base.progress import bar
from floodtide.base.tasks import BY_KIND, Classes, Task
from floodtide.data import Box, Volume, convert, volumes
from floodtide.data.boxes import Vec3, as_vec3, between
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.formats.table import stem
from floodtide.data.look import problems
from floodtide.data.look.image import require_image
from floodtide.data.look.labels import LabelStatistics, integers_of, label_statistics
from floodtide.data.no_label import missing
from floodtide.errors import InvalidArgumentError
from floodtide.plan.flooding import is_small, needs_membrane
from floodtide.plan.networks import KnownNetwork, voxel_size_of
from floodtide.plan.planner import MARK, TrainingPlan, make_plan
from floodtide.plan.unets import coarser
from floodtide.plan.wish import Wish

_TOML = starts_like("a plan of floodtide init", MARK.encode())
_IGNORED = 255  # what many data sets write where a voxel has no label
_MASK = {1, 255}  # values by which masks of one class may differ
_SPARSE = 0.2  # share of labelled voxels below which 0 may mean that they are not labelled

Pairs = tuple[tuple[Volume, Volume], ...]


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
        images, labels: Names of the images, and of the labels of each.
        start, minutes, run, unlabelled: As in `Wish`.
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
    pairs = _pairs(images, labels)
    seen = tuple(_seen(objects, unlabelled) for _, objects in pairs)
    learnt = BY_KIND[_task(task, seen, start)]()
    size = _voxel_size([image for image, _ in pairs], voxel_size_nm, learnt)
    if start is not None and learnt.predicts:
        raise InvalidArgumentError(
            f"init: task {learnt.kind} and a network to start from, expected flood: only flood-filling networks are"
            " trained further"
        )
    for one, (_, objects) in zip(seen, pairs, strict=True):
        sparse = one.form == "scattered" or (one.form == "everywhere" and one.share < _SPARSE)
        if sparse and hasattr(learnt, "zero_is_boundary"):
            notes.show(
                f"{objects.name}: labels fill {100 * one.share:.0f} % of {one.place}: whether 0 is background, or not"
                " labelled, cannot be told; look at task.zero_is_boundary in the plan"
            )
        volumes.settled_size(objects, voxel_size_nm, "--voxel-nm")
    wish = Wish(
        pairs=pairs,
        labels_seen=seen,
        voxel_size_nm=size,
        start=start,
        task=learnt,
        minutes=minutes,
        run=run,
        unlabelled=unlabelled,
        stated=tuple(volumes.stated_by(one, voxel_size_nm, "--voxel-nm").text for one, _ in pairs),
    )
    if not learnt.of_objects:
        wish = _with_classes(wish)
    with reserved("init", out, _TOML, files_of([*images, *labels])):
        plan = make_plan(_at_wanted_size(wish, out))
        replace_text(out, plan.text)
    return plan


def _pairs(images: Sequence[str], labels: Sequence[str]) -> Pairs:
    """Open the images with their labels, and check that they fit each other."""
    if len(images) != len(labels):
        raise InvalidArgumentError(
            f"init: {len(images)} image(s) ({', '.join(images)}) and {len(labels)} labels (--labels), expected the"
            f" labels of each image, in the same order{', and voxel sizes as 8,8,8' * images[-1].isdigit()};"
            " docs/unet.md explains several masks of an image"
        )
    pairs = tuple(zip(map(Volume, images), map(integers_of, map(Volume, labels)), strict=True))
    for image, objects in pairs:
        require_image(image)
        volumes.require_same_shape(image, objects)
        volumes.require_same_grid("init", objects, image)
    return pairs


def _seen(labels: Volume, unlabelled: int | None) -> LabelStatistics:
    known = volumes.labels_of(labels, unlabelled)
    with bar("voxels", f"look at {labels.name}") as progress:
        return label_statistics(known, progress=progress)


def _with_classes(wish: Wish) -> Wish:
    """Return the wish with the table of classes, and with the boxes in which voxels have a class, 0 or another."""
    unlabelled, seen = wish.unlabelled, list(wish.labels_seen)
    # The labels fill boxes or sections, with classes other than 0 in every voxel.
    filled = all(one.form in ("box", "boxes", "sections") and one.share == 1 for one in seen)
    occurring = {value for one in seen for value, _ in one.values}
    if unlabelled is None and filled and len(occurring - {0}) > 1:
        notes.show(
            f"{wish.pairs[0][1].name}: in {seen[0].place} no voxel is 0, so that 0 outside is taken for unlabelled"
            " (data.unlabelled); if it is a class, give it another value"
        )
        unlabelled = 0
    for number, (_, volume) in enumerate(wish.pairs):
        own, size = seen[number], volume.shape
        boxes: tuple[Box, ...] = (((0, 0, 0), size),)
        if unlabelled is not None or volumes.none_of(volume) is not None:
            own = _seen(_known(volume, unlabelled), None)
            values = tuple((value - 1, voxels) for value, voxels in own.values if value > 0)
            inner = tuple(value - 1 for value in own.inner if value > 0)
            if not values:
                raise InvalidArgumentError(f"init: {volume.name}: no voxel has a class")
            lowest, highest = min(values)[0], own.highest - 1
            boxes = own.boxes
            own = dataclasses.replace(
                own, values=values, inner=inner, lowest=lowest, highest=highest
            )
        elif own.form == "sections":  # in which 0 is the background
            axis = min(range(3), key=lambda n: max(thin[n] for _, thin in own.boxes))
            ends = [(first[axis], first[axis] + thin[axis]) for first, thin in own.boxes]
            boxes = tuple(between(boxes[0], axis, *one) for one in ends)
            empty = f"{size[axis] - sum(b - a for a, b in ends)} of {size[axis]} planes along {'zyx'[axis]}"
            notes.show(
                f"{volume.name}: {empty} hold 0 only: taken for unlabelled; for background, set the plan's boxes"
            )
        seen[number] = dataclasses.replace(own, boxes=boxes)
    table, reason = _classes_of([objects.name for _, objects in wish.pairs], seen)
    known: dict[str, Any] = {
        "task": Classes(classes=table),
        "classes_reason": reason,
        "unlabelled": unlabelled,
    }
    return dataclasses.replace(wish, labels_seen=tuple(seen), **known)


def _known(volume: Volume, unlabelled: int | None) -> Volume:
    """Return labels as numbers from 1; 0 where voxels have no label."""

    def read(box: Box) -> NDArray[np.int64]:
        block = volume.read(box)
        none = missing(block)
        unknown = np.zeros(block.shape, bool) if none is None else none
        if unlabelled is not None:
            unknown |= block == unlabelled
        return np.where(unknown, 0, block.astype(np.int64) + 1)

    return volumes.computed(volume, read, np.dtype(np.int64))


def _classes_of(
    labels: Sequence[str], seen: Sequence[LabelStatistics]
) -> tuple[dict[str, str], str]:
    """Return `task.classes` for labels, and its reason. Grey levels at smooth edges belong to the nearer class."""
    found = [one.inner or tuple(value for value, _ in one.values) for one in seen]
    known = sorted(set().union(*found))
    count = max(len(known), *(one.objects for one in seen if not one.inner), 0)
    if count not in limits.MASK_CLASSES:
        raise InvalidArgumentError(
            f"init: {', '.join(labels)}: the labels have {count} value(s), expected {limits.MASK_CLASSES}; objects:"
            " --task affinities"
        )
    smooth = any(one.inner for one in seen)
    if _IGNORED in known[2:] and _IGNORED - 1 not in known and not smooth:
        notes.show(
            f"{labels[0]}: {_IGNORED} is taken for a class; if it marks voxels without a label, as in many data sets,"
            f" give --unlabelled {_IGNORED}"
        )
    names = {value: f"class {value}" for value in known}
    masks = all(len(one) == 2 and one[0] == known[0] for one in found)
    if len(known) == 2 or (masks and {*known[1:]} <= _MASK):
        name = stem(labels[0])  # of a pattern of files, the name of the folder
        names = dict.fromkeys(known, "foreground" if name in ("", "background") else name)
    names[known[0]] = "background"
    each = "; ".join(
        f"{name} has {', '.join(map(str, values))}"
        for name, values in zip(labels, found, strict=True)
    )
    if smooth:
        if len(set(found)) > 1:
            raise InvalidArgumentError(
                f"init: {each}, some with smooth edges; expected masks of the same values"
            )
        ranges = max(seen, key=lambda one: one.highest).ranges
        table = {f"{a}-{b}": names[n] for (a, b), n in zip(ranges, known, strict=True)}
        return table, (
            f"The labels are {' or '.join(map(str, known))} but at smooth edges, where values count to the nearer one."
            " Masks that are resized without interpolation have no seam of a class between two others."
        )
    counts: Counter[int] = Counter()
    for one in seen:
        counts.update(dict(one.values))
    shares = (f"{value} ({100 * n / counts.total():.2g} %)" for value, n in sorted(counts.items()))
    reason = f"The values of the labels: {', '.join(shares)}."
    if len(set(found)) > 1:
        reason += f" Volumes differ: {each}."
    if len(set(names.values())) > 2:
        reason += " Give the classes their names."
    return {str(value): name for value, name in names.items()}, reason


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
        one = next(one for one in seen if one.kind != "objects")
        raise InvalidArgumentError(
            f"init: {one.name}: {one.kind_reason}; expected --task classes, or --task affinities for objects"
        )
    return "affinities" if start is None else "flood"


def _voxel_size(
    images: Sequence[Volume], given: Sequence[float] | None, task: Task
) -> SizeNm | None:
    """Return the voxel size of all images; None if it is unknown: classes of sections can be learnt without."""
    known = [volumes.settled_size(image, given, "--voxel-nm") for image in images]
    if not task.of_objects and not any(known):
        notes.show(
            f"{images[0].name}: states no voxel size: sections are taken for independent; --voxel-nm z,y,x states it"
        )
        return None
    first, *others = (voxel_size_of(image, given) for image in images)
    for image, size in zip(images[1:], others, strict=True):
        if not problems.fits(size, first):
            raise InvalidArgumentError(
                f"init: {images[0].name} has voxels of {first} nm, {image.name} of {size}, expected the same;"
                " `floodtide convert` resamples one (--resample-nm)"
            )
    return first


def _at_wanted_size(wish: Wish, out: Path) -> Wish:
    """Return the wish with the volumes of the training. Changed copies that it needs are written beside the plan."""
    size = wanted = wish.edges
    if wish.task.of_objects and (wish.task.predicts or is_small(wish)):
        wanted = coarser(wish.shape, wish.smallest, size)
    if wish.start is not None and wish.start.voxel_size_nm is not None:
        wanted = wish.start.voxel_size_nm
    resample = None if problems.fits(size, wanted) else wanted
    eroded = needs_membrane(wish)
    if resample is None and not eroded:
        return wish
    # Wherever two objects meet, a coarse voxel between them must hold at least as much membrane as object.
    ratios = [new / old for new, old in zip(resample or size, size, strict=True)]
    erode = as_vec3([math.ceil(ratio / 2) if eroded else 0 for ratio in ratios])
    pairs = []
    for number, (image, labels) in enumerate(wish.pairs):
        ending = "labels" if resample is None else f"{'x'.join(f'{n:g}' for n in resample)}nm"
        which = "" if len(wish.pairs) == 1 else str(number)
        path = out.with_name(f"{out.stem}{which}-{ending}.h5")
        if resample is not None:
            image = _copy(image, f"{path}:raw", size, resample)
        pairs.append((image, _copy(labels, f"{path}:labels", size, resample, erode)))
    seen = tuple(_seen(labels, wish.unlabelled) for _, labels in pairs)
    return dataclasses.replace(
        wish,
        pairs=tuple(pairs),
        labels_seen=seen,
        voxel_size_nm=resample or size,
        resampled_from=None if resample is None else size,
        eroded=eroded,
    )


def _copy(
    volume: Volume, name: str, size: SizeNm, wanted: SizeNm | None, erode: Vec3 | None = None
) -> Volume:
    """Write a copy of a volume of voxels of a size, and return it.

    Args:
        wanted: Voxel size (z, y, x) of the copy; None: that of the volume.
        erode: For labels: voxels (z, y, x) by which they are eroded.
    """
    with bar("voxels", f"copy {name.rpartition(':')[2]}") as progress:
        return convert(
            volume,
            name,
            voxel_size_nm=size,
            resample_nm=wanted,
            labels=erode is not None,
            erode=erode or 0,
            command="floodtide init",
            progress=progress,
        )
