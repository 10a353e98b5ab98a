# SPDX-License-Identifier: Apache-2.0
"""Where a volume lies and how large its voxels are, as its file states it in the names that other programs use.

`AXES`, `NM`, `SIZES` and `OFFSETS` are the tables. Readers pass what a file states through the functions below. They
use it, refuse it in one line, or note that it was not used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from floodtide.base import limits, notes
from floodtide.data.boxes import Vec3
from floodtide.errors import InvalidFileError

SizeNm = tuple[float, float, float]

SAME = 1e-3  # sizes that differ by less are the same; files keep rounded numbers
_MOST_SHOWN = 100  # characters of a stated value in a message
_WHOLE = 0.02  # of a voxel: positions that are as close to a whole number need no note

NM: dict[str, float] = {
    "pm": 1e-3, "picometer": 1e-3, "angstrom": 0.1, "å": 0.1, "nm": 1.0, "nanometer": 1.0, "nanometre": 1.0,
    "um": 1e3, "µm": 1e3, "\\u00b5m": 1e3, "micron": 1e3, "micrometer": 1e3, "micrometre": 1e3,
    "mm": 1e6, "millimeter": 1e6, "millimetre": 1e6, "cm": 1e7, "centimeter": 1e7, "centimetre": 1e7,
    "m": 1e9, "meter": 1e9, "metre": 1e9, "in": 2.54e7, "inch": 2.54e7,
}  # fmt: skip
"""Lengths in nm of the names of units, in lower case."""

VOXEL_UNITS = ("", "pixel", "pixels", "voxel", "voxels", "px", "none", "null", "index", "arbitrary")
"""Names of units that are no length."""

AXES = {
    "z": "z", "y": "y", "x": "x", "c": "c", "ch": "c", "channel": "c", "channels": "c", "t": "t", "time": "t",
    "depth": "z", "height": "y", "width": "x", "plane": "z", "pln": "z", "slice": "z", "row": "y", "col": "x",
    "column": "x", "zspace": "z", "yspace": "y", "xspace": "x",
}  # fmt: skip
"""Axes of the names that files use, in lower case and without the ^ of funlib."""

WRITTEN_BY = "written_by"
"""Key of the command that has written a volume, in all formats that have keys."""

NO_SIZE = "floodtide_voxel_size_unknown"
"""Key of an info whose `resolution` of 1 nm stands for an unknown voxel size: the format has no other way."""

NO_PLACE = "floodtide_position_unknown"
"""Key of an info whose `voxel_offset` of 0 stands for an unknown position."""


@dataclass(frozen=True)
class Stated:
    """An attribute of an array that states a size or an offset.

    Attributes:
        unit: Its unit; None: the array's attribute `units`, else nm.
        reverse: True if the numbers are in the reverse order of the array's axes.
        part: The item of a dictionary that has the numbers, beside its own `axes` and `units`; "": it is none.
        quantities: True if each number has its unit: "40 nm" or [40, "nm"].
    """

    key: str
    unit: str | None = None
    reverse: bool = False
    part: str = ""
    quantities: bool = False


SIZES = (
    Stated("transform", "nm", part="scale"),  # Cellmap
    Stated("dimension_units", quantities=True),  # tensorstore
    Stated("voxel_size"),  # funlib, gunpowder
    Stated("resolution"),  # floodtide, CREMI, N5
    Stated("voxel_size_nm", "nm"),
    Stated("voxel_size_um", "um"),
    Stated("element_size_um", "um"),  # ilastik, PlantSeg
    Stated("spacings", reverse=True),  # as in NRRD: the fastest axis comes first
)
OFFSETS = (
    Stated("transform", "nm", part="translate"),
    Stated("box_start", "voxel"),  # floodtide
    Stated("offset"),
    Stated("space origin", reverse=True),  # as in NRRD
)
NOTED = (
    "space directions", "spacing", "Spacing", "scale", "voxelsize", "voxelSize", "voxel_resolution",
    "resolution_nm", "element_size", "element_size_nm", "element_size_mm", "pixel_size", "pixel_size_nm", "pixelsize",
    "pixelResolution", "pixelWidth", "PixelSize", "VoxelSize", "Resolution", "PhysicalSizeX",
)  # fmt: skip
"""Attributes that state a size in an order or a unit that files do not agree about."""
NOTED_PLACES = ("voxel_offset", "translate", "translation", "origin", "Offset", "offset_nm", "xOrigin")  # fmt: skip
"""Attributes that state a position, likewise."""
NOTED_VALUES: dict[str, Any] = {
    "scale_factor": 1, "add_offset": 0, "_FillValue": 0, "missing_value": 0, "_Unsigned": "false", "valid_range": None,
    "ignore_label": None, "direction": None, "orientation": None, "affine": None, "space": None,
}  # fmt: skip
"""Attributes of netCDF, xarray, ITK and others that change voxels or turn them, with the values that change none."""
UNITS = ("units", "unit", "space units")
NAMES = (
    "dimension_names", "axis_names", "axes", "_ARRAY_DIMENSIONS", "axistags", "DIMENSION_LABELS",
    "transform", "axisOrder", "axis_order", "dim_order", "dimension_order", "dimorder", "dims", "Axes", "axislabels",
    "dimension scales",
)  # fmt: skip
_STATED = [one.key for one in (*SIZES, *OFFSETS)]
KEYS = (*dict.fromkeys([*_STATED, *NOTED, *NOTED_PLACES, *NOTED_VALUES, *UNITS, *NAMES]),)
"""Every attribute of an array that is looked at."""


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Voxel size and offset (z, y, x) of a volume, if its format states them. Offsets have any sign.

    Attributes:
        voxel_size_nm: Edges of a voxel in nm; None: unknown.
        offset: The first voxel, in voxels of the whole volume; None: unknown.
        size_source, offset_source: What states them: "attribute resolution", for messages.
        axes_source: What states the order of the axes; "": nothing, the axes are taken as z, y, x.
    """

    voxel_size_nm: SizeNm | None = None
    offset: Vec3 | None = None
    size_source: str = field(default="", compare=False)
    offset_source: str = field(default="", compare=False)
    axes_source: str = field(default="", compare=False)

    @classmethod
    def by(cls, source: str, size: SizeNm | None, offset: Vec3 | None, axes: str) -> Geometry:
        """Return the size and the offset that one source states, and what states the order of the axes."""
        found = cls(voxel_size_nm=size, offset=offset, axes_source=axes)
        return dataclasses.replace(found, size_source=source, offset_source=source)

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


