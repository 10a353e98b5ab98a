# SPDX-License-Identifier: Apache-2.0
"""The one gate that all outputs of commands pass: what may be written where, and by one process at a time.

An output is refused before any work if it is an input of the same command, under whatever name; if it is no regular
file; or if a file of that name exists that the command did not write. While an output is reserved, other processes that
want to write the same file are refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from floodtide import _core
from floodtide.base import notes
from floodtide.base.files import path_and_dataset, temporaries
from floodtide.base.interrupts import uninterrupted
from floodtide.base.locks import Lock, take
from floodtide.errors import InvalidArgumentError, StorageError

PathLike = str | os.PathLike[str]
Check = Callable[[str], None]

LOCK_SUFFIX = ".floodtide-lock"
"""End of the name of an output's lock file, `.NAME.floodtide-lock` beside the file NAME."""

WAIT_S = 60.0
"""How long writers that take moments wait for another process that writes the same file."""

_noted: set[Path] = set()  # folders whose file system this process has said something about
_gate = threading.Lock()  # of _reserved
_reserved: dict[str, tuple[Lock, int]] = {}  # files of this process, and how many blocks hold them


def unchecked(path: str) -> None:
    """A check that leaves the decision to the writer that is made next."""


def hdf5_result(command: str, objects: Sequence[str]) -> Check:
    """A check for datasets that a command writes: an older result of it may be there, and others' datasets."""

    def check(path: str) -> None:
        _core.data.check_output(os.fsencode(path), command, list(objects))

    return check


def starts_like(kind: str, *beginnings: bytes) -> Check:
    """A check for texts and pictures: a file that is there is replaced if its first KiB looks like one of that kind.

    Args:
        kind: How messages call it: "a PNG picture".
        beginnings: Bytes of which one must be in the first KiB.
    """

    def check(path: str) -> None:
        try:
            with Path(path).open("rb") as file:
                head = file.read(1024)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from None
        if head and not any(beginning in head for beginning in beginnings):
            raise InvalidArgumentError(
                f"{path}: exists and is not {kind}: it is not replaced; choose another name, or remove it first"
            )

    return check


PICTURES: dict[str, Check] = {
    ".png": starts_like("a PNG picture", b"\x89PNG\r\n"),
    ".svg": starts_like("an SVG picture", b"<svg"),
    ".pdf": starts_like("a PDF file", b"%PDF-"),
}


@contextlib.contextmanager
def reserved(
    command: str,
    path: PathLike,
    check: Check,
    inputs: Iterable[PathLike] = (),
    wait_s: float = 0.0,
) -> Iterator[None]:
    """Keep other processes from writing an output as long as the block lasts. Not collective.

    Args:
        command: For messages: "partition".
        path: The file to write.
        check: Called with the path; raises if the file that is there must not be replaced.
        inputs: Files that the command reads; those that do not exist are left out.
        wait_s: How long to wait for another process that writes it, in seconds.

    Raises:
        InvalidArgumentError: If the output must not be written.
        LockedError: If another process writes it.
        StorageError: If its folder is missing or may not be written to.
    """
    name = os.fspath(path)
    target = os.fsdecode(_core.output_target(os.fsencode(name)))
    refuse_inputs(command, [name], inputs)
    folder = os.path.dirname(os.path.abspath(target))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"{name}: cannot be written: folder {folder} is write-protected")
    key = os.path.join(os.path.realpath(folder), os.path.basename(target))
    file = Path(key)
    lock, registered = None, False
    try:  # around the lock too: Ctrl-C may come as soon as it is taken
        with _gate:
            lock, blocks = _reserved.get(
                key, (None, 0)
            )  # of a caller of this function, or of another thread
            if lock is None:
                what, advice = f"{command}: the output {name}", "wait until it has ended"
                lock = take(_lock_path(file), what, advice, wait_s=wait_s)
            with uninterrupted():
                _reserved[key] = lock, blocks + 1
                registered = True
        if blocks == 0:
            if lock.note and file.parent not in _noted:
                _noted.add(file.parent)
                notes.show(lock.note)
            for stale in temporaries(file):  # of processes that were killed, as the lock is ours
                with contextlib.suppress(OSError):
                    stale.unlink()
            check(name)
        yield
    finally:
        if registered:
            _give_back(key)
        elif lock is not None and key not in _reserved:
            lock.release()


def _give_back(key: str) -> None:
    """Release a file's lock when the last of the blocks that hold it has ended."""
    with uninterrupted(), _gate:
        lock, blocks = _reserved.pop(key)
        if blocks > 1:
            _reserved[key] = lock, blocks - 1
        else:
            lock.release()


def give_back_all() -> None:
    """Release all outputs that this process holds: the last step of a program that was interrupted in its clean-up."""
    with uninterrupted():
        while _reserved:
            _, (lock, _) = _reserved.popitem()
            lock.release()


def refuse_inputs(command: str, outputs: Iterable[PathLike], inputs: Iterable[PathLike]) -> None:
    """Compare files by device and number, whatever their names: links, hard links and other spellings are seen.

    Raises:
        InvalidArgumentError: If an output is an input.
    """
    read = {}
    for name in inputs:
        identity = _identity(name)
        if identity is not None:
            read[identity] = os.fspath(name)
    for name in outputs:
        identity = _identity(name)
        if identity in read:
            raise InvalidArgumentError(
                f"{command}: the output {os.fspath(name)} is also the input {read[identity]}, which would be lost;"
                " expected another one"
            )


def is_one_of(path: PathLike, files: Iterable[PathLike]) -> bool:
    """Whether a file is one of these, under whatever names."""
    identity = _identity(path)
    return identity is not None and identity in map(_identity, files)


def files_of(references: Iterable[str]) -> list[str]:
    """The files of references "file:dataset"; those that are none are left to the command's own checks."""
    found = []
    for reference in references:
        with contextlib.suppress(InvalidArgumentError):
            found.append(path_and_dataset(reference)[0])
    return found


def files_named(settings: object) -> list[str]:
    """All that texts in nested settings could name: files, and files of references "file:dataset"."""
    if isinstance(settings, str):
        return [settings, *files_of([settings])]
    if isinstance(settings, Mapping):
        return [found for value in settings.values() for found in files_named(value)]
    if isinstance(settings, Iterable):
        return [found for value in settings for found in files_named(value)]
    return []


def files_in(path: PathLike) -> list[Path]:
    """A file itself; all files in a folder; the files of a TensorFlow checkpoint of that prefix."""
    path = Path(path)
    if os.path.isdir(path):  # False also for names that are too long
        return [found for found in path.rglob("*") if found.is_file()]
    shards = re.compile(re.escape(path.name) + r"\.(index|meta|data-\d+-of-\d+)")
    beside = path.parent.glob("*") if os.path.isdir(path.parent) else ()
    return [path, *(found for found in beside if shards.fullmatch(found.name))]


def _identity(path: PathLike) -> tuple[int, int] | None:
    """Device and number of the file that a name leads to; None for what is no regular file, or not there."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _lock_path(file: Path) -> Path:
    stem = os.fsdecode(os.fsencode(file.name)[:200])
    return file.with_name(f".{stem}{LOCK_SUFFIX}")
