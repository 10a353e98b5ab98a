# SPDX-License-Identifier: Apache-2.0
"""Table of the formats of volumes. A row has the form of names, and the functions that read and write.

Error messages and `open_volume` iterate over the rows. A new format is a reader, a writer, a row, and a line of the
table of `docs/formats.md`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from floodtide import _core
from floodtide.base.files import path_and_dataset, require_utf8
from floodtide.base.outputs import PRECOMPUTED, volume_folder
from floodtide.base.reading import blaming, exists
from floodtide.data.formats import hdf5, nifti, pictures, stores, writers
from floodtide.data.formats.nifti import NIFTI
from floodtide.data.formats.readers import Opened
from floodtide.data.formats.tiff import file_and_series
from floodtide.data.formats.writers import Plan, Writer
from floodtide.errors import Error, InvalidArgumentError, InvalidFileError

_Open = Callable[[str, int | None], Opened]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of volumes."""

    form: str  # how users write a volume's name
    matches: Callable[[str], bool]
    open: _Open  # name, and index of a channel or None
    create: Callable[[str, Plan], AbstractContextManager[Writer]]
    parts: Callable[[str], tuple[str, str]] = lambda reference: (reference, "")

    def path(self, reference: str) -> Path:
        """Return the file or folder of a volume: the first of the `parts` of its name."""
        return Path(self.parts(reference)[0])

    def place(self, reference: str) -> tuple[str, str]:
        """Return the real path of the file or folder of a volume, and the rest of its name. Equal for one volume."""
        path, rest = self.parts(reference)
        return os.path.realpath(path), rest.strip("/")


def _one_channel(open_it: Callable[[str], Opened]) -> _Open:
    """Return a function that opens volumes of a format that has no channels."""

    def opened(reference: str, channel: int | None) -> Opened:
        if channel:
            raise InvalidArgumentError(
                f"{reference}: has no channels, expected channel 0 instead of {channel}"
            )
        return open_it(reference)

    return opened


def _is_hdf5_name(reference: str) -> bool:
    path, colon, dataset = reference.rpartition(":")
    return bool(path and colon and dataset) and "://" not in reference


def _file_and_number(reference: str) -> tuple[str, str]:
    path, series = file_and_series(reference)
    return path, str(series or 0)


HDF5 = Format(
    form="file.h5:dataset",
    matches=_is_hdf5_name,
    open=lambda reference, channel: hdf5.open_dataset(*path_and_dataset(reference), channel),
    create=writers.hdf5,
    parts=path_and_dataset,
)

FORMATS: tuple[Format, ...] = (
    HDF5,
    Format(
        form="precomputed://folder",
        matches=lambda reference: reference.startswith(PRECOMPUTED),
        open=stores.open_precomputed,
        create=writers.precomputed,
        parts=lambda reference: (reference.removeprefix(PRECOMPUTED), ""),
    ),
    Format(
        form="volume.zarr[/path]",
        matches=lambda reference: stores.is_in(reference, ".zarr"),
        open=stores.open_zarr,
        create=writers.zarr,
    ),
    Format(
        form="volume.n5[/path]",
        matches=lambda reference: stores.is_in(reference, ".n5"),
        open=stores.open_n5,
        create=writers.n5,
    ),
    Format(
        form="stack.tif[:series]",
        matches=pictures.is_stack,
        open=_one_channel(pictures.open_stack),
        create=writers.tiff_stack,
        parts=_file_and_number,
    ),
    Format(
        form="volume.nii, volume.nii.gz",
        matches=lambda reference: reference.lower().endswith(NIFTI),
        open=_one_channel(nifti.open_nifti),
        create=writers.not_written,
    ),
    Format(
        form="folder/*.tif, folder/*.png",
        matches=lambda name: name.lower().endswith(pictures.PICTURES) and pictures.is_pattern(name),
        open=_one_channel(pictures.open_folder),
        create=writers.not_written,
        parts=os.path.split,
    ),
)


def format_of(reference: str) -> Format:
    """Return the format that the name of a volume means. Files are only looked at if the name has several meanings.

    Raises:
        InvalidArgumentError: If the name has no known form, or is not valid UTF-8. The message names the nearest form.
    """
    require_utf8(reference, "the name of a volume")
    plain = reference.removeprefix(PRECOMPUTED)
    scheme, _, path = plain.rpartition("://")
    if scheme:
        here = scheme.rpartition("/")[2] in ("file", "zarr", "n5")
        advice = f", as in {reference.removesuffix(plain)}{path}" if here else ""
        raise InvalidArgumentError(
            f"volume '{reference}': floodtide reads files and folders of this machine, without {scheme}://{advice}"
        )
    path, _, dataset = reference.rpartition(":")
    if dataset and exists(path) and not pictures.is_stack(reference):
        return HDF5  # the name of an existing file with a dataset has no other meaning
    for row in (*FORMATS[1:], HDF5):  # a name of another format may have a colon, too
        if row.matches(reference) and not (row is HDF5 and os.path.isfile(reference)):
            return row
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
    form = f"a volume of the form {row.form}"
    with blaming(InvalidFileError, f"{reference}: cannot be read", form):
        return row.open(reference, channel)._replace(place=row.place(reference))


def container(reference: str) -> Path:
    """Return the file of a volume, or the folder that is the volume or has it: "volume.zarr" of "volume.zarr/raw"."""
    row = format_of(reference)
    folder = None if row is HDF5 else volume_folder(reference)
    return row.path(reference) if folder is None else Path(folder)


def stem(reference: str) -> str:
    """Return the name of the file or folder of a volume, without the extension."""
    path = container(reference)
    return Path(path.stem).stem if path.suffix == ".gz" else path.stem


def forms() -> str:
    """Return the forms of names, for messages."""
    return ", ".join(row.form for row in FORMATS)


def _datasets(path: str) -> str:
    """Return a hint: the first dataset of an HDF5 file that can be read, and the names of all; empty without any."""
    import shlex  # only for this message

    listed = hdf5.datasets_of(path)
    for name in listed.split(", "):
        with contextlib.suppress(Error):
            _core.data.Volume(path, name)
            return f", for example {shlex.quote(f'{path}:{name}')}; its datasets are: {listed}"
    return f"; its datasets are: {listed}" if listed else ""


def _nearest(reference: str) -> str:
    """Return a hint what the user may have meant, from the name and from existing files."""
    plain = reference.rstrip("/")
    picture = os.path.splitext(plain)[1].lower()
    if picture in pictures.PICTURES and os.path.isfile(plain):
        return f", or '{os.path.dirname(plain) or '.'}/*{picture}' for the pictures in its folder"
    if exists(plain) and (found := _datasets(plain)):
        return found
    if plain.lower().endswith((".h5", ".hdf5", ".hdf")):
        return f", for example {plain}:raw"
    if exists(os.path.join(plain, "info")):
        return f", or {PRECOMPUTED}{plain} for the precomputed volume in this folder"
    with contextlib.suppress(Error, OSError, ValueError):
        names = os.listdir(plain) if os.path.isdir(plain) else []
        for suffix in pictures.PICTURES:
            if any(name.lower().endswith(suffix) for name in names):
                return f", or '{plain}/*{suffix}' for the pictures in this folder"
        if arrays := stores.arrays_below(Path(plain), 2):
            return f", or {' or '.join(arrays)}"
    other = f", or a copy of this file as TIFF, HDF5 or Zarr, by Fiji: {picture or 'this format'} is not read"
    return other if os.path.isfile(plain) else ", for example stack.h5:raw"