UNKNOWN = Geometry()


def same_size(a: SizeNm, b: SizeNm) -> bool:
    """Return True if two voxel sizes are the same, up to the rounding of files."""
    return all(math.isclose(m, n, rel_tol=SAME) for m, n in zip(a, b, strict=True))


def size_text(size: Sequence[Any]) -> str:
    """Return a voxel size as text: "40 x 4 x 4"."""
    return " x ".join(f"{n:.6g}" if isinstance(n, int | float) else repr(n) for n in size)


def size_of(name: str, source: str, size: Sequence[Any]) -> SizeNm | None:
    """Return a voxel size (z, y, x) in nm that the `source` in a file states; None, with a note, if it is none."""
    least, most = limits.VOXEL_SIZE.minimum, limits.VOXEL_SIZE.maximum
    if are_numbers(list(size)) and least <= min(size) and max(size) <= most:
        return float(size[0]), float(size[1]), float(size[2])
    text = f"voxels of {size_text(size)} nm (z, y, x), as stated by {source}"
    not_used(name, f"{text}, expected {least:g} to {most:g} nm")
    return None


def not_used(name: str, what: str) -> None:
    """Note that something that may state the voxel size of a volume is not used."""
    notes.show(f"{name}: {what}: not used; --voxel-nm states a voxel size")


def shown(value: Any) -> str:
    """Return a stated value as one line for a message, texts without quotes, with ... if it is cut."""
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def are_numbers(values: Any, count: int = 3) -> bool:
    """Return True for this many finite numbers."""
    if not isinstance(values, list | tuple) or len(values) != count:
        return False
    known = [n for n in values if isinstance(n, int | float) and not isinstance(n, bool)]
    return len(known) == count and all(map(math.isfinite, known))


def voxels_of(name: str, position: Sequence[float], what: str) -> Vec3:
    """Return a position (z, y, x) that something states as whole voxels, with a note if that moves it."""
    if not all(math.isfinite(n) and abs(n) < 2**53 for n in position):
        raise InvalidFileError(
            f"{name}: {what} is {list(position)} voxels, expected positions in a volume"
        )
    # Halves are rounded up, also with an error of rounding, so that distances of whole voxels stay the same.
    z, y, x = (math.floor(round(n, 3) + 0.5) for n in position)
    if any(abs(n - m) > _WHOLE for n, m in zip(position, (z, y, x), strict=True)):
        exact = ", ".join(f"{n:.6g}" for n in position)
        notes.show(
            f"{name}: {what} puts the first voxel at {exact} (z, y, x) voxels, taken as {z}, {y}, {x}"
        )
    return z, y, x


