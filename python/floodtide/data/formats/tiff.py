# SPDX-License-Identifier: Apache-2.0
"""What a TIFF file states: which pages are sections, and the metadata of ImageJ, OME and floodtide."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.base.libraries import library
from floodtide.data.boxes import Vec3
from floodtide.data.formats import geometry
from floodtide.errors import InvalidFileError, UnsupportedError

TIFF = (".tif", ".tiff")
"""Endings of names of TIFF files."""

_SERIES = re.compile(r"(.+\.tiff?):(\d{1,9})", re.IGNORECASE | re.DOTALL)
_SECTIONS = "ZQI"  # axes along which pages are sections: z, or an unnamed sequence
_IMAGEJ = ("uint8", "uint16", "float32")
_NO_UUID = (
    "00000000-0000-0000-0000-000000000000"  # tifffile's is random, so that no run repeats a file
)
_OME = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float32", "float64")
PALETTE, _WHITE_IS_ZERO = 3, 0  # values of PhotometricInterpretation
# Tags; Orientation 1: the first row is the top, and the first column is at the left
ORIENTATION, _GDAL, _NO_DATA = 274, 42112, 42113
_OF_MICROSCOPES = {34118: "Zeiss", 34682: "FEI", 65009: "Gatan"}
# Values of ResolutionUnit. Only tifffile writes the last two.
_UNITS = {2: "inch", 3: "cm", 4: "mm", 5: "um"}
_MOST_PAGES = 2000  # whose tags are compared
_FINE_NM = 1000.0  # pixels below this are those of a microscope, and not of a printer


def file_and_series(reference: str) -> tuple[str, int | None]:
    """Return the file and the series of a name such as "stack.tif:1"; None: the name has no series."""
    named = _SERIES.fullmatch(reference)
    if named is None or os.path.lexists(reference):
        return reference, None
    return named[1], int(named[2])


class Tables:
    """Colour tables (palettes) of the pictures of a volume of this name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._first: NDArray[Any] | None = None

    def values(self, path: str, numbers: NDArray[Any], table: NDArray[Any]) -> NDArray[Any]:
        """Return the grey levels of pixels that have numbers in a table; if it has colours, the numbers, with a note.

        Args:
            table: Red, green and blue of each number.
        """
        if (table == table[:, :1]).all():
            numbers = numbers.view(np.uint8) if numbers.dtype == np.bool_ else numbers
            return np.take(table[:, 0].astype(numbers.dtype), numbers)
        self._first = table if self._first is None else self._first
        both = min(len(table), len(self._first))
        if not np.array_equal(table[:both], self._first[:both]):
            raise InvalidFileError(
                f"{path}: has another colour table than an earlier file, expected one table for all"
            )
        notes.show(
            f"{self._name}: its values are indices of a colour table: these are read, not the colours"
        )
        return numbers


