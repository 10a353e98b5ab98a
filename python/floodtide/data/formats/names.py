# SPDX-License-Identifier: Apache-2.0
"""Names of files: a series of a TIFF file, and files of other programs that floodtide does not read."""

from __future__ import annotations

import os
import re

from floodtide.errors import InvalidArgumentError

_FIJI = "Fiji (Plugins > Bio-Formats > Bio-Formats Importer, then File > Save As > Tiff)"
_ARRAY = "ft.data.convert(ft.data.Volume(array), 'volume.zarr') in Python (import floodtide as ft)"

_OTHERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("NRRD", (".nrrd", ".nhdr"), _FIJI),
    ("MRC", (".mrc", ".mrcs", ".rec", ".st", ".ali", ".map"), _FIJI),
    ("DigitalMicrograph", (".dm3", ".dm4"), _FIJI),
    ("CZI", (".czi",), _FIJI),
    ("ND2", (".nd2",), _FIJI),
    ("LIF", (".lif",), _FIJI),
    ("LSM and STK", (".lsm", ".stk"), _FIJI),
    ("MetaImage and VTK", (".mha", ".mhd", ".vtk", ".vti"), _ARRAY),
    ("Olympus's formats", (".oib", ".oif", ".oir", ".vsi"), _FIJI),
    ("AmiraMesh", (".am", ".amiramesh"), _FIJI),
    ("DICOM", (".dcm",), _FIJI),
    ("JPEG", (".jpg", ".jpeg", ".jp2"), _FIJI),
    ("BMP and GIF", (".bmp", ".gif"), _FIJI),
    (
        "files without metadata",
        (".raw", ".bin"),
        "Fiji (File > Import > Raw, then File > Save As > Tiff)",
    ),
    ("NumPy's files", (".npy", ".npz"), _ARRAY),
    (
        "archives",
        (".zip", ".ozx", ".tar", ".tgz", ".7z"),
        "a program that unpacks it into a folder",
    ),
    ("compressed files", (".gz", ".bz2", ".xz", ".zst"), "a program that decompresses it"),
)
"""Format, endings of its files, and what converts them."""


TIFF = (".tif", ".tiff")
NIFTI = (".nii", ".nii.gz")
_SERIES = re.compile(r"(.+\.tiff?):(\d{1,9})", re.IGNORECASE | re.DOTALL)


def file_and_series(reference: str) -> tuple[str, int | None]:
    """Return the file and the series of a name such as "stack.tif:1"; None: the name has no series."""
    named = _SERIES.fullmatch(reference)
    if named is None or os.path.lexists(reference):
        return reference, None
    return named[1], int(named[2])


def refuse_other(reference: str) -> None:
    """Refuse the name of a file of a format that floodtide does not read.

    Raises:
        InvalidArgumentError: The message says what converts the file.
    """
    kind, scheme, path = reference.rpartition("://")
    if scheme:
        here = (
            f", as in {path}" if kind in ("file", "zarr://file", "n5://file", "zarr", "n5") else ""
        )
        raise InvalidArgumentError(
            f"volume '{reference}': floodtide reads files and folders of this machine, without {kind}://{here}"
        )
    name = reference.rstrip("/").lower()
    for kind, endings, how in _OTHERS:
        if name.endswith(endings):
            raise InvalidArgumentError(
                f"volume '{reference}': floodtide does not read {kind}; write it as TIFF, HDF5 or Zarr first, with"
                f" {how}"
            )