def unit_nm(unit: Any) -> float | None:
    """Return a unit in nm; None if it is no length that is known."""
    name = str(unit).strip().replace("\u03bc", "µ").lower()
    return NM.get(name) or NM.get(name.removesuffix("s"))


def stated_size(
    name: str, source: str, edges: Sequence[float], units: Sequence[str]
) -> SizeNm | None:
    """Return the voxel size (z, y, x) in nm of edges in these units; None, with a note, if they are no lengths.

    Edges of one voxel, or of one without a unit, state nothing, and get no note.
    """
    nm = [unit_nm(unit) for unit in units]
    if None not in nm:
        z, y, x = (n * (factor or 1.0) for n, factor in zip(edges, nm, strict=True))
        return size_of(name, source, (z, y, x))
    if set(edges) != {1.0} or any(unit.strip().lower() not in VOXEL_UNITS for unit in units):
        named = ", ".join(dict.fromkeys(unit for unit in units if unit))
        unit = f"in '{named}'" if named else "without a unit"
        text = (
            f"voxels of {size_text(edges)} (z, y, x) {unit}, as stated by {source}, are no length"
        )
        not_used(name, text)
    return None


def plain(value: Any) -> Any:
    """Return an attribute of h5py or zarr as JSON would hold it: a text, or a list."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str | Mapping):
        return value
    if getattr(value, "shape", ()) is None:  # h5py.Empty
        return []
    values = np.asarray(value).ravel().tolist()
    return [plain(one) if isinstance(one, bytes) else one for one in values]


def axis_names(given: Any) -> tuple[str, ...] | None:
    """Return the names of axes of a list, of a text such as "zyx", or of vigra's axistags; None if it has none."""
    given = _parsed(given)
    if isinstance(given, Mapping):
        turned = given.get("order") == "F"  # of Cellmap: the fastest axis comes first
        given = given.get("axes")
        given = given[::-1] if turned and isinstance(given, list) else given
    if isinstance(given, str):
        words = re.findall(r"[\w^]+", given)
        given = list(words[0]) if len(words) == 1 else words
        if not all(one.lower() in AXES for one in given):
            return None  # a text about something else
    if not isinstance(given, list | tuple):
        return None
    plain = [one.get("key", one.get("name")) if isinstance(one, Mapping) else one for one in given]
    found = [AXES.get(str(one).lower().rstrip("^"), "") for one in plain]
    if not any(found):
        return None  # dim_0, dim_1, ...
    whole = ("c", "z", "y", "x")[-len(found) :]
    if len(found) in (3, 4) and all(
        a == b or not c for a, b, c in zip(found, whole, plain, strict=True)
    ):
        return whole  # some have no name, as labels of HDF5 dimensions
    return tuple(a or str(b or "?") for a, b in zip(found, plain, strict=True))


def _parsed(given: Any) -> Any:
    """Return what a text of JSON holds, as axistags of vigra or "[40, 4, 4]"; anything else as it is."""
    if isinstance(given, str) and given.startswith(("{", "[")):
        with contextlib.suppress(ValueError):  # a text about something else
            return json.loads(given)
    return given


def names_of(name: str, attributes: Mapping[str, Any], rank: int) -> tuple[str, ...] | None:
    """Return the names of the axes of an array that its attributes state; None if they state none."""
    found, source = None, ""
    for key in NAMES:
        given = _parsed(attributes.get(key))
        names = axis_names(given)
        if names is None:
            texts = given if isinstance(given, list) else [given]
            texts = [one or "?" for one in texts if isinstance(one, str)]
            if any(one != "?" and not re.fullmatch(r"\w*(dim|axis)_?\d+", one) for one in texts):
                notes.show(
                    f"{name}: {key} names the axes {', '.join(texts)}, which are not known: taken as z, y, x"
                )
            continue
        if len(names) != rank or found not in (None, names):
            raise InvalidFileError(
                f"{name}: {key} names the axes {', '.join(names)}, expected"
                + (f" {rank} axes" if found is None else f" {', '.join(found)} as {source} does")
            )
        found, source = names, key
        tags = given.get("axes") or () if isinstance(given, Mapping) else ()
        sizes = [one.get("resolution") for one in tags if isinstance(one, Mapping)]
        if any(sizes):  # of vigra
            text = f"{key} state a resolution of {', '.join(map(str, sizes))} without a unit"
            not_used(name, text)
    return found


