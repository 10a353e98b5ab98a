# SPDX-License-Identifier: Apache-2.0
"""On which file system a path lies, and whether locks of that file system count for all hosts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

# Of one host alone, or with locks that all of its hosts keep unless an option says otherwise.
_LOCAL = "bcachefs btrfs ext2 ext3 ext4 exfat f2fs jfs overlay ramfs reiserfs tmpfs vfat xfs zfs"
_CLUSTER = "ceph gfs2 gpfs lustre nfs nfs4 ocfs2"
_LOCKS_COUNT = frozenset(f"{_LOCAL} {_CLUSTER}".split())


class Mount(NamedTuple):
    """A file system as the kernel lists it: its type ("ext4", "nfs4", "lustre"), its options."""

    kind: str
    options: frozenset[str]

    @property
    def locks_count(self) -> bool:
        """Whether a lock that a host can take proves that no other host holds it.

        False where that is unknown: FUSE, 9p, SMB and other file systems keep locks on each host alone, or may.
        """
        if self.kind in ("nfs", "nfs4"):
            return self.options.isdisjoint({"nolock", "local_lock=all", "local_lock=posix"})
        if self.kind == "lustre":
            return "flock" in self.options and "localflock" not in self.options
        return self.kind in _LOCKS_COUNT


def mount_of(path: Path) -> Mount:
    """The file system of a path that exists; an empty type if the kernel does not say."""
    directory = Path(os.path.realpath(path))
    length, found = 0, Mount("", frozenset())
    try:
        lines = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return found
    for line in lines:
        _, point, kind, options = line.split()[:4]
        point = os.fsdecode(
            os.fsencode(point).decode("unicode_escape").encode("latin-1")
        )  # a space is \040
        if directory.is_relative_to(point) and len(point) >= length:
            length, found = len(point), Mount(kind, frozenset(options.split(",")))
    return found
