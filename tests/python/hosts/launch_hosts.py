# SPDX-License-Identifier: Apache-2.0
"""Starts ranks on several hosts of a Network with the mpiexec of the environment that runs the tests."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "mpi")]

import launch  # noqa: E402
from launch import ENVIRONMENT, MPIEXEC, Result  # noqa: E402
from network import Network  # noqa: E402


@functools.cache
def open_mpi() -> bool:
    """Whether the launcher is Open MPI's."""
    version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=True)
    return "open mpi" in version.stdout.lower() or "openrte" in version.stdout.lower()


def command(
    network: Network,
    arguments: Sequence[str],
    *,
    ranks_per_host: int = 1,
    hosts: Sequence[str] = (),
    env: dict[str, str] | None = None,
) -> list[str]:
    """Return a command line that runs `python arguments...` on each rank, the launcher on the first host.

    Args:
        network: Where the hosts are.
        arguments: Of Python.
        ranks_per_host: Consecutive ranks are on one host.
        hosts: Some of the network's hosts, in the order of the ranks; default: all.
        env: Variables of the ranks.
    """
    hosts = list(hosts) or network.names
    ranks = ["-n", str(len(hosts) * ranks_per_host)]
    variables = {**ENVIRONMENT, **(env or {})}
    if open_mpi():
        where = ",".join(f"{host}:{ranks_per_host}" for host in hosts)
        launch = ["--prtemca", "plm_ssh_agent", str(network.agent), "--host", where]
        launch += ["--map-by", f"ppr:{ranks_per_host}:node:oversubscribe", "--bind-to", "none"]
        for name, value in variables.items():
            launch += ["-x", f"{name}={value}"]
    else:
        launch = ["-launcher", "ssh", "-launcher-exec", str(network.agent)]
        launch += ["-hosts", ",".join(hosts), "-ppn", str(ranks_per_host)]
        for name, value in variables.items():
            launch += ["-genv", name, value]
    return [*network.enter(hosts[0]), str(MPIEXEC), *launch, *ranks, sys.executable, *arguments]


class HostsJob:
    """A job over hosts that runs while the caller does something to the network."""

    def __init__(self, started: Sequence[str], folder: Path) -> None:
        self._said = folder / "said"
        self._stderr = self._said.open("w")
        self._started_s = time.monotonic()
        self.process = subprocess.Popen(
            started,
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,
        )

    def said(self) -> str:
        """Return standard output and standard error until now."""
        return self._said.read_text()

    def finish(self, timeout_s: float) -> int:
        """Wait for the launcher's end; its exit status. AssertionError if that takes longer."""
        try:
            return self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end after {timeout_s} s: {self.said()}") from None
        finally:
            self.close()

    def close(self) -> None:
        """Kill the launcher and what is in its session, if that is still there."""
        self._stderr.close()
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run(
    network: Network,
    arguments: Sequence[str],
    *,
    ranks_per_host: int = 1,
    hosts: Sequence[str] = (),
    env: dict[str, str] | None = None,
    timeout_s: float = 60,
) -> Result:
    """Run `python arguments...` on each rank until its end, as `command` says."""
    line = command(network, arguments, ranks_per_host=ranks_per_host, hosts=hosts, env=env)
    return launch.run(line, timeout_s=timeout_s)


def check(network: Network, text: str, **options: object) -> str:
    """Run a Python text that must succeed, and return what it printed."""
    result = run(network, ["-c", textwrap.dedent(text)], **options)  # type: ignore[arg-type]
    assert result.status == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout
