# SPDX-License-Identifier: Apache-2.0
"""Checks of the outputs of commands, so that no command overwrites other files and only one process writes a file.

Before any work, an output is refused in three cases: it is an input of the same command, under any name; it is not a
regular file; or a file of that name exists which the command did not write. While an output is reserved, other
processes that want to write the same file are refused.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os.path import isfile
from pathlib import Path

from floodtide import _core
from floodtide.base.files import path_and_dataset, temporaries
from floodtide.base.locks import Gate, Lock, take
from floodtide.errors import InvalidArgumentError, MissingFolderError

PathLike = str | os.PathLike[str]
Check = Callable[[str], None]

LOCK_SUFFIX = ".floodtide-lock"
"""Suffix of lock files: `.NAME.floodtide-lock` in the same folder as the output NAME."""

WAIT_S = 60.0
"""Seconds that short writes wait for another process that writes the same file."""

PRECOMPUTED = "precomputed://"
"""Beginning of the names of Neuroglancer's precomputed volumes, before the folder."""

STORES = {".zarr": ("zarr.json", ".zarray", ".zgroup"), ".n5": ("attributes.json",)}
"""Ending of folders that are volumes, and the files of which such a folder has one, whatever its ending."""

_gate = Gate()  # protects _reserved
_reserved: dict[Path, tuple[Lock, int]] = {}  # {file: (lock, number of blocks that reserve it)}
os.register_at_fork(after_in_child=_reserved.clear)  # the locks are those of the parent


def unchecked(path: str) -> None:
    """Check nothing, because the function that writes the file checks it."""


def result_dataset(command: str, reference: str) -> tuple[str, str]:
    """Return the path of the file and the name of the dataset of a result that only HDF5 files can hold.

    Raises:
        InvalidArgumentError: If the name is that of another format, or has not the form "file:dataset".
    """
    if "://" in reference or ":" not in reference:
        raise InvalidArgumentError(
            f"{command}: writes FILE.h5:DATASET, and not {reference}; `floodtide convert` writes other formats"
        )
    return path_and_dataset(reference)


def hdf5_result(command: str, objects: Sequence[str]) -> Check:
    """Return a check for datasets of an HDF5 file: it accepts an older result of the command and other datasets."""

    def check(path: str) -> None:
        _core.data.check_output(os.fsencode(path), command, list(objects))

    return check


def starts_like(kind: str, *beginnings: bytes) -> Check:
    """Return a check for texts and pictures: it accepts an existing file if its first KiB shows the right kind.

    Args:
        kind: Name of the kind in messages: "a PNG picture".
        beginnings: Byte strings, at least one of which must be in the first KiB.
    """

    def check(path: str) -> None:
        head = b""
        with contextlib.suppress(FileNotFoundError), Path(path).open("rb") as file:
            head = file.read(1024)
        if head and not any(beginning in head for beginning in beginnings):
            raise InvalidArgumentError(
                f"{path}: exists and is not {kind}: it is not replaced; choose another name, or remove it first"
            )

    return check


def _picture(ending: str, kind: str, beginning: bytes) -> Check:
    def check(path: str) -> None:
        if not path.lower().endswith(ending):
            raise InvalidArgumentError(
                f"{path}: is to be {kind}, expected a name that ends in {ending}"
            )
        starts_like(kind, beginning)(path)

    return check


PICTURES: dict[str, Check] = {
    ".png": _picture(".png", "a PNG picture", b"\x89PNG\r\n"),
    ".svg": _picture(".svg", "an SVG picture", b"<svg"),
    ".pdf": _picture(".pdf", "a PDF file", b"%PDF-"),
}


