# SPDX-License-Identifier: Apache-2.0
"""Find the file system of a path, and whether its locks hold between hosts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

# File systems of a single host, and file systems whose locks hold on all hosts unless a mount option says otherwise.
_LOCAL = "bcachefs btrfs ext2 ext3 ext4 exfat f2fs jfs overlay ramfs reiserfs tmpfs vfat xfs zfs"
_CLUSTER = "ceph gfs2 gpfs lustre nfs nfs4 ocfs2"
_LOCKS_COUNT = frozenset(f"{_LOCAL} {_CLUSTER}".split())


class Mount(NamedTuple):
    """A mounted file system: its type ("ext4", "nfs4", "lustre") and its mount options, as the kernel lists them."""

    kind: str
    options: frozenset[str]

    @property
    def locks_count(self) -> bool:
        """Return True if a lock that one host can take proves that no other host holds the lock.

        False if this is unknown: FUSE, 9p, SMB and other file systems may keep locks on each host separately.
        """
        if self.kind in ("nfs", "nfs4"):
            return self.options.isdisjoint({"nolock", "local_lock=all", "local_lock=posix"})
        if self.kind == "lustre":
            return "flock" in self.options and "localflock" not in self.options
        return self.kind in _LOCKS_COUNT


def mount_of(path: Path) -> Mount:
    """Return the file system of an existing path; its type is "" if the kernel lists none, as in a chroot."""
    directory = Path(os.path.realpath(path))
    length, found = 0, Mount("", frozenset())
    for line in _mounted():
        _, point, kind, options = line.split()[:4]
        # a space is \040
        point = os.fsdecode(os.fsencode(point).decode("unicode_escape").encode("latin-1"))
        if directory.is_relative_to(point) and len(point) >= length:
            length, found = len(point), Mount(kind, frozenset(options.split(",")))
    return found


def _mounted() -> list[str]:
    """Return the lines of the kernel's list of mounts, none without /proc."""
    try:
        return Path("/proc/self/mounts").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
