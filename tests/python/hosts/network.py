# SPDX-License-Identifier: Apache-2.0
"""Hosts of one machine: network namespaces with their own names, joined by virtual Ethernet cables and a switch.

    with Network(["alpha", "beta"]) as network:
        subprocess.run([*network.enter("alpha"), "ping", "-c", "1", "beta"])

A host has its own network, host name, shared memory, /etc/hosts, boot id and folder for temporary files. Processors,
other files and process ids are the machine's, so that every other folder is a shared file system. The hosts live as
long as the `with` block, or as this process if it is killed. Nothing outside the namespaces is changed. Needs root,
iproute2 and util-linux.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from processes import kill

START_S = 20
PREFIX = "10.77.0."
TOOLS = ("env", "hostname", "ip", "mount", "nsenter", "setpriv", "taskset", "tc", "unshare")
NAMESPACES = ("--net", "--uts", "--ipc", "--mount")

# Of a limited cable: what may leave at once, and how long a packet may wait before it is dropped. A packet of TCP has
# up to 64 KiB here; a smaller burst has the kernel split it, at 10 to 30 ns of processor time a byte instead of 2.
BURST_S = 250e-6
LEAST_BURST_BYTES = 70_000
QUEUE = "50ms"

HOLD = """
set -e
hostname "$1"
mount -t tmpfs -o size=2g tmpfs /dev/shm
mount --bind "$2/hosts" /etc/hosts
mount --bind "$2/$3.boot" /proc/sys/kernel/random/boot_id
ip link set lo up
: > "$2/$3.ready"
exec sleep infinity
"""

# Succeeds if the other host is there and says that no program listens.
CONNECT = """
import errno, socket, sys
answer = socket.socket()
answer.settimeout(5)
code = answer.connect_ex((sys.argv[1], 9))
sys.exit(None if code == errno.ECONNREFUSED else f"no way to the other host: {errno.errorcode.get(code, code)}")
"""

# Takes the place of ssh: runs a command on a host by a shell, with few variables. As with ssh the command is no child
# of this process, and its end is not heard of while the host is lost or unplugged.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
folder=$(dirname "$0")
status="$folder/$host.status.$$"
[ -e "$folder/$host.pid" ] || { echo "ssh: unknown host $host" >&2; exit 255; }
env -i HOME="$HOME" PATH="$PATH" TMPDIR="$folder/$host.tmp" nsenter --target "$(cat "$folder/$host.pid")" \\
  --net --uts --ipc --mount -- taskset --cpu-list "$(cat "$folder/$host.cores")" \\
  sh -c 'exec 3<&0; { sh -c "$1" <&3 3<&-; echo $? > "$2.part"; mv "$2.part" "$2"; } &' sh "$*" "$status"
while [ ! -e "$status" ] || [ -e "$folder/$host.unplugged" ]; do sleep 0.1; done
exit "$(cat "$status")"
"""


