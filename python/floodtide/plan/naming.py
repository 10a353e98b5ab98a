# SPDX-License-Identifier: Apache-2.0
"""The table of classes of a plan: names for the values that masks hold."""

from __future__ import annotations

from collections.abc import Sequence

from floodtide.data.formats.table import stem
from floodtide.data.look.labels import LabelStatistics
from floodtide.errors import InvalidArgumentError

_SMOOTH = 0.01  # share of the voxels that may have a grey level between those of a mask
_MOST = 32


def classes_of(
    labels: Sequence[str], seen: Sequence[LabelStatistics]
) -> tuple[dict[str, str], str]:
    """Return `task.classes` for labels, and its reason.

    Raises:
        InvalidArgumentError: If the labels have too many values, or one.
    """
    counts: dict[int, int] = {}
    for one in seen:
        for value, voxels in one.values:
            counts[value] = counts.get(value, 0) + voxels
    total = sum(counts.values())
    found = sorted(counts)
    name = _name(labels[0])
    if len(found) == 2:
        low, high = found
        return {
            str(low): "background",
            str(high): name,
        }, f"The labels have these two values: {_shares(counts)}."
    main = sorted(sorted(counts, key=lambda value: -counts[value])[:2])
    rest = total - sum(counts[value] for value in main)
    if len(found) > 2 and main == [found[0], found[-1]] and rest <= _SMOOTH * total:
        low, high = main
        middle = (low + high) // 2
        table = {f"{low}-{middle}": "background", f"{middle + 1}-{high}": name}
        return table, (
            f"The labels are {low} or {high} but for {100 * rest / total:.2g} % of the voxels, at smooth edges: those"
            " count to the nearer one."
        )
    if not 2 <= len(found) <= _MOST:
        raise InvalidArgumentError(
            f"init: {', '.join(labels)}: the labels have {len(found)} value(s), expected 2 to {_MOST} classes; objects:"
            " --task affinities"
        )
    table = {str(value): f"class {value}" for value in found}
    table[str(found[0])] = "background"
    return table, f"The values of the labels: {_shares(counts)}. Give the classes their names."


def _shares(counts: dict[int, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{value} ({100 * n / total:.2g} %)" for value, n in sorted(counts.items()))


def _name(labels: str) -> str:
    """Return a name for the class of a mask: that of its folder for a pattern of files, else that of its file."""
    folder = [
        part for part in labels.replace("\\", "/").split("/")[:-1] if part not in ("", ".", "..")
    ]
    name = (
        folder[-1]
        if folder and any(c in labels.rsplit("/", 1)[-1] for c in "*?[")
        else stem(labels)
    )
    return name if name and name != "background" else "foreground"
