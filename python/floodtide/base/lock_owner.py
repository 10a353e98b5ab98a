# SPDX-License-Identifier: Apache-2.0
"""The owner of a lock file: host, process and time, as a text that other processes can check."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The process that made a lock file, as the file describes it."""

    host: str = ""
    # boot id of the kernel; it differs between hosts and changes at each start of a host
    boot: str = ""
    process: int = 0
    started: int = 0  # clock ticks from the start of the host to that of the process, because process ids are reused
    processes: str = ""  # namespace of the process id; each container has its own
    since: str = ""  # date and time, UTC
    command: str = ""
    kernel_lock: bool = False  # True if the process also holds a lock of the file system
    token: str = ""  # unique

    def text(self) -> str:
        """Return the owner as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @property
    def is_of_this_kernel(self) -> bool:
        """Return True if the process belongs to this host or a container on it, so that kernel locks tell of it."""
        return bool(self.boot) and self.boot == _boot()

    @property
    def runs_here(self) -> bool | None:
        """Return True if the process runs on this host, None if it belongs to another host or container."""
        if not self.is_of_this_kernel or self.processes != _processes():
            return None
        return _started(self.process) == self.started

    def __str__(self) -> str:
        if not self.token:
            return "an unknown process (the lock file cannot be read as one of floodtide)"
        return f"process {self.process} on host {self.host} since {self.since} ({self.command})"


def this_process(*, kernel_lock: bool) -> Owner:
    """Return an owner that describes the calling process."""
    pid = os.getpid()
    return Owner(
        host=socket.gethostname(),
        boot=_boot(),
        process=pid,
        started=_started(pid),
        processes=_processes(),
        since=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"),
        command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
        kernel_lock=kernel_lock,
        token=os.urandom(16).hex(),
    )


def parse(text: bytes) -> Owner:
    """Return the owner that a text describes. A text of another form gives an owner without a token."""
    try:
        record = json.loads(text)
        known = {field.name: field.type for field in fields(Owner)}
        types = {"str": str, "int": int, "bool": bool}
        if any(type(record[name]) is not types[str(kind)] for name, kind in known.items()):
            return Owner()
        return Owner(**{name: record[name] for name in known})
    except (ValueError, KeyError, TypeError, RecursionError):
        return Owner()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _processes() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(pid: int) -> int:
    """Return the clock ticks at which a process started; -1 if there is no such process or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return -1
    state, *rest = text.rpartition(")")[2].split()
    return -1 if state in "ZX" else int(rest[18])
