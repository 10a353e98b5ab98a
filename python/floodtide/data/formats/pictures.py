# SPDX-License-Identifier: Apache-2.0
"""Volumes of pictures: TIFF stacks, and folders of single TIFF or PNG slices, through tifffile and imageio."""

from __future__ import annotations

import dataclasses
import functools
import glob
import itertools
import logging
import math
import os
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.base.libraries import library
from floodtide.base.limits import require_decoded
from floodtide.base.locks import Gate
from floodtide.base.reading import blaming, require_file
from floodtide.data.boxes import Vec3, of_slices
from floodtide.data.formats import tiff
from floodtide.data.formats.geometry import Geometry, not_used, same_size, size_text
from floodtide.data.formats.readers import Opened, object_volume
from floodtide.data.formats.tiff import TIFF, file_and_series
from floodtide.errors import InvalidFileError

CACHE_BYTES = 256 << 20
"""Size of the cache for decoded pictures, in bytes. A picture is always decoded whole."""

# tifffile logs what is wrong with a file. Without a handler, Python prints this on standard error, beside our own line.
logging.getLogger("tifffile").addHandler(logging.NullHandler())

PICTURES = (*TIFF, ".png")
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_PALETTE = 3  # kind of colours in the header of a PNG file
_WILD = re.compile(r"[*?\[]")


def is_stack(reference: str) -> bool:
    """Return True if the name is that of one TIFF file, or of a series in it."""
    path, _ = file_and_series(reference)
    return path.lower().endswith(TIFF) and not is_pattern(path)


def is_pattern(reference: str) -> bool:
    """Return True if a name is a pattern and not the name of a file. A name without * is one only if files match it."""
    if "\0" in reference or not _WILD.search(os.path.basename(reference)):
        return False
    if os.path.lexists(reference):
        return False
    return "*" in os.path.basename(reference) or bool(files_of_pattern(reference))


def open_stack(reference: str) -> Opened:
    """Open a TIFF file of one picture or of pictures of one size, or a series of a file."""
    path, series = file_and_series(reference)
    source = Stack(path, series)
    return object_volume(source, reference, source.geometry, file=path)


def open_folder(reference: str) -> Opened:
    """Open the pictures whose names match a pattern, in the order of the numbers in their names."""
    files = files_of_pattern(reference)
    source = Folder(reference, files)
    names = [_parts(os.path.basename(file)) for file in files]
    forms = {tuple(part.lower() for part in parts[::2]) for parts in names}
    columns = [parts[1::2] for parts in names] if len(forms) == 1 else []
    varying = [
        numbers for one in zip(*columns, strict=True) if len(numbers := {*map(int, one)}) > 1
    ]
    decimal, problem = sorted(files, key=_by_value) != files, ""
    if decimal:
        problem = "the files have another order if their numbers are read with a decimal point"
    elif len(forms) > 1:
        problem = f"matches names of {len(forms)} forms"
    elif not any(len(numbers) == len(files) for numbers in (*varying, {0})):
        problem = "no number in the names differs in all files, as for channels or tiles"
    if problem:
        shown = ", ".join(map(os.path.basename, files[:3]))
        notes.show(
            f"{reference}: {problem}; the order of the sections is {shown}, ..., {os.path.basename(files[-1])}"
        )
    if len(varying) == 1 and not decimal and (missing := _missing(sorted(varying[0]))):
        shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        notes.show(
            f"{reference}: no file has the number {shown}; sections beside a gap are neighbours"
        )
    return object_volume(source, reference, source.geometry)


def _parts(name: str) -> list[str]:
    return re.split(r"([0-9]+)", name)


def _by_value(path: str) -> list[tuple[int, float, str]]:
    """Return a key that compares "0.5" in a name as a number with a decimal point."""
    parts = re.split(r"([0-9]+(?:\.[0-9]+)?)", os.path.basename(path))
    return [(1, 0, part) if i % 2 == 0 else (0, float(part), "") for i, part in enumerate(parts)]


def files_of_pattern(reference: str) -> list[str]:
    """Return the files that match a pattern. Numbers in names are compared as numbers: slice2 comes before slice10.

    The folder is no pattern if it exists, whatever is in its name. The ending of the names may be in capital letters.
    """

    def order(name: str) -> list[tuple[int, int, str]]:
        return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in _parts(name)]

    folder, pattern = os.path.split(reference)
    if os.path.isdir(folder):
        folder = glob.escape(folder)
    pattern, ending = os.path.splitext(pattern)
    pattern += "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in ending)
    return sorted(sorted(glob.glob(os.path.join(folder, pattern))), key=order)


def _missing(numbers: list[int]) -> list[int]:
    step = math.gcd(*(b - a for a, b in itertools.pairwise(numbers)))
    if (numbers[-1] - numbers[0]) // step > 100 * len(numbers):
        return []
    return sorted(set(range(numbers[0], numbers[-1], step)) - set(numbers))