@functools.cache
def missing() -> str:
    """Return why hosts cannot be made here, empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"network namespaces need {', '.join(absent)} (iproute2, util-linux)"
    try:
        with Network(["one", "other"]) as network:
            network.limit(1000)
            probe = [sys.executable, "-c", CONNECT, network.address("other")]
            subprocess.run(
                [*network.enter("one"), *probe], capture_output=True, text=True, check=True
            )
    except (OSError, subprocess.SubprocessError) as error:
        text = getattr(error, "stderr", None) or str(error)
        return f"no network namespaces with cables can be made: {text.strip()}"
    return ""


class Network:
    """Hosts on one switch, addresses 10.77.0.1 and so on. Use it in a `with` block.

    Args:
        names: Of the hosts. The same name may not occur twice.
        cores: The processor cores of each host as taskset lists them ("0", "0-3"); None: all that this process has.
        host_names: What the hosts take themselves for (`hostname`), if that differs from `names`.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        cores: Sequence[str] | None = None,
        host_names: Sequence[str] | None = None,
    ) -> None:
        self.names = list(names)
        everything = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        self._cores = dict(zip(names, cores or [everything] * len(names), strict=True))
        self._host_names = dict(zip(names, host_names or names, strict=True))
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = Path()

    def __enter__(self) -> Network:
        self._folder = Path(tempfile.mkdtemp(prefix="floodtide-hosts-"))
        try:
            self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def agent(self) -> Path:
        """A program that launchers call in place of ssh: `agent [-options] HOST COMMAND...`."""
        return self._folder / "agent"

    def address(self, host: str) -> str:
        """Return a host's IPv4 address."""
        return f"{PREFIX}{self.names.index(host) + 1}"

    def enter(self, host: str) -> list[str]:
        """Return the beginning of a command line that runs the rest on a host."""
        target = ["nsenter", "--target", str(self._holders[host].pid), *NAMESPACES]
        pinned = ["taskset", "--cpu-list", self._cores[host]]
        temporary = f"TMPDIR={self._folder / host}.tmp"
        return [*target, f"--wdns={Path.cwd()}", "--", *pinned, "env", temporary]

    def limit(self, mbit_per_s: float) -> None:
        """Limit every cable to this rate, in each direction."""
        burst = max(LEAST_BURST_BYTES, round(mbit_per_s * 1e6 / 8 * BURST_S))
        shape = f"tbf rate {round(mbit_per_s * 1000)}kbit burst {burst} latency {QUEUE}".split()
        for host in self.names:
            self._ip(host, "tc", "qdisc", "replace", "dev", "eth0", "root", *shape)
            port = self._port(host)
            self._in_switch("tc", "qdisc", "replace", "dev", port, "root", *shape)

    def plug(self, host: str, plugged: bool) -> None:
        """Pull a host's cable out of the switch, or put it back."""
        mark = self._folder / f"{host}.unplugged"
        if not plugged:
            mark.touch()
        self._in_switch("ip", "link", "set", self._port(host), "up" if plugged else "down")
        if plugged:
            mark.unlink(missing_ok=True)

    def drop(self, host: str) -> None:
        """Lose a host: it says nothing any more and its processes are gone, as after a power failure."""
        self.plug(host, plugged=False)
        kill(self.processes(host))

    def traffic(self, host: str) -> tuple[int, int]:
        """Return the bytes that a host has received and sent on its cable."""
        command = (
            "cat /sys/class/net/eth0/statistics/rx_bytes /sys/class/net/eth0/statistics/tx_bytes"
        )
        # sysfs shows the network of the process that mounted it.
        mounted = f"mount -t sysfs sysfs /sys && {command}"
        said = self._ip(host, "unshare", "--mount", "sh", "-c", mounted)
        received, sent = map(int, said.split())
        return received, sent

    def processes(self, host: str) -> list[int]:
        """Return the processes on a host, without the one that holds it."""
        holder = self._holders[host].pid
        network = os.stat(f"/proc/{holder}/ns/net").st_ino
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if (entry / "ns/net").stat().st_ino == network and int(entry.name) != holder:
                    found.append(int(entry.name))
        return found

    def _begin(self) -> None:
        table = ["127.0.0.1 localhost"]
        table += [f"{self.address(name)} {name}" for name in self.names]
        (self._folder / "hosts").write_text("\n".join(table) + "\n")
        self.agent.write_text(AGENT)
        self.agent.chmod(0o755)
        self._hold("switch", "switch")
        self._in_switch("ip", "link", "add", "bridge", "type", "bridge")
        self._in_switch("ip", "link", "set", "bridge", "up")
        for name in self.names:
            (self._folder / f"{name}.tmp").mkdir()
            self._hold(name, self._host_names[name])
            self._connect(name)
            (self._folder / f"{name}.cores").write_text(self._cores[name])
            (self._folder / f"{name}.pid").write_text(str(self._holders[name].pid))

    def _hold(self, name: str, host_name: str) -> None:
        """Start the process that owns a host's namespaces, and wait until they are made."""
        ready = self._folder / f"{name}.ready"
        (self._folder / f"{name}.boot").write_text(f"{uuid.uuid4()}\n")
        own = ["setpriv", "--pdeathsig", "KILL", "unshare", *NAMESPACES]
        holder = subprocess.Popen(
            [*own, "sh", "-c", HOLD, "sh", host_name, str(self._folder), name],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._holders[name] = holder
        deadline = time.monotonic() + START_S
        while not ready.exists():
            if holder.poll() is not None or time.monotonic() > deadline:
                del self._holders[name]
                holder.kill()
                _, said = holder.communicate()
                raise OSError(said.decode().strip() or f"host {name} does not start")
            time.sleep(0.005)

    def _connect(self, name: str) -> None:
        port, pid = self._port(name), str(self._holders[name].pid)
        self._in_switch(*f"ip link add {port} type veth peer name eth0 netns {pid}".split())
        self._in_switch("ip", "link", "set", port, "master", "bridge", "up")
        self._ip(name, "ip", "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        self._ip(name, "ip", "link", "set", "eth0", "up")

    def _port(self, name: str) -> str:
        return f"port{self.names.index(name)}"

    def _in_switch(self, *command: str) -> str:
        return self._ip("switch", *command)

    def _ip(self, holder: str, *command: str) -> str:
        """Run a command in the network of a host or of the switch; its output."""
        target = ["nsenter", "--target", str(self._holders[holder].pid), "--net", "--"]
        done = subprocess.run([*target, *command], capture_output=True, text=True, check=True)
        return done.stdout

    def _end(self) -> None:
        """Kill what runs on the hosts; the namespaces and cables go with the last process."""
        for name in self.names:
            if name in self._holders and self._holders[name].poll() is None:
                kill(self.processes(name))
        for holder in self._holders.values():
            holder.kill()
            holder.communicate()
        shutil.rmtree(self._folder)
