# SPDX-License-Identifier: Apache-2.0
"""Settings of a host: how many ranks, threads and walkers, and how idle threads wait."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from floodtide.base.notes import count_of

WAITING: Mapping[str, Mapping[str, str]] = {
    "passive": {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"},
    "active": {"OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "infinite"},
}
"""Variables of idle OpenMP threads (GCC, Intel, LLVM): passive ones soon sleep, active ones keep their cores busy."""
POLICIES = tuple(WAITING)
OVERSUBSCRIPTION = 2  # threads per core at most; the paper's 4 threads per core were much worse


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of one host.

    Attributes:
        ranks: Ranks on the host.
        threads: Compute threads of each rank (`run.threads`).
        walkers: Walkers of each rank: the batch of the host is ranks x walkers fields of view.
        wait: "passive": idle threads soon sleep; "active": they keep their cores busy (`OMP_WAIT_POLICY`).
    """

    ranks: int
    threads: int
    walkers: int
    wait: str = "passive"

    @property
    def batch(self) -> int:
        """Fields of view of a step of the host."""
        return self.ranks * self.walkers

    @property
    def parallel(self) -> str:
        """`run.parallel`: threads compute whole fields of view if there are enough walkers, else one together."""
        return "fovs" if self.walkers >= self.threads else "voxels"

    def command(self, file: str) -> str:
        """Return the shell command that trains the network of a configuration file under this setting."""
        variables = " ".join(f"{name}={value}" for name, value in WAITING[self.wait].items())
        launcher = f" mpiexec -n {self.ranks}" if self.ranks > 1 else ""
        keys = {"threads": self.threads, "parallel": self.parallel}
        options = " ".join(f"--set run.{key}={value}" for key, value in keys.items())
        return f"{variables}{launcher} floodtide train {shlex.quote(file)} {options}"

    @property
    def effort(self) -> tuple[bool, int, int]:
        """Order from simple to complicated: sleeping threads, few ranks."""
        return self.wait != POLICIES[0], self.ranks, self.threads

    def __str__(self) -> str:
        ranks, threads = count_of(self.ranks, "rank"), count_of(self.threads, "thread")
        return f"{ranks} x {threads}, wait {self.wait}"


def default_setting(cores: int, batch: int) -> Setting:
    """Return the setting of an untuned host: one rank, a thread for each core (docs/clusters.md).

    Hosts of more than 8 cores should have several ranks (docs/clusters.md); `candidates` has them.
    """
    return Setting(ranks=1, threads=cores, walkers=batch)


def candidates(cores: int, batch: int) -> list[Setting]:
    """Return all settings of a host with some cores and a batch of `batch` fields of view per step.

    Ranks x threads is a divisor of the cores, or OVERSUBSCRIPTION times the cores. Each rank has the same number of
    walkers. Waiting needs several threads.
    """
    found = []
    totals = [n for n in range(1, cores + 1) if cores % n == 0] + [OVERSUBSCRIPTION * cores]
    for total in totals:
        for ranks in range(1, min(total, batch) + 1):
            if total % ranks or batch % ranks:
                continue
            found += [
                Setting(
                    ranks=ranks,
                    threads=total // ranks,
                    walkers=batch // ranks,
                    wait=wait,
                )
                for wait in (POLICIES if total > ranks else POLICIES[:1])
            ]
    return found
