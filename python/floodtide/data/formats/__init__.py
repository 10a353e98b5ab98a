# SPDX-License-Identifier: Apache-2.0
"""Formats of volumes: their table, and the readers and writers of its rows."""

from floodtide.data.formats.readers import Geometry, Source, array_volume, object_volume
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
    "Plan",
    "Source",
    "StoreWriter",
    "Writer",
    "array_volume",
    "blocks",
    "documentation",
    "format_of",
    "forms",
    "from_zero",
    "new_top",
    "object_volume",
    "open_volume",
    "place",
    "shared_writer",
    "stem",
]
