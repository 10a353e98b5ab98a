# SPDX-License-Identifier: Apache-2.0
"""Locks that prevent two jobs from writing the same files, on local disks and on disks that hosts share.

A lock is a file that names its owner. The owner also holds a kernel lock on the file, which ends with the process, so
another process of this host takes over at once. Other hosts may not see a kernel lock. Therefore the owner renews the
time stamp of the file, and an old time stamp means that the owner on another host is gone.
docs/decisions/20261122-locks.md explains the reasons and all cases.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import stat
import struct
import sys
import threading
import time
import weakref
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path

from floodtide.base import notes
from floodtide.errors import LockedError, StorageError

RENEW_S = 15.0
"""Seconds between two renewals of a time stamp."""

EXPIRY_S = 120.0
"""Age of the time stamp, in seconds, at which an owner on another host counts as gone."""

_PATIENCE_S = 5.0  # seconds to wait for processes that take or release the lock at the same moment
_LOOK_S = 1.0  # seconds between two looks at a time stamp
_SETTLE_S = 0.05  # seconds after which the last of several processes that write an owner at once has the lock
_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The process that made a lock file, as the file describes it."""

    host: str = ""
    # boot id of the kernel; it differs between hosts and changes at each start of a host
    boot: str = ""
    process: int = 0
    since: str = ""  # date and time, UTC
    command: str = ""
    kernel_lock: bool = False  # True if the process also holds a lock of the file system
    token: str = ""  # unique

    def text(self) -> str:
        """Return the owner as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    def __str__(self) -> str:
        if not self.token:
            return "an unknown process (the lock file cannot be read as one of floodtide)"
        return f"process {self.process} on host {self.host} since {self.since} ({self.command})"


def parse(text: bytes) -> Owner:
    """Return the owner that a text describes. A text of another form gives an owner without a token."""
    nobody = Owner()
    try:
        record = json.loads(text)
        found = {field.name: record[field.name] for field in fields(Owner)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return nobody
    right = all(type(value) is type(getattr(nobody, name)) for name, value in found.items())
    return Owner(**found) if right else nobody


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


class Lock:
    """A lock that this process holds until `release`, until the object is deleted, or until the process ends."""

    def __init__(self, path: Path, descriptor: int, text: bytes) -> None:
        self._file = path, descriptor, text
        self._finalizer = weakref.finalize(self, _release, *self._file)
        _own.add(self._file)
        _start_renewing()

    @property
    def held(self) -> bool:
        """Return True if this object still holds the lock: it was neither released nor taken over."""
        return self._file in _own and _is_in_place(*self._file)

    def release(self) -> None:
        """Remove the lock file. A second call does nothing."""
        self._finalizer()


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
    deadline = time.monotonic() + max(wait_s, _PATIENCE_S)
    while True:
        try:
            found = _attempt(path, what)
        except OSError as error:
            raise StorageError(
                f"{what}: the lock file {path} cannot be written: {error.strerror}"
            ) from None
        if isinstance(found, Lock):
            return found
        late = time.monotonic() > deadline
        if found is None and late:
            raise LockedError(f"{what} is being taken by another process: {advice}")
        if found is not None and (late or not wait_s):
            raise LockedError(f"{what} is in use by {found}: {advice}")
        time.sleep(0.02)


def _attempt(path: Path, what: str) -> Lock | Owner | None:
    """Take a lock, or return its other owner; None if the lock file is just being made or removed."""
    for older in tuple(_own):
        if _is_in_place(*older) and _is_file(older[1], path):
            descriptor = os.dup(older[1])  # has the same kernel lock
            return Lock(path, descriptor, _write_owner(descriptor, parse(older[2]).kernel_lock))

    def unlink(exception: object, *_: object) -> None:
        if exception:  # also Ctrl-C
            path.unlink(missing_ok=True)

    descriptor, is_new = _open(path)
    with contextlib.ExitStack() as unless_taken:
        unless_taken.callback(os.close, descriptor)
        if is_new:
            unless_taken.push(unlink)
        locked = _lock(descriptor)
        if not _is_file(descriptor, path):
            return None
        if locked is False or not is_new:
            owner = parse(os.pread(descriptor, 65536, 0))
            if not locked and not owner.token and _age_s(path, descriptor) < _PATIENCE_S:
                return None  # an owner writes its name a moment after it has made the file
            # a lock of another kernel may not be seen here
            gone = locked and owner.kernel_lock and owner.boot == _boot() != ""
            if locked is False or (
                owner.token
                and not gone
                and _is_renewed(path, descriptor, f"{what} was in use by {owner}")
            ):
                return owner
        unless_taken.push(unlink)
        text = _write_owner(descriptor, bool(locked))
        if not (locked and is_new):  # other hosts may not see the lock
            time.sleep(_SETTLE_S)
        if not _is_in_place(path, descriptor, text):
            return None
        unless_taken.pop_all()
        return Lock(path, descriptor, text)


def _open(path: Path) -> tuple[int, bool]:
    """Open a lock file, or make it. Return its descriptor, and whether it is new."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_EXCL, 0o666), True
    except FileExistsError:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError(errno.EEXIST, "it is not a regular file, remove it") from None
    return os.open(path, flags, 0o666), False  # new only if it was removed just now