class Planes:
    """Pictures that are decoded whole and cached. Several threads may call `decode` at once."""

    def __init__(self, decode: Callable[[int], NDArray[Any]], shape: Vec3, dtype: Any) -> None:
        self.shape, self.chunks, self.dtype = shape, (1, *shape[1:]), np.dtype(dtype)
        plane = max(1, shape[1] * shape[2] * self.dtype.itemsize)
        self._plane = functools.lru_cache(max(1, CACHE_BYTES // plane))(decode)

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        z, y, x = box
        block = np.empty(of_slices(box)[1], self.dtype)
        for i in range(z.start, z.stop):
            block[i - z.start] = self._plane(i)[y, x]
        return block


class Stack(Planes):
    """A TIFF file. Uncompressed voxels are read directly from the file; compressed pictures are decoded whole."""

    def __init__(self, path: str, series: int | None = None) -> None:
        require_file(path)
        self._path = path
        self._series = series
        self._tables = tiff.Tables(path)
        self._gate = Gate()  # of the file, which has one position
        self._open()
        super().__init__(self._decoded, self._sections.shape, self._sections.dtype)
        self.geometry = self._sections.geometry
        self._offset = self._sections.offset  # None unless all voxels lie in one piece
        self._stored = self.dtype.newbyteorder(self._file.byteorder)
        self._whole = len(self._sections.pages) != self.shape[0]
        if self._offset is None:
            size = self.shape if self._whole else self.shape[1:]
            require_decoded(path, size, self.dtype.itemsize)

    def _open(self) -> None:
        self._file = library("tifffile", self._path, "formats").TiffFile(self._path)
        weakref.finalize(self, self._file.close)
        self._sections = tiff.Sections(self._path, self._file, self._series)
        self._process = os.getpid()

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        if self._offset is None:
            return super().__getitem__(box)
        z, y, x = box
        _, rows, columns = self.shape
        block = np.empty(of_slices(box)[1], self._stored)
        for i in range(z.start, z.stop):
            first = self._offset + (i * rows + y.start) * columns * self.dtype.itemsize
            count = (y.stop - y.start) * columns
            values = np.fromfile(self._path, self._stored, count, offset=first)
            if values.size != count:
                raise OSError("the file ends within the pictures")
            block[i - z.start] = values.reshape(-1, columns)[:, x]
        return block

    def _decoded(self, number: int) -> NDArray[Any]:
        with self._gate:
            if self._process != os.getpid():
                self._open()  # a child of fork() shares the position, and a thread of its parent may hold locks
            page = self._sections.pages[0 if self._whole else number]
            # of another file, in an OME-TIFF that is spread over several
            handle = page.parent.filehandle
            closed = handle.closed
            if closed:
                handle.open()
            try:
                picture = tiff.decoded(self._path, page, self._tables)
            finally:
                if closed:
                    handle.close()
        picture = picture.reshape(self.shape)[number] if self._whole else picture
        return picture.reshape(self.shape[1:])


class Folder(Planes):
    """Pictures of one size, each in its own file."""

    def __init__(self, pattern: str, files: list[str]) -> None:
        if not files:
            raise InvalidFileError(f"{pattern}: no file has such a name")
        self._pattern, self._files = pattern, files
        self._noted: set[str] = set()  # notes about the metadata of the first file
        self._later = False  # True: another note about a later file was shown
        self.geometry = Geometry()
        self._tables = tiff.Tables(pattern)
        first = self._read(0)
        mixed = first.dtype == np.bool_ and not all(map(_has_one_bit, files))
        dtype = np.dtype(np.uint8) if mixed else first.dtype
        super().__init__(self._decoded, (len(files), *first.shape), dtype)
        self._decoded(len(files) - 1)
        self.geometry = dataclasses.replace(self.geometry, axes_source="a section in each file")

    def _read(self, number: int) -> NDArray[Any]:
        """Return the values of a file: bool if it has one bit for each pixel."""
        path = self._files[number]
        require_file(path, self._pattern)
        with blaming(InvalidFileError, f"{path}: cannot be read as a picture"):
            picture = self._tiff(path, number) if path.lower().endswith(TIFF) else self._png(path)
        # the last of two or four channels says what is opaque
        colours = (picture.shape[-1] - 1) // 2 * 2 + 1
        if picture.ndim == 3 and colours in (1, 3) and picture.dtype.kind == "u":
            grey, opaque = picture[..., :1], np.iinfo(picture.dtype).max
            if (picture[..., :colours] == grey).all() and (picture[..., colours:] == opaque).all():
                return grey[..., 0]
        if picture.ndim != 2:
            raise InvalidFileError(
                f"{path}: has shape {picture.shape}, expected one picture of one channel (y, x); if each colour is a"
                " label, number those of all files together: np.unique(pixels, axis=0, return_inverse=True)"
            )
        return picture

    def _png(self, path: str) -> NDArray[Any]:
        pillow = library("imageio.v3", path, "formats")
        depth, kind, placed = _head(path)
        if placed:
            notes.show(
                f"{self._pattern}: states {', '.join(placed)} (a place, or a scale of pixels or values): not used"
            )
        if 1 < depth < 8 and kind == 0:
            notes.show(
                f"{self._pattern}: has {depth} bits for each pixel: its values 0 to {2**depth - 1} are read as 0 to"
                " 255, as PNG scales them"
            )
        if depth == 16 and kind != 0:
            raise InvalidFileError(f"{path}: has colours of 16 bits, expected one channel")
        with library("PIL.Image", path, "formats").open(path) as image:
            frames = getattr(image, "n_frames", 1)
            if frames != 1:
                raise InvalidFileError(
                    f"{path}: holds {frames} pictures, expected one in each file of {self._pattern}"
                )
            if "transparency" in image.info:
                notes.show(
                    f"{self._pattern}: states that some values are transparent (tRNS); they are read like others"
                )
            tiff.note_turned(self._pattern, image.getexif().get(tiff.ORIENTATION, 1))
            if kind != _PNG_PALETTE:
                return np.asarray(pillow.imread(path))
            table = np.reshape(image.getpalette(), (-1, 3))
            return self._tables.values(path, np.asarray(image), table)

    def _tiff(self, path: str, number: int) -> NDArray[Any]:
        """Return the only page of a file. It may be one of the files of a larger OME-TIFF."""
        with library("tifffile", path, "formats").TiffFile(path) as file:
            tiff.require_end_of_pages(path, file)
            pages = [page for page in file.pages if tiff.is_picture(page)]
            if len(pages) != 1:
                raise InvalidFileError(
                    f"{path}: holds {len(pages)} pictures, expected one in each file of {self._pattern}"
                )
            page = pages[0].aspage()
            tiff.note_colours(self._pattern, page)
            require_decoded(path, page.shape, page.dtype.itemsize)
            with notes.collected() as texts:
                stated = tiff.geometry_of_file(self._pattern, file)
            if number == 0:
                self._noted |= set(texts)
            other = [text for text in texts if text not in self._noted]
            # All notes of the first file, and the first one that only a later file has.
            for text in texts if number == 0 else other[: not self._later]:
                notes.show(text if number == 0 else f"{text} (in {os.path.basename(path)})")
            self._later |= number > 0 and bool(other)
            self._compare(path, stated, number)
            picture = tiff.decoded(path, page, self._tables)
            separate = page.planarconfig == 2 and picture.ndim == 3  # a plane for each colour
            return np.moveaxis(picture, 0, -1) if separate else picture

    def _compare(self, path: str, stated: Geometry, number: int) -> None:
        """Take the geometry of the first file. Refuse another voxel size in a later one, and note another place."""
        size, edges = self.geometry.voxel_size_nm, stated.voxel_size_nm
        if number == 0:
            self.geometry = stated
            return
        z, y, x = self.geometry.offset or (0, 0, 0)
        if (stated.offset or (0, 0, 0)) not in ((z, y, x), (z + number, y, x)):
            notes.show(
                f"{self._pattern}: its files state places that do not follow each other: those after the first file"
                " are not used"
            )
        if edges is not None and size is None:
            what = f"voxels of {size_text(edges)} nm, which the first file does not state"
            not_used(self._pattern, what)
        elif edges is not None and size is not None and not same_size(size, edges):
            raise InvalidFileError(
                f"{path}: states voxels of {size_text(edges)} nm, expected {size_text(size)} nm as {self._files[0]}"
            )

    def _decoded(self, number: int) -> NDArray[Any]:
        picture = self._read(number)
        if picture.dtype == np.bool_ and self.dtype == np.uint8:
            notes.show(
                f"{self._pattern}: has pictures of 1 bit beside others of 8 bits: their values 0 and 1 are read as"
                " black and white, 0 and 255"
            )
            picture = picture * np.uint8(255)
        if picture.shape != self.shape[1:] or picture.dtype != self.dtype:
            raise InvalidFileError(
                f"{self._files[number]}: is {picture.dtype} of shape {picture.shape}, expected"
                f" {self.dtype} of {self.shape[1:]} as {self._files[0]}"
            )
        return picture


def _head(path: str) -> tuple[int, int, list[str]]:
    """Return the bits of a sample and the kind of colours of a PNG file, and its chunks that state a place or a scale.

    Pillow tells nothing of these chunks.
    """
    placed = []
    with open(path, "rb") as file:
        start = file.read(33)
        if len(start) < 33 or not start.startswith(_PNG):
            raise InvalidFileError(f"{path}: is no PNG file, or is cut off")
        while len(head := file.read(8)) == 8 and head[4:] not in (b"IDAT", b"IEND"):
            if head[4:] in (b"oFFs", b"sCAL", b"pCAL"):
                placed.append(head[4:].decode())
            file.seek(int.from_bytes(head[:4], "big") + 4, os.SEEK_CUR)
    return start[24], start[25], placed


def _has_one_bit(path: str) -> bool:
    """Return True for a file of black and white, which has one bit for each pixel and no colour table."""
    require_file(path)
    if not path.lower().endswith(TIFF):
        return _head(path)[:2] == (1, 0)
    with library("tifffile", path, "formats").TiffFile(path) as file:
        page = file.pages[0]
        return bool(page.bitspersample == 1 and page.photometric != tiff.PALETTE)
