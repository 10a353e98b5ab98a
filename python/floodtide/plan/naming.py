# SPDX-License-Identifier: Apache-2.0
"""The table of classes of a plan: names for the values that masks hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from floodtide.base import limits
from floodtide.data.formats.table import stem
from floodtide.data.look.labels import LabelStatistics
from floodtide.errors import InvalidArgumentError

_MASK = {1, 255}  # values by which masks of one class may differ


def classes_of(
    labels: Sequence[str], seen: Sequence[LabelStatistics]
) -> tuple[dict[str, str], str]:
    """Return `task.classes` for labels, and its reason. Grey levels at smooth edges belong to the nearer class."""
    found = [one.inner or tuple(value for value, _ in one.values) for one in seen]
    known = sorted(set().union(*found))
    beyond = [one.objects for one in seen if not one.inner]
    count = max(len(known), *beyond, 0)
    if count not in limits.MASK_CLASSES:
        raise InvalidArgumentError(
            f"init: {', '.join(labels)}: the labels have {count} value(s), expected {limits.MASK_CLASSES}; objects:"
            " --task affinities"
        )
    pairs = zip(labels, found, strict=True)
    each = "; ".join(f"{name} has {', '.join(map(str, values))}" for name, values in pairs)
    names = {value: f"class {value}" for value in known}
    masks = all(len(one) == 2 and one[0] == known[0] for one in found)
    if len(known) == 2 or (masks and {*known[1:]} <= _MASK):
        names = dict.fromkeys(known, _name(labels[0]))  # of masks of 0 and 1, and of 0 and 255
    names[known[0]] = "background"
    if any(one.inner for one in seen):
        if len(set(found)) > 1:
            raise InvalidArgumentError(
                f"init: {each}, some with smooth edges; expected masks of the same values"
            )
        ranges = max(seen, key=lambda one: one.highest).ranges
        table = {f"{a}-{b}": names[n] for (a, b), n in zip(ranges, known, strict=True)}
        shown = " or ".join(map(str, known))
        reason = (
            f"The labels are {shown} but at smooth edges, where values count to the nearer one."
        )
        if len(known) > 2:
            reason += " Masks that are resized without interpolation have no seam of a class between two others."
        return table, reason
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


def _name(labels: str) -> str:
    """Return a name for the class of a mask: that of its folder for a pattern of files, else that of its file."""
    name = stem(labels)  # of a pattern, the name of the folder
    return name if name and name != "background" else "foreground"
