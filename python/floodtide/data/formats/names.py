# SPDX-License-Identifier: Apache-2.0
"""Names of files: a series of a TIFF file, and files of other programs that floodtide does not read."""

from __future__ import annotations

import os
import re

from floodtide.errors import InvalidArgumentError

_OTHERS = (
    ".nrrd", ".nhdr", ".mrc", ".mrcs", ".rec", ".st", ".ali", ".map", ".dm3", ".dm4", ".czi", ".nd2", ".lif", ".lsm",
    ".stk", ".mha", ".mhd", ".vtk", ".vti", ".oib", ".oif", ".oir", ".vsi", ".am", ".amiramesh", ".dcm", ".jpg",
    ".jpeg", ".jp2", ".bmp", ".gif", ".raw", ".bin", ".npy", ".npz", ".btf", ".tf8", ".mgh", ".mgz",
)  # fmt: skip
_PACKED = (".zip", ".ozx", ".tar", ".tgz", ".7z", ".gz", ".bz2", ".xz", ".zst")

TIFF = (".tif", ".tiff")
NIFTI = (".nii", ".nii.gz")
_SERIES = re.compile(r"(.+\.tiff?):(\d{1,9})", re.IGNORECASE | re.DOTALL)


def file_and_series(reference: str) -> tuple[str, int | None]:
    """Return the file and the series of a name such as "stack.tif:1"; None: the name has no series."""
    named = _SERIES.fullmatch(reference)
    if named is None or os.path.lexists(reference):
        return reference, None
    return named[1], int(named[2])


def refuse_other(reference: str, beginning: str = "") -> None:
    """Raise InvalidArgumentError for a file of a format that floodtide does not read: it says what converts it.

    Args:
        beginning: What stands before the reference in the name of the volume, and stays: "precomputed://".
    """
    kind, scheme, path = reference.rpartition("://")
    if scheme:
        of_files = kind in ("file", "zarr://file", "n5://file", "zarr", "n5")
        here = f", as in {beginning}{path}" if of_files else ""
        raise InvalidArgumentError(
            f"volume '{beginning}{reference}': floodtide reads files and folders of this machine, without"
            f" {kind}://{here}"
        )
    name = reference.rstrip("/").lower()
    how = "Fiji, or ft.data.convert(ft.data.Volume(array), 'volume.zarr') in Python (import floodtide as ft)"
    if name.endswith(_PACKED):
        how = "a program that unpacks it into a folder"
    if name.endswith((*_OTHERS, *_PACKED)):
        raise InvalidArgumentError(
            f"volume '{beginning}{reference}': floodtide neither reads nor writes {os.path.splitext(name)[1]}; expected"
            f" TIFF, HDF5 or Zarr (to convert a file: {how})"
        )