def images_of(attributes: Any) -> list[dict[str, Any]]:
    """Return the OME-Zarr images that the attributes of a group describe."""
    ome = attributes.get("ome", attributes) if isinstance(attributes, Mapping) else {}
    return listed(ome.get("multiscales")) if isinstance(ome, Mapping) else []


def listed(values: Any) -> list[dict[str, Any]]:
    """Return the objects of a list of JSON; none of anything else."""
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def order_of(
    name: str, names: Sequence[str] | None, shape: Sequence[int], channel: int | None
) -> tuple[tuple[int | slice, ...], Vec3]:
    """Return an index that leaves three axes of an array, and the order in which these become z, y, x.

    Args:
        names: The names of its axes; None: z, y, x, or channel, z, y, x if there is a channel and a fourth axis.
        channel: The channel to read; None: there must be one.
    """
    if names is None:
        names = ("c", "z", "y", "x") if channel is not None and len(shape) == 4 else ("z", "y", "x")
        if len(shape) != len(names):
            raise InvalidFileError(
                f"{name}: has {len(shape)} axes, shape {tuple(shape)}; expected three (z, y, x)"
            )
    text = f"{name}: has axes {', '.join(names)} of {tuple(shape)}"
    if len(names) != len(shape) or len(set(names)) != len(names) or not set("zyx") <= set(names):
        raise InvalidFileError(f"{text}, expected z, y and x, each once")
    channels = shape[names.index("c")] if "c" in names else 1
    if channel is not None and not 0 <= channel < channels:
        raise InvalidFileError(
            f"{name}: has {channels} channel{'s' * (channels != 1)}, expected one with the index {channel}"
        )
    kept: dict[str, int | slice] = dict.fromkeys("zyx", slice(None))
    if channel is not None:
        kept["c"] = channel
    for axis, size in zip(names, shape, strict=True):
        if axis not in kept and size != 1:
            how = "; ft.data.convert(ft.data.Volume(name, channel=0), copy) in Python copies one"
            raise InvalidFileError(
                f"{text}, expected one time and one channel{how if axis == 'c' else ''}"
            )
    left = [axis for axis in names if axis in ("z", "y", "x")]
    index = tuple(kept.get(axis, 0) for axis in names)
    return index, (left.index("z"), left.index("y"), left.index("x"))


def geometry_of(
    name: str,
    attributes: Mapping[str, Any],
    axes: Sequence[str] | None = None,
    *,
    sizes: Sequence[Stated] = SIZES,
    known: Geometry = UNKNOWN,
) -> Geometry:
    """Return the geometry that the attributes of an array state.

    Args:
        axes: The names of its axes, for attributes that have a number for each; None: z, y, x.
        sizes: The attributes that state a voxel size.
        known: What something else states already; the attributes must not contradict it.
    """
    named = next((key for key in NAMES if axis_names(attributes.get(key))), None)
    source = known.axes_source or ("" if named is None else f"attribute {named}")
    found = dataclasses.replace(known, axes_source=source)
    for one in sizes:
        numbers, source = _numbers(name, one, attributes, axes), f"attribute {one.key}"
        edges = stated_size(name, source, *numbers) if numbers else None
        size = found.voxel_size_nm
        if size is None and edges is not None:
            found = dataclasses.replace(found, voxel_size_nm=edges, size_source=source)
        elif size is not None and edges is not None and not same_size(size, edges):
            raise InvalidFileError(
                f"{name}: {found.size_source} states voxels of {size_text(size)} nm, {source} of"
                f" {size_text(edges)} nm; expected one voxel size"
            )
    for one in OFFSETS:
        numbers, source = _numbers(name, one, attributes, axes), f"attribute {one.key}"
        start = _start(name, source, *numbers, found.voxel_size_nm) if numbers else None
        if found.offset is None and start is not None:
            found = dataclasses.replace(found, offset=start, offset_source=source)
        elif start not in (None, found.offset):
            raise InvalidFileError(
                f"{name}: {found.offset_source} states a first voxel at {found.offset}, {source} at {start}"
                " (z, y, x); expected one position"
            )
    unread = {key: attributes[key] for key in attributes.keys() - {one.key for one in sizes}}
    _note_unused(name, unread, found)
    return found


