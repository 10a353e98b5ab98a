# SPDX-License-Identifier: Apache-2.0
"""The formats that volumes come in: a table of them, and the readers and writers behind its rows."""

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
from floodtide.data.formats.writers import COMMAND, Plan, Writer, blocks, new_top

__all__ = [
    "COMMAND",
    "FORMATS",
    "HDF5",
    "Format",
    "Geometry",
    "Plan",
    "Source",
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
    "stem",
]
