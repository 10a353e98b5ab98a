# SPDX-License-Identifier: Apache-2.0
"""Table of the formats of volumes. A row has the form of names, functions that read and write, and needed libraries.

Error messages, `docs/formats.md` and `open_volume` iterate over the rows. A new format is a reader, a writer and a row.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from floodtide import _core
from floodtide.base.files import path_and_dataset, require_utf8
from floodtide.base.outputs import PRECOMPUTED, volume_folder
from floodtide.base.reading import reading
from floodtide.data.formats import hdf5, pictures, stores, writers
from floodtide.data.formats.names import NIFTI, file_and_series, refuse_other
from floodtide.data.formats.readers import Opened
from floodtide.data.formats.writers import Plan, Writer
from floodtide.errors import Error, InvalidArgumentError, InvalidFileError

_Open = Callable[[str, int | None], Opened]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of volumes."""

    name: str
    form: str  # how users write a volume's name
    matches: Callable[[str], bool]
    open: _Open  # name, and index of a channel or None
    create: Callable[[str, Plan], AbstractContextManager[Writer]]
    path: Callable[[str], Path]  # the volume's file or folder
    library: str  # what must be installed beside floodtide, empty for nothing
    axes: str  # as the file stores them
    help: str


def _one_channel(open_it: Callable[[str], Opened]) -> _Open:
    """Return a function that opens volumes of a format that has no channels."""

    def opened(reference: str, channel: int | None) -> Opened:
        if channel:
            raise InvalidArgumentError(
                f"{reference}: has no channels, expected channel 0 instead of {channel}"
            )
        return open_it(reference)

    return opened


def _is_hdf5_file(reference: str) -> bool:
    """Return True if the name is file:dataset and the file exists. Such a name has no other meaning."""
    path, colon, dataset = reference.rpartition(":")
    return bool(colon and dataset) and _isfile(path) and not pictures.is_stack(reference)


def _is_hdf5_name(reference: str) -> bool:
    path, colon, dataset = reference.rpartition(":")
    return bool(path and colon and dataset) and "://" not in reference


def _open_nifti(reference: str) -> Opened:
    from floodtide.data.formats.nifti import open_nifti

    return open_nifti(reference)


def _isfile(path: str) -> bool:
    try:
        return os.path.isfile(path)
    except ValueError:  # a null character
        return False


HDF5 = Format(
    name="HDF5",
    form="file.h5:dataset",
    matches=_is_hdf5_name,
    open=hdf5.open_hdf5,
    create=writers.hdf5,
    path=lambda reference: Path(path_and_dataset(reference)[0]),
    library="",
    axes="z, y, x, or as named",
    help="Any dataset of three axes; read by the core, with checksums where the file has them",
)

FORMATS: tuple[Format, ...] = (
    HDF5,
    Format(
        name="Neuroglancer precomputed",
        form="precomputed://folder",
        matches=lambda reference: reference.startswith(PRECOMPUTED),
        open=stores.open_precomputed,
        create=writers.precomputed,
        path=lambda reference: Path(reference.removeprefix(PRECOMPUTED)),
        library="tensorstore",
        axes="x, y, z, channel",
        help="The finest scale of a volume of one channel",
    ),
    Format(
        name="Zarr 2 and 3, OME-Zarr",
        form="volume.zarr[/path]",
        matches=stores.is_zarr,
        open=stores.open_zarr,
        create=writers.zarr,
        path=Path,
        library="tensorstore",
        axes="z, y, x, or as named",
        help="An array; of an OME-Zarr image the finest level, with one time and one channel",
    ),
    Format(
        name="N5",
        form="volume.n5[/path]",
        matches=stores.is_n5,
        open=stores.open_n5,
        create=writers.n5,
        path=Path,
        library="tensorstore",
        axes="x, y, z, or as named",
        help="A dataset of three axes",
    ),
    Format(
        name="TIFF stack",
        form="stack.tif[:series]",
        matches=pictures.is_stack,
        open=_one_channel(pictures.open_stack),
        create=writers.tiff_stack,
        path=lambda reference: Path(file_and_series(reference)[0]),
        library="tifffile",
        axes="z, y, x",
        help="The only series of a file, or appended pages of one size, or the named series (from 0); compressed pages"
        " are decoded whole",
    ),
    Format(
        name="NIfTI-1 and 2",
        form="volume.nii, volume.nii.gz",
        matches=lambda reference: reference.lower().endswith(NIFTI),
        open=_one_channel(_open_nifti),
        create=writers.nifti,
        path=Path,
        library="nibabel",
        axes="x, y, z, turned as its affine states",
        help="A volume, turned so that x points to the right, y to the front and z to the top; compressed files are"
        " decoded whole",
    ),
    Format(
        name="Folder of pictures",
        form="folder/*.tif, folder/*.png",
        matches=pictures.is_folder,
        open=_one_channel(pictures.open_folder),
        create=writers.pictures,
        path=lambda reference: Path(os.path.dirname(reference)),
        library="tifffile, imageio",
        axes="z, y, x",
        help="A file each, z in the order of the numbers in the names; quote the pattern in a shell",
    ),
)