class Sections:
    """The pages of a TIFF file that are the sections of its only volume.

    Attributes:
        pages: One for each section, or a single page that holds all.
        shape: (z, y, x).
        offset: Position in bytes of the first voxel if all lie in one piece, else None.

    Args:
        number: The series to read; None: the file must hold one volume.
    """

    def __init__(self, path: str, file: Any, number: int | None = None) -> None:
        require_end_of_pages(path, file)
        every = [one for one in file.series if is_picture(one.keyframe)] or [*file.series[:1]]
        names = ", ".join(
            f"{path}:{i} ({' x '.join(map(str, one.shape))} {one.axes})"
            for i, one in enumerate(every[:6])
        )
        if number is not None:
            if number >= len(every):
                raise InvalidFileError(
                    f"{path}: holds {len(every)} series, expected one with the index {number}; {names}"
                )
            every = [every[number]]
        series = every[0]
        # Pages without metadata that differ only in their compression are several series of tifffile.
        alike = {(one.keyframe.shape, one.dtype, one.keyframe.photometric) for one in every}
        alone = all(one.axes == "YX" and len(one.pages) == 1 for one in every)
        plain = alone or all(one.kind == "generic" and one.axes[-2:] == "YX" for one in every)
        plain = plain and len(series.keyframe.shape) == 2
        several = len(every) > 1
        if several and not (len(alike) == 1 and plain and not file.is_ome):
            raise InvalidFileError(
                f"{path}: holds {len(every)} series of pictures, expected the name of one; {names}"
            )
        self.pages: Sequence[Any] = series.pages
        if several:
            pages = [page for one in every for page in one.pages]
            self.pages = sorted(pages, key=lambda page: page.index)
        if file.is_ome and any(page is None for page in self.pages):  # of other files
            parts = dict.fromkeys(re.findall(r'FileName="([^"]+)"', file.ome_metadata or ""))
            lost = [one for one in parts if not Path(path).with_name(one).is_file()]
            missing = sum(page is None for page in self.pages)
            which = f", expected {', '.join(lost[:5])}" if lost else ""
            raise InvalidFileError(
                f"{path}: {missing} of its {len(self.pages)} sections are missing{which}"
            )
        self.shape = (len(self.pages), *series.keyframe.shape) if several else _shape(path, series)
        if number is not None and not file.is_ome:
            _note_between(path, self.pages)
        self.dtype = series.dtype
        tabled = series.keyframe.photometric == PALETTE
        self.offset = None if several or tabled else series.dataoffset
        _check_counts(path, file, self.shape)
        note_colours(path, series.keyframe)
        if notes.speaks():
            _note_pages(path, series.keyframe, self.pages)
        stated = geometry_of_file(path, file, file.series.index(series))
        named = {"imagej": "its ImageJ metadata", "ome": "its OME metadata"}
        axes_source = named.get(series.kind, "pages in their order")
        self.geometry = dataclasses.replace(stated, axes_source=axes_source)
        if self.offset is None and len(self.pages) not in (1, self.shape[0]):
            raise InvalidFileError(
                f"{path}: has {len(self.pages)} pictures for a shape of {self.shape}"
            )


def require_end_of_pages(path: str, file: Any) -> None:
    """Refuse a file without pages, and a list of pages that is a circle, which tifffile would follow for ever."""
    if not file.pages:
        raise InvalidFileError(f"{path}: holds no picture; it may be cut off")
    form, handle = file.tiff, file.filehandle
    order: Any = "little" if form.byteorder == "<" else "big"
    page, seen = file.pages[0].offset, set[int]()
    while 0 < page < handle.size:
        if page in seen:
            raise InvalidFileError(
                f"{path}: page {len(seen)} is followed by the earlier page at byte {page}: the file is damaged"
            )
        seen.add(page)
        handle.seek(page)
        tags = int.from_bytes(handle.read(form.tagnosize), order)
        handle.seek(page + form.tagnosize + tags * form.tagsize)
        page = int.from_bytes(handle.read(form.offsetsize), order)


def _check_counts(path: str, file: Any, shape: Vec3) -> None:
    """Refuse a single series with fewer sections than ImageJ or tifffile state, and note pages of no series."""
    stated = (file.imagej_metadata or {}).get("images", 0) if file.is_imagej else 0
    shaped = re.search(r'"shape": \[([\d, ]+)\]', file.pages[0].shaped_description or "")
    if shaped and len(file.series) == 1:
        stated = math.prod(map(int, shaped[1].split(","))) // math.prod(shape[1:])
    if stated > shape[0] or (shaped and 1 < stated < shape[0]):
        raise InvalidFileError(
            f"{path}: its metadata state {stated} pictures, and it holds {shape[0]}: expected one stack; it may be cut"
            " off, or was written by a program that kept old metadata"
        )
    known = sum(len(level.pages) for one in file.series for level in one.levels)
    if len(file.pages) > max(known, shape[0]):
        notes.show(
            f"{path}: holds {len(file.pages)} pictures, and its metadata describe {known}: the others are not read"
        )


def is_picture(page: Any) -> bool:
    """Return False for a page that is a preview of another one, or its mask."""
    return not page.is_reduced and not page.is_mask


def _note_between(path: str, pages: Sequence[Any]) -> None:
    """Note pages that are left out: they lie between the pages of this series, and belong to another one."""
    numbers = [int(page.index) for page in pages]
    left = max(numbers) - min(numbers) + 1 - len(numbers)
    if left:
        notes.show(
            f"{path}: {notes.count_of(left, 'page')} of other series between those of this one: not read"
        )


