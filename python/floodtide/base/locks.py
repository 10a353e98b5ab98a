# SPDX-License-Identifier: Apache-2.0
"""Locks that prevent two jobs from writing the same files, on local disks and on disks that hosts share.

A lock is a file that names its owner. The owner also holds a kernel lock on the file, which ends with the process, so
another process of this host takes over at once. Other hosts may not see a kernel lock. Therefore the owner renews the
time stamp of the file, and an old time stamp means that the owner on another host is gone.
docs/decisions/20261122-locks.md explains the reasons and all cases.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import os
import stat
import struct
import threading
import time
import weakref
from pathlib import Path
from typing import NamedTuple

from floodtide.base import notes
from floodtide.base.interrupts import uninterrupted
from floodtide.base.lock_owner import Owner, parse, this_process
from floodtide.errors import LockedError, StorageError

RENEW_S = 15.0
"""Seconds between two renewals of a time stamp."""

EXPIRY_S = 120.0
"""Age of the time stamp, in seconds, at which an owner on another host counts as gone."""

IN_USE = " is in use by "
"""Words of each LockedError, by which another process knows it in the output of a program."""

_PATIENCE_S = 5.0  # seconds to wait for processes that take or release the lock at the same moment
_LOOK_S = 1.0  # seconds between two looks at a time stamp
_SETTLE_S = 0.05  # seconds after which the last of several processes that write an owner at once has the lock
_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


class Lock:
    """A lock that this process holds until `release`, until the object is deleted, or until the process ends."""

    def __init__(self, held: _Held) -> None:
        self._held = held
        self._finalizer = weakref.finalize(self, _release, held)
        _keep_fresh(held)

    @property
    def held(self) -> bool:
        """Return True if this object still holds the lock: it was neither released nor taken over."""
        return self._finalizer.alive and _is_in_place(self._held)

    def release(self) -> None:
        """Remove the lock file. A second call does nothing."""
        with uninterrupted():
            self._finalizer()


@dataclasses.dataclass(eq=False)
class _Held:
    path: Path
    descriptor: int
    text: bytes
    process: int


class _Other(NamedTuple):
    """Another owner of a lock."""

    owner: Owner
    exists: bool | None  # None: nothing tells yet
    stamp_s: float  # time stamp of the file, by the clock of the file system
    age_s: float


def take(path: Path, what: str, advice: str, wait_s: float = 0.0) -> Lock:
    """Take a lock and return it. A lock whose owner is gone is taken over.

    A lock that this process holds is also taken over; the older `Lock` is then not `held`. If only the time stamp can
    show whether the owner is gone, wait until it is renewed or has expired.

    Args:
        path: The lock file. Its folder must exist.
        what: What the lock protects, for messages: "the run directory runs/a".
        advice: What to do if another process holds the lock, for messages.
        wait_s: Seconds to wait for another process that holds the lock.

    Raises:
        LockedError: If another process holds the lock. The message names host, process and time.
        StorageError: If the lock file cannot be written.
    """
    patience_s = max(wait_s, _PATIENCE_S)
    deadline = time.monotonic() + patience_s
    first: _Other | None = None  # first look at an owner of which nothing tells whether it is gone
    found: Lock | _Other | None = None
    try:
        while True:
            with uninterrupted():  # from the file's name to the object that will remove it
                found = _attempt(path, first)
            if isinstance(found, Lock):
                return found
            late = time.monotonic() > deadline
            if found is None and late:
                raise LockedError(f"{what} is being taken by another process: {advice}")
            if found is not None and found.exists and (late or not wait_s):
                raise LockedError(f"{what}{IN_USE}{found.owner}: {advice}")
            if found is not None and found.exists is None:
                if first is None or first.owner != found.owner:
                    first = found
                    _say_that_it_waits(path, what, found)
                deadline = time.monotonic() + patience_s
                time.sleep(_LOOK_S)
            time.sleep(0.02)
    except BaseException as error:  # also Ctrl-C
        if isinstance(found, Lock):
            found.release()
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise StorageError(f"{path}: lock file cannot be written: {error.strerror}") from None
        raise


def _attempt(path: Path, first: _Other | None) -> Lock | _Other | None:
    """Take a lock, or return its other owner; None if the lock file is just being made or removed.

    Args:
        first: The owner as it was found when nothing told whether it is gone.
    """
    for older in tuple(_fresh):
        if _is_in_place(older) and _is_file(older.descriptor, path):
            _fresh.discard(older)
            held = dataclasses.replace(older)
            older.descriptor = -1
            return Lock(held)
    descriptor, is_new = _open(path)
    with contextlib.ExitStack() as unless_taken:
        unless_taken.callback(os.close, descriptor)
        locked = _lock(descriptor)
        if not _is_file(descriptor, path):
            return None
        if locked is False or not is_new:
            other = _other(path, descriptor, locked, first)
            if other.exists is not False:
                # an owner writes its name a moment after it has made the file
                young = not other.owner.token and other.age_s < _PATIENCE_S
                return None if young else other
        text = _write_owner(path, descriptor, bool(locked))
        if not (locked and is_new):  # other hosts may not see the lock
            time.sleep(_SETTLE_S)
        held = _Held(path, descriptor, text, os.getpid())
        if not _is_in_place(held):
            return None
        unless_taken.pop_all()
        return Lock(held)


def _open(path: Path) -> tuple[int, bool]:
    """Open a lock file, or make it. Return its descriptor, and whether it is new."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_EXCL, 0o666), True
    except FileExistsError:
        pass
    try:
        descriptor = os.open(path, flags, 0o666)  # new only if it was removed just now
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StorageError(
                f"{path}: is a symbolic link, expected a lock file: remove it"
            ) from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor, False
    os.close(descriptor)
    raise StorageError(f"{path}: is not a regular file, expected a lock file: remove it")