@contextlib.contextmanager
def reserved(
    command: str, path: PathLike, check: Check, inputs: Iterable[PathLike] = (), wait_s: float = 0.0
) -> Iterator[None]:
    """Return a context manager: inside its block, no other process may write the output. Not collective.

    Args:
        command: Name of the command for messages: "partition".
        path: The file to write.
        check: Called with the path. It raises if an existing file must not be replaced.
        inputs: Files that the command reads. Files that do not exist are ignored.
        wait_s: Seconds to wait for another process that writes the output.

    Raises:
        InvalidArgumentError: If the output must not be written.
        MissingFolderError: If its folder does not exist.
        LockedError: If another process writes the output.
        StorageError: If the folder cannot be written.
    """
    name = os.fspath(path)
    require_folder(name)
    target = os.fsdecode(_core.output_target(os.fsencode(name)))
    file = Path(os.path.realpath(os.path.dirname(target)), os.path.basename(target))
    refuse_inputs(command, [name], inputs)
    with _gate:
        # An enclosing block or another thread of this process may have it.
        lock, blocks = _reserved.get(file, (None, 0))
        if lock is None:
            what, advice = f"{command}: the output {name}", "wait until it has ended"
            lock = take(lock_path(file), what, advice, wait_s=wait_s)
        _reserved[file] = lock, blocks + 1
    try:
        if blocks == 0:
            # left by killed processes, because this process has the lock
            for stale in temporaries(file):
                with contextlib.suppress(OSError):
                    stale.unlink()
            check(name)
        yield
    finally:
        with _gate:
            lock, blocks = _reserved.pop(file, (None, 0))  # None in a child of fork()
            if blocks > 1 and lock is not None:
                _reserved[file] = lock, blocks - 1
            elif lock is not None:
                lock.release()


def require_folder(name: PathLike) -> None:
    """Raise MissingFolderError unless the folder of a file that is to be written exists."""
    if not os.path.isdir(os.path.dirname(os.path.realpath(name))):
        raise MissingFolderError(f"{name}: has no folder, expected a folder that exists")


def refuse_inputs(command: str, outputs: Iterable[PathLike], inputs: Iterable[PathLike]) -> None:
    """Raise InvalidArgumentError if an output is an input.

    Files are compared by device and file number, so links are recognised. A volume may be a folder. Then all that is in
    the folder is input.
    """
    given = {os.fspath(name): volume_folder(name) for name in inputs}
    for name in [os.fspath(output) for output in outputs]:
        path = os.path.realpath(volume_folder(name) or name)
        for read, folder in given.items():
            inside = folder is not None and f"{path}/".startswith(f"{os.path.realpath(folder)}/")
            if inside or (isfile(name) and isfile(read) and os.path.samefile(name, read)):
                raise InvalidArgumentError(
                    f"{command}: the output {name} is {'in' if inside else 'also'} the input {read}, which would be"
                    " lost; expected another one"
                )


def volume_folder(reference: PathLike) -> str | None:
    """The folder of a volume that is a folder (Zarr, N5, precomputed); None for any other name."""
    name = os.fspath(reference)
    if name.startswith(PRECOMPUTED):
        return name.removeprefix(PRECOMPUTED)
    parts = name.rstrip("/").split("/")
    for i, part in enumerate(parts):
        if part.lower().endswith(tuple(STORES)):
            return "/".join(parts[: i + 1])
    files = [file for names in STORES.values() for file in names]
    found = name and any(os.path.lexists(os.path.join(name, file)) for file in files)
    return name if found else None


def files_of(references: Iterable[str]) -> list[str]:
    """Return the files and folders of volume names. Other texts are skipped; the command checks them itself."""
    found = []
    for reference in references:
        if volume_folder(reference) is not None:
            found.append(reference)
            continue
        if re.search(r"[*?\[]", reference):
            found += glob.glob(reference)
        found.append(reference)
        with contextlib.suppress(InvalidArgumentError):
            found.append(path_and_dataset(reference)[0])
    return found


def files_named(settings: object) -> list[str]:
    """Return all names in nested settings that may be files: every text, and the file of every "file:dataset"."""
    if isinstance(settings, str):
        return [settings, *files_of([settings])]
    if isinstance(settings, Mapping):
        return [found for value in settings.values() for found in files_named(value)]
    if isinstance(settings, Iterable):
        return [found for value in settings for found in files_named(value)]
    return []


def files_in(path: PathLike) -> list[Path]:
    """Return all files in a folder; or the path itself and the files of a TensorFlow checkpoint with this prefix."""
    name = os.fspath(path)
    if os.path.isdir(name):  # also False for names that are too long
        return [found for found in Path(name).rglob("*") if found.is_file()]
    return [Path(name), *map(Path, glob.glob(f"{glob.escape(name)}.*"))]


def lock_path(file: Path) -> Path:
    """Return the lock file of an output."""
    stem = os.fsdecode(os.fsencode(file.name)[:200])
    return file.with_name(f".{stem}{LOCK_SUFFIX}")