def _note_pages(path: str, first: Any, pages: Sequence[Any]) -> None:
    """Note what later pages state otherwise than the first one: the turn, no data, pixels, or the order of pages."""
    numbers = []
    for page in pages[:_MOST_PAGES]:
        tags = page.aspage().tags  # writers may state what holds for all on the first page alone
        for tag in (ORIENTATION, _NO_DATA, "YResolution", "XResolution"):
            if tag in tags and tags.valueof(tag) != first.tags.valueof(tag):
                notes.show(
                    f"{path}: pages differ in their {tags[tag].name}: that of the first page is taken for all"
                )
        numbers.append((tags.valueof("PageNumber") or (0,))[0])
    if numbers != sorted(numbers):
        notes.show(
            f"{path}: its pages are not in the order of their PageNumber; they are read as stored"
        )


def decoded(path: str, page: Any, tables: Tables) -> NDArray[Any]:
    """Return the values of a page of a file."""
    form = page.keyframe
    if 0 in page.databytecounts:
        notes.show(f"{path}: tiles of its pictures do not exist, and are read as 0")
    try:
        values = np.asarray(page.asarray())
    except (ImportError, NotImplementedError, ValueError) as error:
        if not isinstance(error, ImportError) and "imagecodecs" not in str(error):
            raise
        how = getattr(form.compression, "name", form.compression)
        raise UnsupportedError(
            f"{path}: has {form.bitspersample} bits for each value and the compression {how}, which need the library"
            " imagecodecs: pip install imagecodecs"
        ) from error
    if form.photometric == PALETTE:
        table = form.colormap.T
        narrow = form.bitspersample <= 8 and table.max() > 255
        return tables.values(path, values, table >> 8 if narrow else table)
    return ~values if _white_is_zero(form) else values


def _white_is_zero(page: Any) -> bool:
    """Return True for pages of one bit of which 0 is white. tifffile states so for all, and stores True as 1.

    Pages of more bits are read as they are stored: Fiji states so for masks that it shows inverted.
    """
    one = page.bitspersample == 1 and page.photometric == _WHITE_IS_ZERO
    return bool(one and not page.software.startswith("tifffile"))


def note_colours(name: str, page: Any) -> None:
    """Note if 0 is white in a page of a volume, or if the picture is turned."""
    if page.photometric == _WHITE_IS_ZERO:
        how = "it is read so" if _white_is_zero(page) else "its values are read as they are stored"
        notes.show(f"{name}: states that 0 is white; {how}")
    turned = page.tags.valueof(ORIENTATION, default=1)
    note_turned(name, turned)
    empty = page.tags.valueof(_NO_DATA)
    if empty is not None:
        notes.show(
            f"{name}: states that the value {empty} is no data (GDAL_NODATA); it is read like others"
        )
    gdal = str(page.tags.valueof(_GDAL, default=""))
    scaled = re.findall(r'role="(scale|offset)"[^>]*>([^<]*)<', gdal)
    if scaled:
        values = ", ".join(f"{role} = {value}" for role, value in dict.fromkeys(scaled))
        notes.show(
            f"{name}: states {values} for its values (GDAL_METADATA); they are read as they are stored"
        )


def note_turned(name: str, orientation: Any) -> None:
    """Note a value of Orientation by which the first row is not the top, or the first column not at the left."""
    if orientation not in (0, 1):  # 0 has no meaning
        notes.show(
            f"{name}: states that its pictures are turned or mirrored (Orientation {int(orientation)}); they are read"
            " as they are stored"
        )


def _shape(path: str, series: Any) -> Vec3:
    """Return the shape of a series of pictures of one channel."""
    sizes = [(a, n) for a, n in zip(series.axes, series.shape, strict=True) if n > 1 or a in "YX"]
    names = "".join(a for a, _ in sizes)
    if names.endswith("YX") and len(sizes) <= 3 and names[:-2] in ("", *_SECTIONS):
        z, y, x = ((1,) * (3 - len(sizes))) + tuple(n for _, n in sizes)
        return z, y, x
    more = ""
    if names in ("TYX", "CYX"):
        more = "; state sections as slices (Fiji: Image > Properties; tifffile: metadata={'axes': 'ZYX'})"
    elif "S" in names:
        more = "; if each colour is a label, number the colours first (Fiji: Image > Type > 8-bit makes grey levels)"
    raise InvalidFileError(
        f"{path}: has axes {series.axes} of {tuple(series.shape)}, expected pictures of one channel (z, y, x){more}"
    )