def _other(path: Path, descriptor: int, locked: bool | None, first: _Other | None) -> _Other:
    """Return the owner that a lock file names, and whether it still exists."""
    import tempfile

    owner = parse(os.pread(descriptor, 65536, 0))
    stamp_s = os.fstat(descriptor).st_mtime
    with tempfile.TemporaryFile(dir=path.parent) as probe:  # clocks of hosts differ
        age_s = os.fstat(probe.fileno()).st_mtime - stamp_s
    exists: bool | None = None
    if locked is False:
        exists = True
    elif locked and (not owner.token or (owner.kernel_lock and owner.is_of_this_kernel)):
        exists = False
    elif owner.runs_here is not None:
        exists = owner.runs_here
    elif first is not None and first.owner == owner and stamp_s > first.stamp_s:
        exists = True  # renewed
    elif age_s >= (EXPIRY_S if owner.token else _PATIENCE_S):
        exists = False
    return _Other(owner, exists, stamp_s, age_s)


def _write_owner(path: Path, descriptor: int, locked: bool) -> bytes:
    """Write this process into a lock file, and return the text."""
    text = this_process(kernel_lock=locked).text().encode()
    try:
        os.ftruncate(descriptor, 0)
        if os.pwrite(descriptor, text, 0) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return text


def _say_that_it_waits(path: Path, what: str, found: _Other) -> None:
    left_s = max(EXPIRY_S - found.age_s, 0)
    notes.line(
        f"{what} was in use by {found.owner} {max(found.age_s, 0):.0f} s ago, on another host:"
        f" waiting up to {left_s:.0f} s (if that process has ended: remove {path})"
    )


# A lock of the open file (OFD), not of the process: it does not end when other code of this process opens and closes
# the file. struct flock: type, whence, start, length, process.
_SET = getattr(fcntl, "F_OFD_SETLK", None)


def _lock(descriptor: int) -> bool | None:
    """Take the kernel lock. Return False if another process has it, None if the file system has no locks."""
    if _SET is None:
        return None
    try:
        wanted = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(descriptor, _SET, wanted)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        if error.errno in _UNSUPPORTED:
            return None
        raise
    return True


def _is_file(descriptor: int, path: Path) -> bool:
    """Return True if the open file is the one that has this name."""
    try:
        here, there = os.fstat(descriptor), os.lstat(path)
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _is_in_place(held: _Held) -> bool:
    """Return True if the lock file still names this owner."""
    if not _is_file(held.descriptor, held.path):
        return False
    with contextlib.suppress(OSError):
        return os.pread(held.descriptor, 65536, 0) == held.text
    return False


def _release(held: _Held) -> None:
    if held.process != os.getpid():
        return  # after a fork, the lock belongs to the parent
    _fresh.discard(held)
    if _is_in_place(held):
        # the folder or the disk may be gone; other processes see that the owner has ended
        with contextlib.suppress(OSError):
            held.path.unlink()
    with contextlib.suppress(OSError):  # the descriptor is closed even if this fails
        os.close(held.descriptor)


_fresh: set[_Held] = set()  # locks of this process
_thread: threading.Thread | None = None


def _keep_fresh(held: _Held) -> None:
    """Start to renew the time stamp of a lock regularly."""
    global _thread
    _fresh.add(held)
    if _thread is None:
        _thread = threading.Thread(target=_renew, name="floodtide-locks", daemon=True)
        _thread.start()


def _renew() -> None:
    while True:
        time.sleep(RENEW_S)
        for held in tuple(_fresh):
            # try again next time; a lasting error shows when the owner writes
            with contextlib.suppress(OSError):
                if _is_in_place(held):
                    os.utime(held.descriptor)


def _after_fork() -> None:
    """Close the parent's locks in a child process, so that the child does not keep them alive."""
    global _thread
    for held in _fresh:
        os.close(held.descriptor)
    _fresh.clear()
    _thread = None


os.register_at_fork(after_in_child=_after_fork)