def _numbers(
    name: str, one: Stated, attributes: Mapping[str, Any], axes: Sequence[str] | None
) -> tuple[SizeNm, list[str]] | None:
    """Return the numbers (z, y, x) of an attribute and their units; None without it, or with a note if it is wrong."""
    values, units = _parsed(attributes.get(one.key)), _units_of(attributes)
    if values is None:
        return None
    given = one.unit
    if one.part:
        if not isinstance(values, Mapping) or not {"scale", "translate"} & set(values):
            text = f"{name}: attribute {one.key} is {shown(values)}"
            notes.show(f"{text}, expected axes, scale and translate: not used")
            return None
        axes, units = axis_names(values.get("axes")) or ("z", "y", "x"), _units_of(values)
        given, values = given if units is None else units, values.get(one.part)
        if values is None:
            return None
    elif one.quantities:
        values, given = _quantities(values)
    elif given is None:
        given = "nm" if units is None else units
    found = in_order(values, axes, one.reverse)
    named = in_order([given] * 3 if isinstance(given, str) else given, axes, one.reverse)
    if found is not None and named is not None and are_numbers(found):
        z, y, x = map(_shortest, found)
        return (z, y, x), [*map(str, named)]
    text = f"{name}: attribute {one.key} is {shown(values)}"
    text += f" in {shown(units)}" if units is not None else ""
    if one.key == "box_start":  # of floodtide itself
        raise InvalidFileError(f"{text}, expected three integers (z, y, x)")
    notes.show(f"{text}, expected three numbers: not used")
    return None


def _shortest(number: float) -> float:
    """Return a number of 32 bits as it was meant: 0.04, and not 0.03999999910593033."""
    with np.errstate(over="ignore"):
        short = np.float32(number)
    return float(str(short)) if float(short) == number else float(number)


def _units_of(attributes: Mapping[str, Any]) -> Any:
    return next((attributes[key] for key in UNITS if key in attributes), None)


def _quantities(values: Any) -> tuple[Any, Any]:
    """Return the numbers and the units of values such as "40 nm", [40, "nm"], "nm" and null."""
    found: list[tuple[Any, str]] = []
    for one in values if isinstance(values, list | tuple) else ():
        text = " ".join(map(str, one)) if isinstance(one, list | tuple) else str(one or "")
        number = re.match(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)", text, re.IGNORECASE)
        unit = text[number.end() :] if number else text
        found.append((float(number[1]) if number else 1.0, unit.strip()))
    return ([n for n, _ in found], [unit for _, unit in found]) if found else (values, "")


def _note_unused(name: str, attributes: Mapping[str, Any], found: Geometry) -> None:
    """Note attributes that may state an unknown size or position, or change the voxels."""
    for key in NOTED if found.voxel_size_nm is None else ():
        if attributes.get(key):
            not_used(name, f"attribute {key} is {shown(attributes[key])}")
    for key in NOTED_PLACES if found.offset is None else ():
        if attributes.get(key):
            notes.show(f"{name}: attribute {key} is {shown(attributes[key])}: not used")
    for key, neutral in NOTED_VALUES.items():
        value = attributes.get(key)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if value not in (None, neutral) and str(value).lower() != "nan":
            notes.show(
                f"{name}: attribute {key} is {shown(value)}: not used, the voxels are read as they are stored"
            )


def _start(
    name: str, what: str, position: SizeNm, units: Sequence[str], size: SizeNm | None
) -> Vec3 | None:
    """Return an offset in voxels; None, with a note, if it is a length and the voxel size is unknown."""
    if all(unit.lower() in VOXEL_UNITS for unit in units):
        return voxels_of(name, position, what)
    nm = [unit_nm(unit) for unit in units]
    if size is not None and None not in nm:
        edges = zip(position, nm, size, strict=True)
        return voxels_of(name, [n * (factor or 1.0) / m for n, factor, m in edges], what)
    if any(position):
        why = (
            "the file states no voxel size" if size is None else f"its units are {', '.join(units)}"
        )
        notes.show(
            f"{name}: {what} is {list(position)}, and {why}: the position is not used, also with --voxel-nm"
        )
    return None


def in_order(values: Any, axes: Sequence[str] | None, reverse: bool = False) -> list[Any] | None:
    """Return what belongs to z, y and x of a list with a value for each axis, or for these three."""
    if not isinstance(values, list | tuple):
        return None
    plain = list(values)[::-1] if reverse else list(values)
    axes = ("z", "y", "x") if axes is None else axes
    if len(plain) != len(axes):
        axes = [axis for axis in axes if axis in ("z", "y", "x")]
    if len(plain) != len(axes) or not set("zyx") <= set(axes):
        return None
    return [plain[axes.index(axis)] for axis in "zyx"]
