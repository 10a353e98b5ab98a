# SPDX-License-Identifier: Apache-2.0
"""Locks that prevent two jobs from writing the same files, on local disks and on disks that hosts share.

A lock is a file that names its owner. The lock file is written under another name and then linked to its final name,
so it is never seen incomplete (link(2) is atomic, also on NFS). The owner also holds a kernel lock on the file, which
ends with the process. If the kernel lock is gone, the owner is gone, and another process takes over at once. Some file
systems do not share kernel locks between hosts. There the owner renews the time stamp of the file, and an old time
stamp means that the owner is gone. docs/decisions/20261122-locks.md explains the reasons and all cases.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import struct
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from floodtide.base import notes
from floodtide.base.files import SUFFIX, temporaries, temporary
from floodtide.base.interrupts import uninterrupted
from floodtide.base.lock_owner import parse, this_process
from floodtide.base.mounts import mount_of
from floodtide.errors import LockedError, StorageError

RENEW_S = 15.0
"""Seconds between two renewals of a time stamp."""

EXPIRY_S = 120.0
"""Age of the time stamp, in seconds, at which the owner counts as gone if kernel locks cannot tell."""

IN_USE = " is in use by "
"""Words of each LockedError, by which another process knows it in the output of a program."""

_PATIENCE_S = 5.0  # seconds to wait for processes that take or release the lock at the same moment
_LOOK_S = 1.0  # seconds between two reads of a time stamp
_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)


class Lock:
    """A lock that this process holds until `release`, until the object is deleted, or until the process ends.

    Attributes:
        path: The lock file.
        note: Note for the user if the locks of this file system may not hold between hosts, else "".
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.note = ""
        self._held = _Held(path, descriptor, os.getpid())
        self._finalizer = weakref.finalize(self, _release, self._held)
        _keep_fresh(self._held)

    @property
    def held(self) -> bool:
        """Return True if this object still holds the lock: it was neither released nor taken over."""
        return self._finalizer.alive and _is_in_place(self._held)

    def release(self) -> None:
        """Remove the lock file. A second call does nothing."""
        with uninterrupted():
            self._finalizer()


@dataclass(eq=False)
class _Held:
    path: Path
    descriptor: int
    process: int


def take(path: Path, what: str, advice: str, job: str = "", wait_s: float = 0.0) -> Lock:
    """Take a lock and return it. A lock whose owner is gone is taken over.

    A lock that this process or another rank of the same job holds is also taken over; the older `Lock` is then not
    `held`. If only the time stamp can show whether the owner is gone, wait until it is renewed or has expired.

    Args:
        path: The lock file. Its folder must exist.
        what: What the lock protects, for messages: "the run directory runs/a".
        advice: What to do if another process holds the lock, for messages.
        job: A text that all ranks of the job share, or "".
        wait_s: Seconds to wait for another process that holds the lock.

    Raises:
        LockedError: If another process holds the lock. The message names host, process and time.
        StorageError: If the lock file cannot be created.
    """
    patience_s = max(wait_s, _PATIENCE_S)
    deadline = time.monotonic() + patience_s
    first: _Found | None = None  # first look at a lock whose owner may or may not be gone
    lock: Lock | None = None
    try:
        while True:
            with uninterrupted():  # from the file's name to the object that will remove it
                descriptor = _publish(path, path, job)
                lock = None if descriptor is None else Lock(path, descriptor)
            found = _read(path) if lock is None else None
            if found is not None:
                exists = _exists(path, found, job, first)
                if exists and wait_s and time.monotonic() < deadline:
                    time.sleep(0.02)
                    continue
                if exists:
                    raise LockedError(f"{what}{IN_USE}{parse(found.text)}: {advice}")
                if exists is None:
                    if first is None or not first.is_same(found):
                        first = found
                        _say_that_it_waits(path, what, found)
                    deadline = time.monotonic() + patience_s
                    time.sleep(_LOOK_S)
                    continue
                with uninterrupted():
                    descriptor = _replace(path, found, job)
                    lock = None if descriptor is None else Lock(path, descriptor)
            if lock is not None and descriptor is not None:
                _remove_left_over(path)
                lock.note = _note(path, descriptor)
                return lock
            if time.monotonic() > deadline:
                raise LockedError(f"{what} is being taken by another process: {advice}")
            time.sleep(0.02)
    except OSError as error:
        if lock is not None:
            lock.release()
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path}: lock file cannot be created: {error.strerror}") from None
    except BaseException:  # Ctrl-C
        if lock is not None:
            lock.release()
        raise


class _Found(NamedTuple):
    """A lock file as it was read."""

    text: bytes
    identity: tuple[int, int]
    stamp_s: float  # time stamp, by the clock of the file system
    age_s: float
    locked: bool | None  # True if a process holds the kernel lock; None if unknown

    def is_same(self, other: _Found) -> bool:
        """Return True if both are the file of one owner. File numbers are reused, so the text is compared too."""
        return self.identity == other.identity and self.text == other.text


def _exists(path: Path, found: _Found, job: str, first: _Found | None) -> bool | None:
    """Return whether the owner of a lock file still exists; None if nothing tells yet.

    Args:
        path: The lock file.
        found: The lock file as read now.
        job: A text that all ranks of the job share, or "".
        first: The lock file as read when the answer was None for the first time.
    """
    owner = parse(found.text)
    if (job and owner.job == job) or (owner.process == os.getpid() and owner.runs_here):
        return False  # a rank of this job, or an older object of this process: take over
    if found.locked:
        return True
    if owner.runs_here is False:
        return False
    if owner.runs_here and not owner.kernel_lock:
        return True
    # a file without the text of an owner was never completed
    proof = owner.kernel_lock or not owner.token
    if found.locked is not None and proof and mount_of(path.parent).locks_count:
        return False
    if first is not None and first.is_same(found) and found.stamp_s > first.stamp_s:
        return True  # renewed
    return False if found.age_s >= EXPIRY_S else None


