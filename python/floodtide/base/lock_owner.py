# SPDX-License-Identifier: Apache-2.0
"""Who holds a lock file: host, process and time, as text that another process can judge."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Owner:
    """What a lock file says about the process that made it."""

    host: str = ""
    boot: str = ""  # the kernel's, which differs between hosts and after each start of a host
    process: int = 0
    started: int = (
        0  # clock ticks from the host's start to the process's: numbers of processes are used again
    )
    processes: str = ""  # the namespace that the number belongs to: containers have their own
    since: str = ""  # date and time, UTC
    command: str = ""
    job: str = ""  # the same for all ranks of a job
    kernel_lock: bool = False  # whether the process also holds a lock of the file system's
    token: str = ""  # unique

    def text(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @property
    def runs_here(self) -> bool | None:
        """Whether the process runs on this host; None if it belongs to another host or container."""
        if self.boot != _boot() or self.processes != _processes() or not self.boot:
            return None
        return _started(self.process) == self.started

    def __str__(self) -> str:
        if not self.token:
            return "an unknown process (the lock file cannot be read as one of floodtide)"
        return f"process {self.process} on host {self.host} since {self.since} ({self.command})"


def this_process(job: str, *, kernel_lock: bool) -> Owner:
    """Describe the calling process."""
    pid = os.getpid()
    now = datetime.now(timezone.utc)
    return Owner(
        host=socket.gethostname(),
        boot=_boot(),
        process=pid,
        started=_started(pid),
        processes=_processes(),
        since=now.strftime("%Y-%m-%d %H:%M:%S UTC"),
        command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
        job=job,
        kernel_lock=kernel_lock,
        token=secrets.token_hex(16),
    )


def parse(text: bytes) -> Owner:
    """Read an owner's text; anything else gives an owner without a token."""
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
    """Clock ticks at which a process started; -1 if there is none, or it has ended and waits for its parent."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return -1
    state, *rest = text.rpartition(")")[2].split()
    return -1 if state in "ZX" else int(rest[18])
