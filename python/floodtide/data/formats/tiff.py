# SPDX-License-Identifier: Apache-2.0
"""What a TIFF file states: which pages are sections, and the metadata of ImageJ, OME and floodtide."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from floodtide.base import notes
from floodtide.data.boxes import Vec3
from floodtide.data.formats.conventions import unit_nm
from floodtide.data.formats.geometry import Geometry, is_triple, size_text, voxels_of
from floodtide.errors import InvalidFileError

_SECTIONS = "ZQI"  # axes along which pages are sections: z, or an unnamed sequence
_IMAGEJ = ("uint8", "uint16", "float32")
_OME = {name: name for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")} | {
    "float32": "float",
    "float64": "double",
}
_PALETTE, _WHITE_IS_ZERO = 3, 0  # values of PhotometricInterpretation


class Sections:
    """The pages of a TIFF file that are the sections of its only volume.

    Attributes:
        pages: One for each section, or a single page that holds all.
        shape: (z, y, x).
        dtype: Type of the voxels.
        offset: Position in bytes of the first voxel if all lie in one piece, else None.
        geometry: What the metadata state.

    Args:
        path: The file, for messages.
        file: The open TiffFile.

    Raises:
        InvalidFileError: If the file holds anything but one volume of one channel.
    """

    def __init__(self, path: str, file: Any) -> None:
        every = [one for one in file.series if not one.keyframe.is_reduced]
        series = every[0] if every else file.series[0]
        alone = all(one.axes == "YX" and len(one.pages) == 1 for one in every)
        alike = len({(one.shape, one.dtype) for one in every}) == 1
        several = len(every) > 1
        if several and not (alone and alike and not file.is_ome):
            listed = "; ".join(f"{' x '.join(map(str, one.shape))} {one.axes}" for one in every[:4])
            raise InvalidFileError(
                f"{path}: holds {len(every)} series of pictures ({listed}), expected one: write the stack to its own"
                " file"
            )
        self.pages: Sequence[Any] = [one.pages[0] for one in every] if several else series.pages
        if any(page is None for page in self.pages):
            raise InvalidFileError(f"{path}: {_lost(path, file, self.pages)}")
        self.shape = (len(every), *series.shape) if several else _shape(path, series)
        self.dtype = series.dtype
        self.offset = None if several else series.dataoffset
        check_colours(path, series.keyframe)
        self.geometry = geometry_of_file(path, file)
        if self.offset is None and len(self.pages) not in (1, self.shape[0]):
            raise InvalidFileError(
                f"{path}: has {len(self.pages)} pictures for a shape of {self.shape}"
            )


def check_colours(path: str, page: Any) -> None:
    """Refuse a page whose values are indices of colours, and note if 0 is white."""
    if page.photometric == _PALETTE:
        raise InvalidFileError(
            f"{path}: its values are indices of a colour table (palette), expected grey levels or ids: write it"
            " without the"
            " table"
        )
    if page.photometric == _WHITE_IS_ZERO and page.bitspersample > 1:
        notes.show(f"{path}: states that 0 is white; its values are read as they are stored")


def _shape(path: str, series: Any) -> Vec3:
    """Return the shape of a series of pictures of one channel."""
    text = f"{path}: has axes {series.axes} of {tuple(series.shape)}"
    sizes = [(a, n) for a, n in zip(series.axes, series.shape, strict=True) if n > 1 or a in "YX"]
    names = "".join(a for a, _ in sizes)
    if names.endswith("YX") and len(sizes) <= 3 and names[:-2] in ("", *_SECTIONS):
        z, y, x = ((1,) * (3 - len(sizes))) + tuple(n for _, n in sizes)
        return z, y, x
    if names in ("TYX", "CYX"):
        what = "times" if names == "TYX" else "channels"
        raise InvalidFileError(
            f"{text}, so {sizes[0][1]} {what} of one section; expected sections (z, y, x): if they are sections,"
            " state them"
            " as slices (Fiji: Image > Properties; tifffile: metadata={'axes': 'ZYX'})"
        )
    raise InvalidFileError(f"{text}, expected pictures of one channel (z, y, x)")


def _lost(path: str, file: Any, pages: Sequence[Any]) -> str:
    """Return which files of an OME-TIFF that is spread over several do not exist."""
    named = dict.fromkeys(re.findall(r'FileName="([^"]+)"', file.ome_metadata or ""))
    lost = [name for name in named if not Path(path).with_name(name).is_file()]
    missing = sum(page is None for page in pages)
    where = (
        f": {', '.join(lost[:5])} {'does' if len(lost) == 1 else 'do'} not exist" if lost else ""
    )
    return f"{missing} of its {len(pages)} sections are missing{where}"


def description(shape: Vec3, dtype: np.dtype[Any], geometry: Geometry, large: bool) -> str:
    """Return the description of the first page of a stack.

    Args:
        shape: (z, y, x).
        dtype: Type of the voxels. ImageJ has three, OME all but integers of 64 bits, which get floodtide's metadata.
        geometry: Voxel size and offset.
        large: True for a file of 64-bit positions, which ImageJ's own metadata do not fit.
    """
    if dtype.name in _IMAGEJ and not large:
        return _imagej_text(shape[0], geometry)
    if dtype.name in _OME:
        return _ome_text(shape, _OME[dtype.name], geometry)
    stated = {"voxel_size_nm": geometry.voxel_size_nm, "offset": geometry.offset}
    known = {} if geometry == Geometry() else stated
    return json.dumps({"shape": shape, "axes": "ZYX", **known})


def _imagej_text(sections: int, geometry: Geometry) -> str:
    lines = ["ImageJ=1.54f", f"images={sections}", f"slices={sections}", "loop=false"]
    if geometry.voxel_size_nm is not None:
        lines += ["unit=nm", f"spacing={geometry.voxel_size_nm[0]:.17g}"]
    if geometry.offset is not None:  # the place of the whole volume's first voxel in this one
        lines += [f"{axis}origin={-n}" for axis, n in zip("zyx", geometry.offset, strict=True)]
    return "\n".join([*lines, ""])


def _ome_text(shape: Vec3, kind: str, geometry: Geometry) -> str:
    sizes = " ".join(f'Size{axis}="{n}"' for axis, n in zip("ZYX", shape, strict=True))
    edges = plane = ""
    if geometry.voxel_size_nm is not None:
        edges = "".join(
            f' PhysicalSize{axis}="{n:.17g}" PhysicalSize{axis}Unit="nm"'
            for axis, n in zip("ZYX", geometry.voxel_size_nm, strict=True)
        )
    if geometry.offset is not None:
        place = "".join(
            f' Position{axis}="{n}" Position{axis}Unit="pixel"'
            for axis, n in zip("ZYX", geometry.offset, strict=True)
        )
        plane = f'<Plane TheZ="0" TheC="0" TheT="0"{place}/>'
    return (
        '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image'
        f' ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="{kind}" {sizes} SizeC="1" SizeT="1"{edges}>'
        f'<Channel ID="Channel:0:0" SamplesPerPixel="1"/><TiffData IFD="0" PlaneCount="{shape[0]}"/>{plane}</Pixels>'
        "</Image></OME>"
    )


def geometry_of_file(path: str, file: Any) -> Geometry:
    """Return what the metadata of floodtide, ImageJ or OME state.

    Raises:
        InvalidFileError: If they state something impossible.
    """
    if file.shaped_metadata and "voxel_size_nm" in file.shaped_metadata[0]:
        return _of_floodtide(path, file.shaped_metadata[0])
    for key in ("spacing", "unit", "resolution", "voxel_size"):
        if file.shaped_metadata and key in file.shaped_metadata[0]:
            notes.show(
                f"{path}: its description states {key} = {str(file.shaped_metadata[0][key])[:60]}, which is not used:"
                " --voxel-nm states a voxel size"
            )
    if file.is_imagej:
        return _of_imagej(path, file.imagej_metadata or {}, file.pages[0].tags)
    if file.is_ome and file.ome_metadata:
        return _of_ome(path, file.ome_metadata)
    return Geometry()


def _of_floodtide(path: str, stated: Mapping[str, Any]) -> Geometry:
    size, offset = stated["voxel_size_nm"], stated.get("offset")
    if not is_triple(offset):
        offset = None
    return _geometry(path, "its metadata", size if is_triple(size) else [], [1.0] * 3, offset)


def _of_imagej(path: str, stated: Mapping[str, Any], tags: Any) -> Geometry:
    unit = str(stated.get("unit", ""))
    pixels = [tags[name].value for name in ("YResolution", "XResolution") if name in tags]
    origin = [stated.get(f"{axis}origin", 0) for axis in "zyx"]
    offset = [-n for n in origin] if is_triple(origin) and any(origin) else None
    edges: list[Any] = [below / above for above, below in pixels if above > 0]
    edges = [stated.get("spacing"), *edges] if "spacing" in stated else edges
    return _geometry(path, "its ImageJ metadata", edges, [unit_nm(unit)] * 3, offset)


def _of_ome(path: str, text: str) -> Geometry:
    found = re.search(r"<(?:\w+:)?Pixels\b[^>]*>", text)
    plane = re.search(r"<(?:\w+:)?Plane\b[^>]*>", text)
    edges, units, start = [], [], []
    for axis in "ZYX":
        size = _value(found, f"PhysicalSize{axis}")
        edges += [] if size is None else [float(size)]
        units.append(unit_nm(_value(found, f"PhysicalSize{axis}Unit") or "µm"))
        if _value(plane, f"Position{axis}Unit") == "pixel":  # else the place of a stage
            start.append(float(_value(plane, f"Position{axis}") or 0))
    offset = start if is_triple(start) else None
    return _geometry(path, "its OME metadata", edges, units, offset)


def _value(tag: re.Match[str] | None, name: str) -> str | None:
    """Return the attribute of an XML tag: for numbers only such that can be read."""
    found = re.search(rf'\b{name}="([^"]*)"', tag[0]) if tag else None
    if found is None:
        return None
    text = found[1].replace("&#181;", "µ").replace("&#xB5;", "µ")
    if name.endswith("Unit") or re.fullmatch(r"[0-9.eE+-]+", text):
        return text
    return None


def _geometry(
    path: str,
    source: str,
    edges: Sequence[Any],
    units: Sequence[float | None],
    offset: Sequence[float] | None,
) -> Geometry:
    """Return a geometry. Edges (z, y, x) of which some are missing are noted, and not used."""
    start = None if offset is None else voxels_of(path, offset, source)
    if None in units or not any(n != 1 for n in edges):
        known = len(edges) == 3 and None not in units
        edges = edges if known else []
    if len(edges) != 3 or not is_triple(list(edges)) or min(edges) <= 0:
        if edges:
            notes.show(
                f"{path}: {source} state {size_text(edges)} for the edges of a voxel, expected three lengths (z, y,"
                " x): the"
                " voxel size is unknown"
            )
        return Geometry(offset=start, offset_source=source)
    z, y, x = (float(n) * (unit or 1.0) for n, unit in zip(edges, units, strict=True))
    return Geometry(voxel_size_nm=(z, y, x), offset=start, size_source=source, offset_source=source)
