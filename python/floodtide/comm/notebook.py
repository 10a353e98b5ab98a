# SPDX-License-Identifier: Apache-2.0
"""`floodtide.run`: start ranks from a notebook cell.

The function and the results are passed in files of a temporary folder. Each rank runs the program `notebook_rank`. The
launcher is the mpiexec in the folder of this Python, where the MPI wheels install it, else the one on the path.
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

GRACE_S = 5.0  # seconds between asking the ranks to end and killing them

# Prefixes of the variables that a launcher sets for its processes. A new job must not inherit them.
_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "HYDI_", "MPI_LOCAL")
_SETTINGS = ("OMPI_ALLOW_RUN_AS_ROOT",)


def run(
    function: Callable[..., Any],
    np: int,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    timeout_s: float | None = 300,
) -> list[Any]:
    """Call `function(*args, **kwargs)` on `np` new ranks of this machine, and return the results in rank order.

    mpiexec starts one process for each rank, and floodtide.init() is called there. Output of rank 0 appears here. Each
    rank uses OMP_NUM_THREADS threads, by default the number of cores divided by `np`.

    Args:
        function: The function to call. A function of a notebook or script, or a lambda, is sent by value, together
            with what it refers to. A function of an importable module is sent by name.
        np: Number of ranks.
        args: Positional arguments.
        kwargs: Keyword arguments.
        timeout_s: Time limit in seconds for waiting in a collective, as in `floodtide.init`.

    Returns:
        A list of np results, which must be picklable.

    Raises:
        RankError: If a rank fails: with an exception, by a signal, with a result that cannot be pickled, or because
            other ranks waited too long for it. All ranks have ended then.
        KeyboardInterrupt: After Ctrl-C, when all ranks have ended. A training saves a checkpoint first, and the
            exception is Interrupted, which names the step. A second Ctrl-C ends all ranks at once.
        UnsupportedError: If cloudpickle, mpiexec or an MPI plug-in is missing, or in a rank of a job.
        InvalidArgumentError: If np is below 1, or the function or its arguments cannot be pickled.
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
            fcntl.flock(alive, fcntl.LOCK_EX)  # the ranks end when the lock is released
            status = _watch(command, folder, np)
        return _results(folder, np, status)


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise UnsupportedError(
            "run: cloudpickle is missing; in floodtide's source tree: pip install '.[notebook]'"
        ) from None
    return cloudpickle


def _mpiexec() -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or not libraries.plugins():
        what = "this build has no MPI plug-in" if found else "there is no mpiexec"
        raise UnsupportedError(
            f"run: {what}; expected one beside {sys.executable} or on the path: "
            "in floodtide's source tree: pip install '.[mpi]', or load the site's MPI and install floodtide again"
        )
    return found


def environment(np: int) -> dict[str, str]:
    """Return the environment for the mpiexec of a new job: that of this process without variables of launchers."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SETTINGS) or not name.startswith(_LAUNCHERS)
    }
    kept.setdefault("OMP_NUM_THREADS", str(max(1, _core.available_cores() // np)))
    # Without these variables, Open MPI 4 and 5 refuse more ranks than cores, and bind all threads of a rank to one
    # core. Other launchers ignore them.
    kept.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
    kept.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    kept.setdefault("OMPI_MCA_hwloc_base_binding_policy", "none")
    kept.setdefault("PRTE_MCA_hwloc_default_binding_policy", "none")
    kept["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    kept["PYTHONUNBUFFERED"] = "1"
    return kept


def _watch(command: list[str], folder: Path, np: int) -> int:
    """Run the job and show its output. Return the exit status of the launcher."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(np),
        start_new_session=True,  # Ctrl-C in a terminal reaches only this process, which then ends the job
    )
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    interrupted = False
    try:
        while True:
            try:
                if not (data := os.read(process.stdout.fileno(), 65536)):
                    break
                sys.stdout.write(decoder.decode(data))
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
    return status


def _interrupt_ranks(folder: Path, np: int) -> bool:
    """Pass Ctrl-C on to the ranks, so that a training saves a checkpoint. Return False if some have not started yet."""
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
    """End the launcher and all ranks."""
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
    """Return the process id of a rank, or 0 if the process has ended."""
    pid = int(started.read_text() or 0)
    with contextlib.suppress(OSError):
        if str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return 0


def _failures(folder: Path) -> list[dict[str, Any]]:
    """Return the failure records that ranks have written, the earliest first."""
    return _records(folder, "failure")


def _records(folder: Path, kind: str) -> list[dict[str, Any]]:
    records = [json.loads(path.read_text()) for path in folder.glob(f"{kind}-*")]
    return sorted(records, key=lambda record: float(record["time_s"]))


def _results(folder: Path, np: int, status: int) -> list[Any]:
    failures, died = _failures(folder), _records(folder, "died")
    if failures and (not died or failures[0]["time_s"] <= died[0]["time_s"]):
        _raise(failures[0])
    if (folder / "ended").exists():
        _raise_stalled((folder / "ended").read_text())
    missing = [rank for rank in range(np) if not (folder / f"result-{rank}").exists()]
    if died or missing:
        raise _lost(died, missing, status)
    return [pickle.loads((folder / f"result-{rank}").read_bytes()) for rank in range(np)]


def _raise(failure: Mapping[str, Any]) -> NoReturn:
    error = RankError(f"run: rank {failure['rank']} failed: {failure['message']}")
    error.rank = failure["rank"]
    raise error from _RemoteTraceback(failure["traceback"])


def _raise_stalled(reason: str) -> NoReturn:
    """Raise RankError for a rank that others waited for too long. The watchdog's text names the rank."""
    error = RankError(f"run: {reason}")
    if match := re.search(r"for rank (\d+)|^rank (\d+) has been silent", reason):
        error.rank = int(match[1] or match[2])
    raise error


class _RemoteTraceback(Exception):
    """The traceback of the rank, shown as the cause of the error."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _lost(died: list[dict[str, Any]], missing: list[int], status: int) -> RankError:
    """Return the error for ranks that ended without a result. The first is the cause: mpiexec ends the others."""
    if died:
        rank, how = died[0]["rank"], died[0]["how"]
        which = f"rank {rank}"
    else:
        rank, how = missing[0], f"mpiexec's exit status is {status}"
        which = f"one of the ranks {', '.join(map(str, missing))}"
    error = RankError(f"run: {which} ended without a result ({how})")
    error.rank = rank
    return error
