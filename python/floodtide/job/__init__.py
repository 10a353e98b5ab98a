# SPDX-License-Identifier: Apache-2.0
"""Batch scripts for clusters. The head depends on the scheduler; the rest is one template (`script.sh`).

The comments of the script and docs/clusters.md explain what the script does and why.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from floodtide._core import __version__
from floodtide.base.openmp import WAITING
from floodtide.config import Config
from floodtide.errors import ConfigurationError, InvalidArgumentError

SCHEDULERS = ("slurm", "pbs")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst")
IMAGES = (".sif", ".sqsh", ".squashfs")
LEAST_TRAINING_S = 60


@dataclass(frozen=True, kw_only=True)
class Job:
    """The resources and options of a batch script.

    Attributes:
        nodes: Number of nodes.
        time_s: Time limit of one job in seconds.
        ranks_per_node: Number of ranks on each node.
        cores_per_node: Number of cores of a node. 0, with Slurm only: the job counts them.
        margin_s: Seconds before the time limit at which the training writes a checkpoint and stops.
        max_jobs: Maximum number of jobs in sequence.
        name: Name of the job. "": floodtide- and the name of the configuration.
        environment: A folder with bin/floodtide, an archive of such a folder, or an Apptainer image. "": `floodtide` is
            on the path.
        launcher: Command that starts the ranks. "": srun with Slurm, mpiexec with PBS.
        options: Further options of the scheduler, each one line of the head.
        setup: Shell commands that run before the training, such as `module load`.
        tuned: File of `floodtide tune`. "": none.
        array: Number of tasks of a job array for a sweep. 0: the job is a training.
        waiting: Environment variables that say what idle threads do.
    """

    nodes: int
    time_s: int
    ranks_per_node: int = 1
    cores_per_node: int = 0
    margin_s: int = 120
    max_jobs: int = 20
    name: str = ""
    environment: str = ""
    launcher: str = ""
    options: Sequence[str] = ()
    setup: Sequence[str] = ()
    tuned: str = ""
    array: int = 0
    waiting: Mapping[str, str] = field(default_factory=lambda: WAITING["passive"])

    @property
    def ranks(self) -> int:
        """Return the total number of ranks."""
        return self.nodes * self.ranks_per_node

    @property
    def threads(self) -> int:
        """Return the number of threads of each rank; 0 if the number of cores is not known yet."""
        return self.cores_per_node // self.ranks_per_node


def parse_time(text: str) -> int:
    """Return the seconds of a time limit in the form HH:MM:SS or D-HH:MM:SS.

    Raises:
        InvalidArgumentError: If the text has another form.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)", text)
    if match is None:
        raise InvalidArgumentError(f"--time is '{text}', expected HH:MM:SS or D-HH:MM:SS")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((24 * days + hours) * 60 + minutes) * 60 + seconds


def render(
    scheduler: str, job: Job, config: Config, config_file: str, overrides: Sequence[str], out: str
) -> str:
    """Return the text of the batch script.

    Args:
        scheduler: One of SCHEDULERS.
        job: Resources and options.
        config: The configuration, including overrides.
        config_file: Path of the configuration for the command line of the training.
        overrides: Overrides `a.b=value` for the command line of the training.
        out: Path of the script when it is submitted; the script uses it to submit itself again.

    Raises:
        InvalidArgumentError: If the numbers of the job contradict each other.
        ConfigurationError: If there are more ranks than walkers.
    """
    _check(scheduler, job)
    _check_walkers(job, config)
    tuned = ["--tuned", job.tuned] if job.tuned else []
    arguments = [config_file, *tuned, *(part for text in overrides for part in ("--set", text))]
    return _rendered(
        "script.sh",
        scheduler,
        job,
        config_file,
        arguments,
        out,
        steps=config.training.steps,
        run_dir=config.run.dir,
    )


def render_sweep(scheduler: str, job: Job, sweep_file: str, out: str) -> str:
    """Return the text of a script for a job array that runs the trainings of a sweep, each task on one node.

    Args:
        scheduler: One of SCHEDULERS.
        job: Resources and options; `array` is the number of tasks.
        sweep_file: Path of the sweep for the command line.
        out: Path of the script when it is submitted.

    Raises:
        InvalidArgumentError: If the numbers of the job contradict each other.
    """
    if job.array < 1 or job.nodes != 1 or job.ranks_per_node != 1:
        raise InvalidArgumentError(
            f"a sweep in {job.array} tasks of {job.nodes} nodes with {job.ranks_per_node} ranks, expected 1 task or"
            " more, and 1 node; `ranks` in the file of the sweep says how many ranks a training has"
        )
    _check(scheduler, job)
    return _rendered("sweep.sh", scheduler, job, sweep_file, [sweep_file], out)


def _rendered(
    template: str,
    scheduler: str,
    job: Job,
    file: str,
    arguments: Sequence[str],
    out: str,
    **values: object,
) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("floodtide", "job"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # a shell script: values go through `quote`
    )
    templates.filters["quote"] = shlex.quote
    return templates.get_template(template).render(
        head=f"{scheduler}.sh",
        version=__version__,
        job=job,
        name=job.name or re.sub(r"[^\w.-]", "-", f"floodtide-{Path(file).stem}"),
        time=_time(job.time_s),
        arguments=arguments,
        script=out,
        kind=_environment_kind(job.environment),
        **values,
    )


def _check(scheduler: str, job: Job) -> None:
    if scheduler == "pbs" and not job.cores_per_node:
        raise InvalidArgumentError(
            "--cores-per-node is missing: PBS reserves the cores that a job names"
        )
    if job.cores_per_node and job.threads < 1:
        raise InvalidArgumentError(
            f"--ranks-per-node is {job.ranks_per_node}, expected at most the {job.cores_per_node} cores of a node"
        )
    if job.time_s < job.margin_s + LEAST_TRAINING_S:
        raise InvalidArgumentError(
            f"--time is {job.time_s} s, expected at least {LEAST_TRAINING_S} s more than the margin of {job.margin_s} s"
        )
    for text in (job.name, *job.options, *job.setup):
        if "\n" in text:
            raise InvalidArgumentError(
                f"--name, --option and --setup are one line each, got {text!r}"
            )
    if not re.fullmatch(r"[\w.-]*", job.name):
        raise InvalidArgumentError(
            f"--name is '{job.name}', expected letters, digits, '_', '-' and '.'"
        )


def _check_walkers(job: Job, config: Config) -> None:
    walkers = config.training.walkers
    if walkers and walkers < job.ranks:
        raise ConfigurationError(
            f"training.walkers is {walkers} for {job.ranks} ranks ({job.nodes} nodes with {job.ranks_per_node}), "
            "expected at least one a rank"
        )


def _environment_kind(path: str) -> str:
    if not path:
        return "path"
    if path.endswith(ARCHIVES):
        return "archive"
    return "image" if path.endswith(IMAGES) else "folder"


def _time(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