def metadata_for(shape: Vec3, dtype: np.dtype[Any], place: geometry.Geometry, large: bool) -> Any:
    """Return the arguments of tifffile's `TiffWriter`, and the metadata of its `write`, for a stack.

    Args:
        dtype: Type of the voxels. ImageJ has three, OME all but integers of 64 bits, which get floodtide's metadata.
        large: True for a file of 64-bit positions, which ImageJ's own metadata do not fit.
    """
    size, offset = place.voxel_size_nm, place.offset
    known: dict[str, Any] = {"axes": "ZYX"}
    if dtype.name in _IMAGEJ and not large:
        if size is not None:
            known |= {"unit": "nm", "spacing": size[0]}
        if offset is not None:  # the place of the whole volume's first voxel in this one
            known |= {f"{axis}origin": -n for axis, n in zip("zyx", offset, strict=True)}
        return {"imagej": True}, known
    if dtype.name in _OME:
        known |= {"Plane": {}, "UUID": _NO_UUID}
        for i, axis in enumerate("ZYX"):
            if size is not None:
                known |= {f"PhysicalSize{axis}": size[i], f"PhysicalSize{axis}Unit": "nm"}
            if offset is not None:
                places = [offset[i] + z * (axis == "Z") for z in range(shape[0])]
                units = ["pixel"] * shape[0]
                known["Plane"] |= {f"Position{axis}": places, f"Position{axis}Unit": units}
        return {"ome": True}, known
    if place != geometry.Geometry():
        known |= {"voxel_size_nm": size, "offset": offset}
    return {}, known


def geometry_of_file(path: str, file: Any, number: int = 0) -> geometry.Geometry:
    """Return what the metadata of floodtide, ImageJ or OME state."""
    shaped = file.shaped_metadata or ()
    stated = shaped[number] if number < len(shaped) else {}
    if "voxel_size_nm" in stated:
        size, offset = stated["voxel_size_nm"] or [], stated.get("offset")
        return _geometry(path, "its metadata", size, ["nm"] * 3, offset)
    for key in (key for key in geometry.KEYS if key in stated and key not in geometry.NAMES):
        notes.show(
            f"{path}: its description states {key} = {geometry.shown(stated[key])}: not used"
        )
    tags = file.pages[0].tags
    for tag, program in _OF_MICROSCOPES.items():
        if tag in tags:
            geometry.not_used(path, f"tag {tag} of {program} may state the size of pixels")
    for key in ("ModelPixelScaleTag", "ModelTiepointTag", "ModelTransformationTag"):
        if key in tags:
            geometry.not_used(path, f"its GeoTIFF metadata state {key}")
    if not file.is_ome and "<OME" in (file.pages[0].description or ""):
        geometry.not_used(path, "its OME metadata are cut off")
    if file.is_imagej:
        return _of_imagej(path, file.imagej_metadata or {}, tags)
    if file.is_ome and file.ome_metadata:
        return _of_ome(path, file.ome_metadata, number)
    _note_resolution(path, tags)
    return geometry.Geometry()


def _note_resolution(path: str, tags: Any) -> None:
    """Note a resolution of a file without other metadata: that of a microscope, which says nothing about z."""
    unit = _UNITS.get(int(tags.valueof("ResolutionUnit", default=1)))
    pixels = [tags.valueof(name, default=(0, 1)) for name in ("YResolution", "XResolution")]
    if unit is None or not all(above > 0 and below > 0 for above, below in pixels):
        return
    sizes = [geometry.NM[unit] * below / above for above, below in pixels]
    if max(sizes) < _FINE_NM:
        text = f"its resolution states pixels of {geometry.size_text(sizes)} nm (y, x), and no thickness"
        geometry.not_used(path, f"{text} of a section")


