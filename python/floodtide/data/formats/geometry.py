# SPDX-License-Identifier: Apache-2.0
"""Where a volume lies and how large its voxels are, as its file states it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from floodtide.base import limits, notes
from floodtide.data.boxes import Vec3
from floodtide.errors import InvalidFileError

SizeNm = tuple[float, float, float]

SAME = 1e-3  # sizes that differ by less are the same; files keep rounded numbers
_WHOLE = 0.02  # of a voxel: positions that are as close to a whole number need no note


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Voxel size and offset (z, y, x) of a volume, if its format states them. Offsets have any sign.

    Attributes:
        voxel_size_nm: Edges of a voxel in nm; None: unknown.
        offset: The first voxel, in voxels of the whole volume; None: unknown.
        size_source: What states the voxel size: "attribute resolution", for messages.
        offset_source: What states the offset.
        axes_source: What states the order of the axes; "": nothing, the axes are taken as z, y, x.
    """

    voxel_size_nm: SizeNm | None = None
    offset: Vec3 | None = None
    size_source: str = field(default="", compare=False)
    offset_source: str = field(default="", compare=False)
    axes_source: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """Axes, voxel size and offset in words, each with what states it."""
        parts = [f"axes z, y, x ({self.axes_source or 'as stored'})", "voxels of unknown size"]
        if self.voxel_size_nm is not None:
            parts[1] = f"voxels of {size_text(self.voxel_size_nm)} nm ({self.size_source})"
        if self.offset is not None:
            place = ", ".join(map(str, self.offset))
            parts.append(f"first voxel at {place} ({self.offset_source})")
        return "; ".join(parts)


def same_size(a: SizeNm, b: SizeNm) -> bool:
    """Return True if two voxel sizes are the same, up to the rounding of files."""
    return all(math.isclose(m, n, rel_tol=SAME) for m, n in zip(a, b, strict=True))


def size_text(size: Sequence[Any]) -> str:
    """Return a voxel size as text: "40 x 4 x 4"."""
    return " x ".join(f"{n:.6g}" if isinstance(n, int | float) else repr(n) for n in size)


def size_of(name: str, source: str, size: Sequence[Any]) -> SizeNm | None:
    """Return a voxel size in nm that a file states; None, with a note, if it is none.

    Args:
        name: The volume, for messages.
        source: What states the size.
        size: (z, y, x) in nm.
    """
    least, most = limits.VOXEL_SIZE.minimum, limits.VOXEL_SIZE.maximum
    if is_triple(list(size)) and least <= min(size) and max(size) <= most:
        return float(size[0]), float(size[1]), float(size[2])
    text = f"voxels of {size_text(size)} nm (z, y, x), as stated by {source}"
    not_used(name, f"{text}, expected {least:g} to {most:g} nm")
    return None


def not_used(name: str, what: str) -> None:
    """Note that something that may state the voxel size of a volume is not used."""
    notes.show(f"{name}: {what}: not used; --voxel-nm states a voxel size")


def is_triple(values: Any) -> bool:
    """Return True for three finite numbers."""
    return (
        isinstance(values, list | tuple)
        and len(values) == 3
        and all(
            isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n)
            for n in values
        )
    )


def voxels_of(name: str, position: Sequence[float], what: str) -> Vec3:
    """Return a position as whole voxels, with a note if that moves it.

    Args:
        name: The volume, for messages.
        position: (z, y, x) in voxels.
        what: What states the position.

    Raises:
        InvalidFileError: If a number is too large for a position.
    """
    if not all(math.isfinite(n) and abs(n) < 2**53 for n in position):
        raise InvalidFileError(
            f"{name}: {what} is {list(position)} voxels, expected positions in a volume"
        )
    z, y, x = (round(n) for n in position)
    if any(abs(n - m) > _WHOLE for n, m in zip(position, (z, y, x), strict=True)):
        exact = ", ".join(f"{n:.6g}" for n in position)
        notes.show(
            f"{name}: {what} puts the first voxel at {exact} (z, y, x) voxels, taken as {z}, {y}, {x}"
        )
    return z, y, x
