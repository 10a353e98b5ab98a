# SPDX-License-Identifier: Apache-2.0
"""Voxel sizes that BigDataViewer and Imaris state beside a dataset: in an XML file, and in attributes of groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from floodtide.base import notes
from floodtide.data.formats.conventions import plain, stated_size
from floodtide.data.formats.geometry import Geometry


def of_bigdataviewer(name: str, container: Path, setup: int, factors: Sequence[Any]) -> Geometry:
    """Return the geometry that the XML file of BigDataViewer states: the voxel size. Transformations are not used.

    Args:
        name: The volume, for messages.
        container: The file or folder of the volume; "v.xml" belongs to "v.h5" and "v.n5".
        setup: The number of the setup (`s00`, `setup0`).
        factors: How many voxels (x, y, z) of the finest level make one of this level.
    """
    xml = container.with_suffix(".xml")
    size = None
    try:
        setups = ElementTree.parse(xml).getroot().iter("ViewSetup")
        found = next(one for one in setups if int(one.findtext("id") or -1) == setup)
        edges = [float(n) for n in (found.findtext("voxelSize/size") or "").split()]
        edges = [n * float(factor) for n, factor in zip(edges, factors, strict=True)]
        z, y, x = edges[::-1]
    except (OSError, ElementTree.ParseError, StopIteration, ValueError):
        notes.show(
            f"{name}: the .xml file of BigDataViewer has the voxel size, expected {xml} with it: unknown, --voxel-nm"
            " states a voxel size"
        )
    else:
        size = stated_size(name, str(xml), (z, y, x), [found.findtext("voxelSize/unit") or ""] * 3)
    return Geometry(voxel_size_nm=size, size_source=str(xml))


def of_imaris(name: str, image: Any, channel: Any, shape: Sequence[int]) -> Geometry:
    """Return the geometry that a file of Imaris states: the voxel size. Its position is that of a stage.

    Args:
        name: The volume, for messages.
        image: Attributes of `DataSetInfo/Image`: where the image begins and ends, in `Unit`.
        channel: Attributes of the channel: how many voxels it has.
        shape: Of the dataset (z, y, x), in which a margin may follow the image.
    """
    source = "DataSetInfo/Image of Imaris"
    try:
        counts = [int(_joined(channel[f"ImageSize{axis}"])) for axis in "ZYX"]
        ends = [
            [float(_joined(image[f"Ext{end}{i}"])) for end in ("Min", "Max")] for i in (2, 1, 0)
        ]
        edges = [(end - start) / n for (start, end), n in zip(ends, counts, strict=True)]
        unit = _joined(image["Unit"]) if "Unit" in image else "um"
    except (KeyError, ValueError, ZeroDivisionError):
        notes.show(f"{name}: {source} states no voxel size; --voxel-nm states one")
        return Geometry()
    if counts != list(shape):
        notes.show(
            f"{name}: has {tuple(counts)} voxels of an image, and zeros as a margin up to {tuple(shape)} (z, y, x)"
        )
    size = stated_size(name, source, edges, [unit] * 3)
    return Geometry(voxel_size_nm=size, size_source=source)


def _joined(value: Any) -> str:
    """Return a text that is stored as an array of letters."""
    return "".join(map(str, plain(value)))