def _of_imagej(path: str, stated: Mapping[str, Any], tags: Any) -> geometry.Geometry:
    unit = str(stated.get("unit", ""))
    units = [str(stated.get(key, unit)) for key in ("zunit", "yunit", "unit")]
    curve = {key: stated[key] for key in ("cf", "c0", "c1", "c2") if key in stated}
    if {"cf": 0, "c0": 0, "c1": 1} | curve != {"cf": 0, "c0": 0, "c1": 1}:
        values = ", ".join(f"{key} = {value}" for key, value in curve.items())
        notes.show(
            f"{path}: its ImageJ metadata calibrate the values ({values}); they are read as they are stored"
        )
    pixels = [tags[name].value for name in ("YResolution", "XResolution") if name in tags]
    places = [f"{axis}origin" for axis in "zyx"]
    origin = [stated.get(key, 0) for key in places]
    known = geometry.are_numbers(origin) and not stated.keys().isdisjoint(places)
    offset = [-n for n in origin] if known else None
    edges: list[Any] = [below / above for above, below in pixels if above > 0]
    edges = [stated.get("spacing"), *edges] if "spacing" in stated else edges
    return _geometry(path, "its ImageJ metadata", edges, units, offset)


def _of_ome(path: str, text: str, number: int) -> geometry.Geometry:
    if "BinaryOnly" in text:
        geometry.not_used(path, "its OME metadata are in another file")
    images = _listed(library("tifffile", path, "formats").xml2dict(text)["OME"].get("Image"))
    if len(images) > 1 and any("UUID" in one for one in _tiff_data(images)):
        here = Path(path).name  # tifffile has no series for images whose files do not exist
        images = [one for one in images if here in str(_tiff_data([one]))]
        number = 0 if len(images) == 1 else number
    pixels = images[number].get("Pixels", {}) if number < len(images) else {}
    planes = {
        int(one.get("TheZ", 0)): one
        for one in _listed(pixels.get("Plane"))
        if (int(one.get("TheC", 0)), int(one.get("TheT", 0))) == (0, 0)
    }
    plane = planes.get(0, {})
    edges = [pixels[key] for key in (f"PhysicalSize{axis}" for axis in "ZYX") if key in pixels]
    units = [pixels.get(f"PhysicalSize{axis}Unit", "µm") for axis in "ZYX"]
    places = {a: plane[f"Position{a}"] for a in "ZYX" if f"Position{a}" in plane}
    in_pixels = {a: n for a, n in places.items() if plane.get(f"Position{a}Unit") == "pixel"}
    start = [*in_pixels.values()]
    others = [f"Position{a} = {n}" for a, n in places.items() if n and a not in in_pixels]
    if others:
        where = ", ".join(others)
        notes.show(f"{path}: its OME metadata state {where}, the place of a stage: not used")
    apart = {
        one["PositionZ"] - plane["PositionZ"] - z
        for z, one in planes.items()
        if "Z" in in_pixels and one.get("PositionZUnit") == "pixel" and "PositionZ" in one
    }
    if 0 < len(start) < 3 or any(apart):
        what = "sections that are not one voxel apart" if any(apart) else "no place along each axis"
        notes.show(f"{path}: its OME metadata state {what}: the place is not used")
        start = []
    return _geometry(path, "its OME metadata", edges, units, start)


def _tiff_data(images: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tags that say in which files the pictures of OME images lie."""
    tags = [image.get("Pixels", {}).get("TiffData") for image in images]
    return [one for found in tags for one in _listed(found)]


def _listed(tags: Any) -> list[dict[str, Any]]:
    """Return tags of one name as tifffile's `xml2dict` has them: a list, one, or None."""
    return tags if isinstance(tags, list) else [tags or {}]


def _geometry(
    path: str, source: str, edges: Sequence[Any], units: Sequence[str], offset: Any
) -> geometry.Geometry:
    """Return a geometry. Edges (z, y, x) of which some are missing are noted, and not used."""
    start = geometry.voxels_of(path, offset, source) if geometry.are_numbers(offset) else None
    size = None
    if geometry.are_numbers(list(edges)):
        size = geometry.stated_size(path, source, edges, units)
    elif any(n != 1 for n in edges) or (edges and units[-1].lower() not in geometry.VOXEL_UNITS):
        text = f"{source} state {geometry.size_text(edges)} for the edges of a voxel"
        geometry.not_used(path, f"{text}, expected three lengths (z, y, x)")
    return geometry.Geometry.by(source, size, start, "")