def _say_that_it_waits(path: Path, what: str, found: _Found) -> None:
    left_s = max(EXPIRY_S - found.age_s, 0)
    notes.line(
        f"{what} was in use by {parse(found.text)} {max(found.age_s, 0):.0f} s ago, and this file system's locks do not"
        f" show whether it still is: waiting up to {left_s:.0f} s (if that process has ended: remove {path})"
    )


def _publish(path: Path, name: Path, job: str) -> int | None:
    """Create a lock file under a name, and return its locked descriptor; None if the name is taken.

    The file is first written as a temporary file of the lock `path`. If another process removes that file as a
    leftover, the result is also None.
    """
    unique = temporary(path)
    descriptor = _new_file(unique, job)
    try:
        os.link(unique, name)
    except (FileExistsError, FileNotFoundError):
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        if error.errno not in _NO_LINKS:
            raise
        try:  # without links: the creation is exclusive, but the text is written a moment later
            return _new_file(name, job)
        except FileExistsError:
            return None
    except BaseException:  # the link may exist already
        _release(_Held(name, descriptor, os.getpid()))
        raise
    finally:
        unique.unlink(missing_ok=True)
    return descriptor


def _new_file(path: Path, job: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        locked = _lock(descriptor)
        text = this_process(job, kernel_lock=locked).text().encode()
        if os.write(descriptor, text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except BaseException:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return descriptor


def _replace(path: Path, found: _Found, job: str) -> int | None:
    """Replace the lock file of an owner that is gone, and return a descriptor; None if another process was faster.

    The name of the claim depends on the old owner, so only one process can create the claim and replace the lock. This
    process then reads the lock again, because another process may have replaced it before.
    """
    claim = path.with_name(f".{path.name}.{hashlib.sha256(found.text).hexdigest()[:16]}{SUFFIX}")
    descriptor = _publish(path, claim, job)
    if descriptor is None:
        other = _read(claim)
        if other is not None and _exists(path, other, job, None) is False:
            claim.unlink(missing_ok=True)  # its process was killed during the few calls below
        return None
    again = _read(path)
    if again is None or not again.is_same(found):
        claim.unlink(missing_ok=True)
        os.close(descriptor)
        return None
    try:
        os.replace(claim, path)
    except FileNotFoundError:
        os.close(descriptor)
        return None
    return descriptor


def _read(path: Path) -> _Found | None:
    """Return a lock file as read now; None if it does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StorageError(
                f"{path}: is a symbolic link, expected a lock file: remove it"
            ) from None
        raise
    try:
        status = os.fstat(descriptor)
        text = os.read(descriptor, 65536) if stat.S_ISREG(status.st_mode) else b""
        locked = _is_locked(descriptor)
    finally:
        os.close(descriptor)
    age_s = _file_clock(path) - status.st_mtime
    return _Found(text, (status.st_dev, status.st_ino), status.st_mtime, age_s, locked)


def _file_clock(path: Path) -> float:
    """Return the time of the file system's clock. Time stamps are compared only with this clock."""
    probe = temporary(path)
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        probe.unlink(missing_ok=True)


def _remove_left_over(path: Path) -> None:
    """Remove temporary files of processes that were killed while taking this lock. A live process tries again."""
    for stale in temporaries(path):
        with contextlib.suppress(OSError):
            stale.unlink()


# Locks of the open file (OFD), not of the process: they do not end when other code of this process opens and closes
# the file. struct flock: type, whence, start, length, process.
_FLOCK = "hhqqi0q"
_SET = getattr(fcntl, "F_OFD_SETLK", None)
_GET = getattr(fcntl, "F_OFD_GETLK", None)


def _lock(descriptor: int) -> bool:
    """Lock a file that no other process knows yet. Return False if the file system has no locks."""
    if _SET is None:
        return False
    try:
        fcntl.fcntl(descriptor, _SET, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _is_locked(descriptor: int) -> bool | None:
    """Return True if a process holds the kernel lock, None if the file system cannot tell."""
    if _GET is None:
        return None
    asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    try:
        answer = fcntl.fcntl(descriptor, _GET, asked)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return None
        raise
    kind: int = struct.unpack(_FLOCK, answer)[0]
    return kind != fcntl.F_UNLCK


def _note(path: Path, descriptor: int) -> str:
    mount = mount_of(path.parent)
    if mount.locks_count and _is_locked(descriptor) is not None:
        return ""
    return (
        f"other hosts may not see the locks of the file system of {path.parent} (type: {mount.kind or 'unknown'})."
        f" If a job is killed, a job on another host can use the same output {EXPIRY_S:.0f} s later"
    )


def _is_in_place(held: _Held) -> bool:
    """Return True if the lock file is still the one that this process created."""
    try:
        here, there = os.fstat(held.descriptor), os.lstat(held.path)
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


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


_fresh: set[_Held] = set()
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
                os.utime(held.descriptor)


def _after_fork() -> None:
    """Close the parent's locks in a child process, so that the child does not keep them alive."""
    global _thread
    for held in _fresh:
        os.close(held.descriptor)
    _fresh.clear()
    _thread = None


os.register_at_fork(after_in_child=_after_fork)
