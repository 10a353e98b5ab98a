# SPDX-License-Identifier: Apache-2.0
"""`floodtide.run`: ranks from a notebook cell.

The function travels to the ranks in a file of a temporary folder, and so do the results. A rank's program is
`_run_rank`; the launcher is the mpiexec beside this Python, as MPI's wheels install it, else the one on the path.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from floodtide import _core
from floodtide.comm import world
from floodtide.comm.launching import libraries
from floodtide.errors import Interrupted, InvalidArgumentError, RankError, UnsupportedError

GRACE_S = 5.0  # between asking the ranks to end and killing them

# What a launcher tells its processes: a rank that starts a job of its own must not hand it on.
_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "HYDI_", "MPI_LOCAL")
_SETTINGS = ("OMPI_ALLOW_RUN_AS_ROOT",)


def run(
    function: Callable[..., Any],
    np: int,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    timeout_s: float | None = 300,
) -> list[Any]:
    """Call `function(*args, **kwargs)` on `np` new ranks of this machine, and return the results in the order of ranks.

    Each rank is a process that mpiexec starts; floodtide.init() is done there. What rank 0 prints appears here. Each
    rank computes with OMP_NUM_THREADS threads, by default its share of the cores.

    Args:
        function: Of a notebook, a script or a lambda: travels by value, with what it refers to. Of an importable
            module: travels by name.
        np: Number of ranks.
        args: Positional arguments.
        kwargs: Keyword arguments.
        timeout_s: How long ranks may wait for each other in a collective, as in `floodtide.init`.

    Returns:
        A list of np results; results have to be picklable.

    Raises:
        RankError: If a rank fails: an exception, a signal, a result that cannot be pickled, or ranks that waited for it
            for too long. All ranks have ended then.
        KeyboardInterrupt: After the first interrupt, once all ranks have ended: a training saves a checkpoint before
            (Interrupted says at which step), what else a rank does is interrupted. A second interrupt ends all at once.
        UnsupportedError: Without cloudpickle, mpiexec or MPI plug-in, or in a rank of a job.
        InvalidArgumentError: If np is below 1, or function or arguments cannot be pickled.
    """
    cloudpickle = _cloudpickle()
    limit_s = world.checked_timeout(timeout_s)
    if isinstance(np, bool) or not isinstance(np, int) or np < 1:
        raise InvalidArgumentError(f"run: np is {np!r}, expected a number of ranks of at least 1")
    if world.size() > 1:
        raise UnsupportedError(f"run: called by one of {world.size()} ranks, expected one process")
    try:
        task = cloudpickle.dumps((function, tuple(args), dict(kwargs or {})))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"run: the function or its arguments cannot be sent to other processes: {error}"
        ) from error
    mpiexec = _mpiexec()
    with tempfile.TemporaryDirectory(prefix="floodtide-run-") as name:
        folder = Path(name)
        (folder / "task").write_bytes(task)
        (folder / "timeout").write_text(repr(limit_s))
        command = [
            mpiexec,
            "-n",
            str(np),
            sys.executable,
            "-m",
            "floodtide.comm.notebook_rank",
            name,
        ]
        with (folder / "caller").open("wb") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)  # the ranks end when the system takes it back
            output, status = _watch(command, folder, np)
        return _results(folder, np, output, status)


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise UnsupportedError(
            "run: cloudpickle is missing; install it with: pip install 'floodtide[notebook]'"
        ) from None
    return cloudpickle


def _mpiexec() -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or not libraries.plugins():
        what = "this build has no MPI plug-in" if found else "there is no mpiexec"
        raise UnsupportedError(
            f"run: {what}; expected one beside {sys.executable} or on the path: "
            "pip install 'floodtide[mpi]', or load the site's MPI and install floodtide again"
        )
    return found


def environment(np: int) -> dict[str, str]:
    """The environment of a new job's mpiexec: this process's without what a launcher has put there."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SETTINGS) or not name.startswith(_LAUNCHERS)
    }
    kept.setdefault("OMP_NUM_THREADS", str(max(1, _core.available_cores() // np)))
    # Open MPI 4 and 5 refuse more ranks than cores otherwise, and bind a rank with all its threads to one core; others
    # do not look at these.
    kept.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
    kept.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    kept.setdefault("OMPI_MCA_hwloc_base_binding_policy", "none")
    kept.setdefault("PRTE_MCA_hwloc_default_binding_policy", "none")
    kept["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    kept["PYTHONUNBUFFERED"] = "1"
    return kept


def _watch(command: list[str], folder: Path, np: int) -> tuple[str, int]:
    """Run the job, show its output; returns the output's end and the launcher's exit status."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(np),
        start_new_session=True,  # Ctrl-C in a terminal comes to this process, which then ends the job
    )
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    tail = ""
    interrupted = False
    try:
        while True:
            try:
                if not (data := os.read(process.stdout.fileno(), 65536)):
                    break
                text = decoder.decode(data)
                tail = (tail + text)[-10_000:]
                sys.stdout.write(text)
                sys.stdout.flush()
            except KeyboardInterrupt:
                if interrupted or not _interrupt_ranks(folder, np):
                    raise
                interrupted = True
        status = process.wait()
    finally:
        _end(process, folder)
    if interrupted:
        _raise_interrupted(folder)
    return tail, status


def _interrupt_ranks(folder: Path, np: int) -> bool:
    """Hand Ctrl-C on to the ranks, so that a training saves a checkpoint. False if some have not started yet."""
    pids = [_rank_pid(path, folder) for path in folder.glob("started-*")]
    if len(pids) < np:
        return False
    print("run: interrupted: waiting for the ranks; interrupt again to end them", file=sys.stderr)
    for pid in pids:
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
    return True


def _raise_interrupted(folder: Path) -> NoReturn:
    for failure in _failures(folder):
        kind, _, message = str(failure["message"]).partition(": ")
        if kind == Interrupted.__name__:
            raise Interrupted(f"run: {message}")
    raise KeyboardInterrupt("run: all ranks have ended")


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """See to it that neither launcher nor ranks are left."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for started in folder.glob("started-*"):
        if pid := _rank_pid(started, folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _rank_pid(started: Path, folder: Path) -> int:
    """The process id of a rank, 0 if it is gone."""
    pid = int(started.read_text() or 0)
    with contextlib.suppress(OSError):
        if str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return 0


def _failures(folder: Path) -> list[dict[str, Any]]:
    """What ranks left that failed, the first one first."""
    failures = [json.loads(path.read_text()) for path in folder.glob("failure-*")]
    return sorted(failures, key=lambda failure: float(failure["time_s"]))


def _results(folder: Path, np: int, output: str, status: int) -> list[Any]:
    if failures := _failures(folder):
        _raise(failures[0])
    if (folder / "ended").exists():
        _raise_stalled((folder / "ended").read_text())
    missing = [rank for rank in range(np) if not (folder / f"result-{rank}").exists()]
    if missing:
        raise _lost(folder, missing, output, status)
    return [pickle.loads((folder / f"result-{rank}").read_bytes()) for rank in range(np)]


def _raise(failure: Mapping[str, Any]) -> NoReturn:
    error = RankError(f"run: rank {failure['rank']} failed: {failure['message']}")
    error.rank = failure["rank"]
    raise error from _RemoteTraceback(failure["traceback"])


def _raise_stalled(reason: str) -> NoReturn:
    """A rank that others waited for: their watchdog has said which."""
    error = RankError(f"run: {reason}")
    if match := re.search(r"for rank (\d+)|^rank (\d+) has been silent", reason):
        error.rank = int(match[1] or match[2])
    raise error


class _RemoteTraceback(Exception):
    """The rank's own traceback, shown as the cause."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _lost(folder: Path, missing: list[int], output: str, status: int) -> RankError:
    """A rank that could not say anything: launchers tell the process id of the one that ended first."""
    ranks = {path.read_text(): int(path.name.split("-")[1]) for path in folder.glob("started-*")}
    named = [ranks[pid] for pid in re.findall(r"PID (\d+)", output) if pid in ranks]
    which = f"rank {named[0]}" if named else f"one of the ranks {', '.join(map(str, missing))}"
    error = RankError(
        f"run: {which} ended without a result (killed or crashed; mpiexec's exit status is {status})"
    )
    error.rank = named[0] if named else missing[0]
    return error
