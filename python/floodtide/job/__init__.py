# SPDX-License-Identifier: Apache-2.0
"""Batch scripts for clusters. The head depends on the scheduler; the rest is one template (`script.sh`).

The comments of the script and docs/clusters.md explain what the script does and why.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from floodtide import config
from floodtide._core import __version__
from floodtide.base import limits, options, templates
from floodtide.base.files import replace_text, require_utf8
from floodtide.base.outputs import WAIT_S, files_named, reserved, unchecked
from floodtide.config import Config
from floodtide.errors import ConfigurationError, InvalidArgumentError

SCHEDULERS = ("slurm", "pbs")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst")
IMAGES = (".sif", ".sqsh", ".squashfs")
LEAST_TRAINING_S = 60
MARGIN_S = 120
"""Seconds before the time limit at which the training writes a checkpoint and stops."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The resources and options of a batch script."""

    nodes: int = options.option(options.REQUIRED, "Number of nodes", range=limits.COUNT)
    time: str = options.option(options.REQUIRED, "Time limit of one job, HH:MM:SS or D-HH:MM:SS")
    ranks_per_node: int = options.option(
        1,
        "Number of ranks on each node; use one for every 8 cores of one last-level cache",
        range=limits.RANKS,
    )
    cores_per_node: int | None = options.option(
        None,
        "Cores of a node, divided among its ranks.  [default, Slurm only: the job counts them]",
        range=limits.COUNT,
    )
    environment: str = options.option(
        "",
        "Python environment with floodtide: a folder, an archive (.tar.gz, ...) that each node unpacks, or an Apptainer"
        " image (.sif, ...).  [default: floodtide is on the path]",
    )

    @property
    def ranks(self) -> int:
        """Return the total number of ranks."""
        return self.nodes * self.ranks_per_node

    @property
    def threads(self) -> int:
        """Return the number of threads of each rank; 0 if the number of cores is not known yet."""
        return (self.cores_per_node or 0) // self.ranks_per_node

    @property
    def time_s(self) -> int:
        """Return the time limit of one job in seconds."""
        match = re.fullmatch(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)", self.time)
        if match is None:
            raise InvalidArgumentError(f"--time is '{self.time}', expected HH:MM:SS or D-HH:MM:SS")
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((24 * days + hours) * 60 + minutes) * 60 + seconds


def render(
    scheduler: str, job: Job, settings: Config, config_file: str, overrides: Sequence[str], out: str
) -> str:
    """Return the text of the batch script.

    Args:
        scheduler: One of SCHEDULERS.
        job: Resources and options.
        config_file: Path of the configuration for the command line of the training.
        overrides: Overrides `a.b=value` for the command line of the training.
        out: Path of the script when it is submitted; the script uses it to submit itself again.
    """
    _check(scheduler, job, settings)
    return templates.render(
        "script.sh",
        "job",
        filters={"quote": shlex.quote},
        head=f"{scheduler}.sh",
        version=__version__,
        job=job,
        margin_s=MARGIN_S,
        name=re.sub(r"[^\w.-]", "-", f"floodtide-{Path(config_file).stem}"),
        time=f"{job.time_s // 3600:02d}:{job.time_s // 60 % 60:02d}:{job.time_s % 60:02d}",
        arguments=[config_file, *(part for text in overrides for part in ("--set", text))],
        script=out,
        archives=ARCHIVES,
        images=IMAGES,
        steps=settings.training.total,
        run_dir=settings.run.dir,
    )


def write(
    scheduler: str, job: Job, config_file: str, overrides: Sequence[str], target: Path
) -> None:
    """Write the batch script of a configuration file. Arguments as for `render`."""
    from floodtide.train.run_directory import require_same_walkers

    for name in (config_file, str(target)):  # the script holds both names
        require_utf8(name, "the name of a file in a batch script")
    settings = config.load(config_file, overrides)
    text = render(scheduler, job, settings, config_file, overrides, str(target))
    require_same_walkers(Path(settings.run.dir), settings.training.walkers_of(job.ranks))
    inputs = [config_file, *files_named(config.to_dict(settings)), job.environment]
    with reserved("job", target, unchecked, inputs, wait_s=WAIT_S):
        if target.exists():
            raise InvalidArgumentError(f"{target} exists, expected a new name (--out), or no file")
        replace_text(target, text)


def _check(scheduler: str, job: Job, settings: Config) -> None:
    walkers = settings.training.walkers
    if scheduler == "pbs" and not job.cores_per_node:
        raise InvalidArgumentError(
            "--cores-per-node is missing: PBS reserves the cores that a job names"
        )
    if job.cores_per_node and job.threads < 1:
        raise InvalidArgumentError(
            f"--ranks-per-node is {job.ranks_per_node}, expected at most the {job.cores_per_node} cores of a node"
        )
    if job.time_s < MARGIN_S + LEAST_TRAINING_S:
        raise InvalidArgumentError(
            f"--time is {job.time_s} s, expected at least {LEAST_TRAINING_S} s more than the margin of {MARGIN_S} s"
        )
    if walkers and walkers < job.ranks:
        raise ConfigurationError(
            f"training.walkers is {walkers} for {job.ranks} ranks ({job.nodes} nodes with {job.ranks_per_node}), "
            "expected at least one a rank"
        )
    if settings.fits_time:
        raise ConfigurationError(
            "training.fit_time lets the clock decide the number of steps, which a chain of jobs must know; expected"
            " run.stop_after_s = 0"
        )