def _age_s(path: Path, descriptor: int) -> float:
    """Return the age of the time stamp of a lock file, by the clock of the file system: clocks of hosts differ."""
    import tempfile

    with tempfile.TemporaryFile(dir=path.parent) as probe:
        return os.fstat(probe.fileno()).st_mtime - os.fstat(descriptor).st_mtime


def _is_renewed(path: Path, descriptor: int, was_in_use: str) -> bool:
    """Wait until the time stamp of a lock file is renewed; return False if it expires, or if the file is removed."""
    stamp_s, age_s = os.fstat(descriptor).st_mtime, _age_s(path, descriptor)
    if age_s < EXPIRY_S:
        notes.line(
            f"{was_in_use} {max(age_s, 0):.0f} s ago, and nothing here tells whether that process still runs: waiting"
            f" up to {EXPIRY_S - age_s:.0f} s (if it has ended: remove {path})"
        )
    while _is_file(descriptor, path) and _age_s(path, descriptor) < EXPIRY_S:
        if os.fstat(descriptor).st_mtime > stamp_s:
            return True
        time.sleep(_LOOK_S)
    return False


def _write_owner(descriptor: int, locked: bool) -> bytes:
    """Write this process into a lock file, and return the text."""
    owner = Owner(
        host=socket.gethostname(),
        boot=_boot(),
        process=os.getpid(),
        since=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"),
        command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
        kernel_lock=locked,
        token=os.urandom(16).hex(),
    )
    text = owner.text().encode()
    os.ftruncate(descriptor, 0)
    if os.pwrite(descriptor, text, 0) != len(text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return text


def _lock(descriptor: int) -> bool | None:
    """Take the kernel lock. Return False if another process has it, None if the file system has no locks.

    It is a lock of the open file (OFD), not of the process: it does not end when other code of this process opens and
    closes the file.
    """
    # struct flock: type, whence, start, length, process
    wanted = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
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
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _is_in_place(path: Path, descriptor: int, text: bytes) -> bool:
    """Return True if the lock file still names the owner with this text."""
    with contextlib.suppress(OSError):
        return _is_file(descriptor, path) and os.pread(descriptor, 65536, 0) == text
    return False


def _release(path: Path, descriptor: int, text: bytes) -> None:
    if (path, descriptor, text) not in _own:
        return  # after a fork, the lock belongs to the parent
    _own.discard((path, descriptor, text))
    # the folder or the disk may be gone; other processes see that the owner has ended
    with contextlib.suppress(OSError):
        if _is_in_place(path, descriptor, text):
            path.unlink()
    with contextlib.suppress(OSError):  # the descriptor is closed even if this fails
        os.close(descriptor)


def release_all() -> None:
    """Remove all lock files of this process: it is about to end without Python's clean-up."""
    for own in tuple(_own):
        _release(*own)


_own: set[tuple[Path, int, bytes]] = set()  # locks of this process: file, descriptor and text
_thread: threading.Thread | None = None


def _start_renewing() -> None:
    """Start the thread that renews the time stamps of all locks regularly."""
    global _thread
    if _thread is None:
        _thread = threading.Thread(target=_renew, name="floodtide-locks", daemon=True)
        _thread.start()


def _renew() -> None:
    while True:
        time.sleep(RENEW_S)
        for path, descriptor, text in tuple(_own):
            # try again next time; a lasting error shows when the owner writes
            with contextlib.suppress(OSError):
                if _is_in_place(path, descriptor, text):
                    os.utime(descriptor)


class Gate:
    """A lock of threads for `with` blocks. A child of fork() finds it open, although a thread of its parent had it.

    The child has only the thread that called fork(), so nobody would open the gate.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _gates.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_gates: weakref.WeakSet[Gate] = weakref.WeakSet()


def _after_fork() -> None:
    """Open the gates in a child process, and close the parent's locks, so that the child does not keep them alive."""
    global _thread
    for gate in _gates:
        gate._lock = threading.Lock()
    for _, descriptor, _ in _own:
        os.close(descriptor)
    _own.clear()
    _thread = None


os.register_at_fork(after_in_child=_after_fork)