def format_of(reference: str) -> Format:
    """Return the format that the name of a volume means. Files are only looked at if the name has several meanings.

    Raises:
        InvalidArgumentError: If the name has no known form, or is not valid UTF-8. The message names the nearest form.
    """
    require_utf8(reference, "the name of a volume")
    if _is_hdf5_file(reference):
        return HDF5
    for row in (*FORMATS[1:], HDF5):  # a name of another format may have a colon, too
        if row.matches(reference):
            return row
    refuse_other(reference)
    raise InvalidArgumentError(
        f"volume '{reference}': expected file:dataset{_nearest(reference)}; all forms: {forms()}"
    )


def open_volume(reference: str, channel: int | None = None) -> Opened:
    """Open the volume of a name, or one channel of it, and return it with its geometry.

    Raises:
        InvalidArgumentError: If the name has no known form.
        InvalidFileError: If the volume cannot be read, has not three axes, or has no such channel.
        UnsupportedError: If the format needs a library that is not installed.
    """
    row = format_of(reference)
    with reading(reference, f"a volume of the form {row.form}"):
        return row.open(reference, channel)


def stem(reference: str) -> str:
    """Return the name of the file or folder of a volume, without the extension."""
    path = Path(volume_folder(reference) or format_of(reference).path(reference))
    return Path(path.stem).stem if path.suffix == ".gz" else path.stem


def place(reference: str) -> tuple[str, str]:
    """Return the real path of the file or folder of a volume, and the rest of the name. Equal for the same volume.

    Raises:
        InvalidArgumentError: If the name has no known form.
    """
    row = format_of(reference)
    rest = ""
    if row is HDF5:
        rest = path_and_dataset(reference)[1].strip("/")
    elif pictures.is_folder(reference):
        rest = os.path.basename(reference)
    elif pictures.is_stack(reference):
        rest = str(file_and_series(reference)[1] or 0)
    return os.path.realpath(row.path(reference)), rest


def forms() -> str:
    """Return the forms of names, for messages."""
    return ", ".join(row.form for row in FORMATS)


def documentation() -> str:
    """Return the table of docs/formats.md."""
    lines = [
        "| format | name | axes in the file | library | what is read |",
        "|---|---|---|---|---|",
    ]
    for row in FORMATS:
        form, library = (f"`{text.replace(', ', '`, `')}`" for text in (row.form, row.library))
        cells = (row.name, form, row.axes, library if row.library else "none", row.help)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _datasets(path: str) -> str:
    """Return a hint that lists the datasets of an HDF5 file; empty if there is no such file."""
    if not _isfile(path):
        return ""
    try:
        _core.data.Volume(path, "?")
    except InvalidFileError as error:  # it lists the datasets that the file has
        listed = str(error).partition("its datasets are: ")[2]
        names = listed.split(", ")
        first = next((one for one in names if _is_volume(path, one)), names[0])
        return f", for example {path}:{first}; its datasets are: {listed}" if listed else ""
    return ""


def _is_volume(path: str, dataset: str) -> bool:
    try:
        _core.data.Volume(path, dataset)
    except Error:
        return False
    return True


def _nearest(reference: str) -> str:
    """Return a hint what the user may have meant, from the name and from existing files."""
    plain = reference.rstrip("/")
    lower = plain.lower()
    if found := _datasets(plain):
        return found
    if lower.endswith((".h5", ".hdf5", ".hdf")):
        return f", for example {plain}:raw"
    try:
        if os.path.isfile(os.path.join(plain, "info")):
            return f", or {PRECOMPUTED}{plain} for the precomputed volume in this folder"
        names = sorted(os.listdir(plain)) if os.path.isdir(plain) else []
        arrays = stores.zarr_arrays(Path(plain)) if names else []
    except (OSError, ValueError):
        return ", for example stack.h5:raw"
    for suffix in pictures.PICTURES:
        if any(name.lower().endswith(suffix) for name in names):
            return f", or '{plain}/*{suffix}' for the pictures in this folder"
    if arrays:
        return f", or {' or '.join(arrays[:5])}"
    if lower.endswith((".png", ".jpg", ".jpeg")):
        return ", or 'folder/*.png' for a folder of pictures"
    return ", for example stack.h5:raw"
