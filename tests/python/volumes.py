# SPDX-License-Identifier: Apache-2.0
"""One array as a volume of every format."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import data

FORMS = {
    "hdf5": "{folder}/{name}.h5:data",
    "zarr": "{folder}/{name}.zarr/inner",
    "n5": "{folder}/{name}.n5/inner",
    "precomputed": "precomputed://{folder}/{name}.precomputed",
    "tiff": "{folder}/{name}.tif",
    "tiffs": "{folder}/{name}-tiffs/*.tif",
    "pngs": "{folder}/{name}-pngs/*.png",
}
"""How a volume of each format is named; `pngs` holds uint8 and uint16 only. floodtide writes no pictures."""


class Asked:
    """An object with shape, dtype and boxes, and nothing else; counts its boxes."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype
        self.boxes = 0

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        self.boxes += 1
        return self._array[box]


def write(array: NDArray[Any], folder: Path, name: str, form: str) -> str:
    """Write an array in a format and return the volume's name. Pictures are written by tifffile and imageio."""
    reference = FORMS[form].format(folder=folder, name=name)
    if "*" not in reference:
        data.convert(data.Volume(np.ascontiguousarray(array)), reference)
        return reference
    library = importlib.import_module("tifffile" if form == "tiffs" else "imageio.v3")
    Path(reference).parent.mkdir()
    for z, section in enumerate(array):
        library.imwrite(reference.replace("*", f"{z:05}"), section)
    return reference
