# SPDX-License-Identifier: Apache-2.0
"""The table of places of a segmentation that a person should look at first: a CSV file beside the volume."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from floodtide.base import notes, reading
from floodtide.base.files import path_and_dataset, replace_bytes
from floodtide.base.outputs import PRECOMPUTED, starts_like, volume_folder
from floodtide.data.boxes import Vec3, as_vec3, difference, grown, total
from floodtide.data.formats.table import HDF5, format_of
from floodtide.data.volumes import Volume, volume_exists

REACH = 2
"""Voxels around a voxel of a side that tell its segment: images may be resampled."""

MOST = 1000
"""Largest number of places in a table."""

SPLIT, MERGE, END = "split", "merge", "end"
_KINDS = (SPLIT, MERGE, END)
_MARK = "# floodtide places"
_BEGIN = r"segments begin at (\d+) (\d+) (\d+)"
_SCALE = 0.03  # distance of a score from the threshold at which a place counts 1/e
_COLUMNS = (
    *("z", "y", "x", "kind", "score", "segment_a", "segment_b", "voxels_a", "voxels_b"),
    *("a_z", "a_y", "a_x", "b_z", "b_y", "b_x"),
)


@dataclass(frozen=True)
class Place:
    """A contact in doubt, or a piece that ends inside the tissue.

    Attributes:
        zyx: The middle of the contact, in voxels of the image.
        kind: SPLIT: two segments that may be one object. MERGE: two pieces of one segment that may be two objects. END:
            the first segment ends inside the tissue; the second one is the most likely continuation, 0: none touches.
        score: Affinity between both sides. Above the threshold, they were merged.
        segments: Both segments; of MERGE twice the same.
        voxels: Voxels of both sides.
        sides: A voxel (z, y, x) inside each side, near the contact.
    """

    zyx: Vec3
    kind: str
    score: float
    segments: tuple[int, int]
    voxels: tuple[int, int]
    sides: tuple[Vec3, Vec3]

    def moved(self, to: Callable[[Vec3], Vec3]) -> Place:
        """Return the place with other coordinates."""
        a, b = map(to, self.sides)
        return dataclasses.replace(self, zyx=to(self.zyx), sides=(a, b))


def doubt(kind: str, score: float, voxels: tuple[int, int], threshold: float) -> float:
    """Return how early a place should be looked at, the larger the earlier. Arguments as of Place.

    A wrong merge of large pieces matters more. So the first places have a score close to the threshold and a large
    smaller side.
    """
    distance, size = (0.0, voxels[0]) if kind == END else (abs(score - threshold), min(voxels))
    return math.exp(-distance / _SCALE) * math.log1p(size / 10)


def table_of(name: str) -> Path:
    """Return the table of a segmentation: `out.h5.segments.places.csv` of `out.h5:segments`, in the same folder."""
    row, folder = format_of(name), volume_folder(name)
    if row is HDF5:
        file, inside = path_and_dataset(name)
    elif folder is not None:
        file, inside = folder, name.removeprefix(PRECOMPUTED).removeprefix(folder)
    else:
        file, inside = str(row.path(name)), ""
    path = Path(file)
    parts = [path.name, *(part for part in inside.split("/") if part), "places.csv"]
    return path.with_name(".".join(parts))


def places_beside(out: str) -> Path:
    """Return the table of a segmentation that will be written.

    Raises:
        InvalidArgumentError: If another file has its name.
    """
    file = table_of(out)
    starts_like("a table of places", _MARK.encode())(str(file))
    return file


def write_places(file: Path, places: Sequence[Place] | None, start: Vec3, threshold: float) -> bool:
    """Write a table, the first place first. Return False without places: an older table is removed. Not collective.

    Args:
        file: The table.
        places: The places; None: there is no table for this segmentation.
        start: The first voxel (z, y, x) of the segmentation, in voxels of the image.
        threshold: That of the agglomeration.
    """
    if places is None:
        file.unlink(missing_ok=True)
        return False
    text = io.StringIO()
    begin = f"segments begin at {start[0]} {start[1]} {start[2]}"
    text.write(f"{_MARK} in voxels of the image; {begin}; threshold {threshold:g}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in places:
        row = [*one.zyx, one.kind, f"{one.score:.4f}", *one.segments, *one.voxels]
        writer.writerow([*row, *one.sides[0], *one.sides[1]])
    replace_bytes(file, text.getvalue().encode())
    return True


def read_places(name: str, start: Vec3) -> list[Place] | None:
    """Return the places of a segmentation; None without a table.

    Args:
        name: The segmentation.
        start: Its first voxel in the voxels to return. The table counts from the first voxel of the image.
    """
    file = table_of(name)
    if not reading.exists(file):
        return None
    with reading.reading(file, "a table of places, as `floodtide segment` writes it"):
        head, columns, *rows = csv.reader(io.StringIO(reading.read_text(file)))
        begin = re.match(rf"{_MARK} in voxels of the image; {_BEGIN};", head[0])
        if begin is None or columns != [*_COLUMNS]:
            raise ValueError("another header")
        shift = difference(start, [int(n) for n in begin.groups()])
        return [_place(row).moved(lambda voxel: total(voxel, shift)) for row in rows]


def places_in(volume: Volume, start: Vec3) -> list[Place] | None:
    """Return the places of a segmentation; None without a table.

    If the first places lie in other segments, another program has replaced the segmentation. Then a note says so, and
    there are no places.

    Args:
        volume: The segmentation.
        start: Its first voxel in the voxels to return.
    """
    places = read_places(volume.name, start) if volume_exists(volume.name) else None
    for one in (places or [])[:20]:
        voxel = difference(one.sides[0], start)
        box = grown((voxel, (1, 1, 1)), (REACH,) * 3, volume.shape)
        if min(box[1]) < 1 or not (volume.read(box) == one.segments[0]).any():
            notes.show(f"{table_of(volume.name)} lists places of another segmentation: left out")
            return None
    return places


def _place(row: Sequence[str]) -> Place:
    z, y, x, kind, score, *numbers = row
    if kind not in _KINDS or len(row) != len(_COLUMNS):
        raise ValueError(f"a row of kind {kind}")
    a, b, voxels_a, voxels_b, *sides = map(int, numbers)
    near = as_vec3(sides[:3]), as_vec3(sides[3:])
    return Place((int(z), int(y), int(x)), kind, float(score), (a, b), (voxels_a, voxels_b), near)
