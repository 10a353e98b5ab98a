# SPDX-License-Identifier: Apache-2.0
"""Facts about the file system of a run directory: rank 0 tests it; one rank of each host looks for rank 0's files."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import data
from floodtide.base.mounts import mount_of
from floodtide.comm import world
from floodtide.errors import Error

PROBE_BYTES = 16 * 2**20


def existing(directory: Path) -> Path:
    """Return the directory if it exists, else its nearest existing parent."""
    path = directory.absolute()
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


def examine(directory: Path) -> dict[str, Any]:
    """Return facts about the directory as seen by this rank. Collective.

    Returns:
        `path`, `type` and `seen`: True if this host shows the file of rank 0, None on ranks that did not look. On
        rank 0 also `error`; or `free_bytes`, `write_bytes_per_s`, and problems with `rename`, `locks` and `hdf5` (""
        if there is no problem).
    """
    name = world.broadcast_object(f".floodtide-doctor-{uuid.uuid4().hex}")
    probe = directory / name
    facts: dict[str, Any] = {"path": str(directory), "type": mount_of(directory).kind, "seen": None}
    if world.rank() == 0:
        facts |= _try(probe)
    world.current().barrier()
    if world.places()[0] == 0:
        facts["seen"] = (probe / "target").exists() or bool(facts.get("error"))
    world.current().barrier()
    if world.rank() == 0:
        shutil.rmtree(probe, ignore_errors=True)
    return facts


def _try(probe: Path) -> dict[str, Any]:
    try:
        free = shutil.disk_usage(probe.parent).free
        probe.mkdir()
        return {
            "free_bytes": free,
            "write_bytes_per_s": _write_speed(probe / "data"),
            "rename": _rename(probe),
            "locks": _locks(probe / "lock"),
            "hdf5": _hdf5(probe / "volume.h5"),
        }
    except OSError as error:
        return {"error": error.strerror or str(error)}


def _write_speed(path: Path) -> float:
    """Return the speed of writing a file of PROBE_BYTES to the disk, in bytes per second, including fsync."""
    block = os.urandom(2**20)
    start = time.monotonic()
    with path.open("wb", buffering=0) as file:
        for _ in range(PROBE_BYTES // len(block)):
            file.write(block)
        os.fsync(file.fileno())
    speed = PROBE_BYTES / (time.monotonic() - start)
    path.unlink()
    return speed


def _rename(folder: Path) -> str:
    """Return what is wrong with renaming a file over one that is being read, or "" if this works."""
    target, other = folder / "target", folder / "other"
    target.write_text("old")
    other.write_text("new")
    with target.open() as reader:
        try:
            os.replace(other, target)
        except OSError as error:
            return f"renaming over a file fails: {error.strerror}"
        old = reader.read()
    if target.read_text() != "new" or other.exists():
        return "the renamed file does not exist"
    if old != "old":
        return "a process that reads the old file loses its contents"
    return ""


def _locks(path: Path) -> str:
    """Return what is wrong with the locks that HDF5 takes on files (flock), or "" if they work."""
    path.touch()
    with path.open("rb") as one, path.open("rb") as other:
        try:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return f"{errno.errorcode.get(error.errno or 0, 'error')}: {error.strerror}"
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""
        return "two processes get the same lock at once"


def _hdf5(path: Path) -> str:
    """Return why floodtide cannot write and read an HDF5 file, or "" if it can."""
    values = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    try:
        data.write_volume(path, {"raw": values})
        if not np.array_equal(data.Volume(str(path), "raw").read(), values):
            return "values read from an HDF5 file differ from those written"
    except Error as error:
        return str(error)
    return ""
