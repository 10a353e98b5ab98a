# SPDX-License-Identifier: Apache-2.0
"""Formats of volumes: their table, and the readers and writers of its rows."""

from floodtide.data.formats.conventions import geometry_of
from floodtide.data.formats.geometry import Geometry, same_size, size_text
from floodtide.data.formats.hdf5 import open_dataset
from floodtide.data.formats.readers import (
    Opened,
    Source,
    array_volume,
    attributes_of,
    object_volume,
    require_zyx,
)
from floodtide.data.formats.stores import from_zero
from floodtide.data.formats.table import (
    FORMATS,
    HDF5,
    Format,
    documentation,
    format_of,
    forms,
    open_volume,
    place,
    stem,
)
from floodtide.data.formats.writers import (
    Plan,
    StoreWriter,
    Writer,
    blocks,
    new_top,
    shared_writer,
)

__all__ = [
    "FORMATS",
    "HDF5",
    "Format",
    "Geometry",
    "Opened",
    "Plan",
    "Source",
    "StoreWriter",
    "Writer",
    "array_volume",
    "attributes_of",
    "blocks",
    "documentation",
    "format_of",
    "forms",
    "from_zero",
    "geometry_of",
    "new_top",
    "object_volume",
    "open_dataset",
    "open_volume",
    "place",
    "require_zyx",
    "same_size",
    "shared_writer",
    "size_text",
    "stem",
]
