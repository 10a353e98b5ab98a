# SPDX-License-Identifier: Apache-2.0
"""Start ranks: from a notebook cell (`floodtide.run`), and of a benchmark.

The function and the results are passed in files of a temporary folder. Each rank runs `main`, as the program `python -m
floodtide.comm.notebook FOLDER TIMEOUT_S`. The launcher is the mpiexec in the folder of this Python, where the MPI
wheels install it, else the one on the path.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.comm import launching, world
from floodtide.errors import (
    Interrupted,
    InvalidArgumentError,
    RankError,
    UnsupportedError,
    on_all_ranks,
)

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
        RankError: If a rank fails with an exception or with a result that cannot be pickled, or if ranks end without a
            result: by a signal, or because others waited too long for one. All ranks have ended then.
        KeyboardInterrupt: After Ctrl-C, when all ranks have ended. A training saves a checkpoint first, and the
            exception is Interrupted, which names the step. A second Ctrl-C ends all ranks at once.
        UnsupportedError: If cloudpickle, mpiexec or an MPI plug-in is missing, or in a rank of a job.
        InvalidArgumentError: If np is below 1, or the function or its arguments cannot be pickled.
    """
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise UnsupportedError(
            "run: cloudpickle is missing; in floodtide's source tree: pip install '.[notebook]'"
        ) from None
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
    mpiexec = _mpiexec("run")
    with tempfile.TemporaryDirectory(prefix="floodtide-run-") as name:
        folder = Path(name)
        (folder / "task").write_bytes(task)
        program = [sys.executable, "-m", "floodtide.comm.notebook", name, repr(limit_s)]
        with (folder / "caller").open("wb") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)  # the ranks end when the lock is released
            status, interrupted = _watch([mpiexec, "-n", str(np), *program], folder, np)
        return _results(folder, np, status, interrupted=interrupted)


def start_ranks(name: str, ranks: int) -> None:
    """Join the ranks if mpiexec started this process; else run this command under mpiexec and exit with its status.

    Args:
        name: The command, for messages: "bench scaling".
    """
    if launching.launcher() is not None:
        world.current()
        return
    program = [sys.executable, "-m", "floodtide", *sys.argv[1:]]
    command = [_mpiexec(name), "-n", str(ranks), *program]
    sys.exit(subprocess.run(command, check=False, env=environment(ranks)).returncode)


def require_several_ranks(name: str) -> None:
    """Raise InvalidArgumentError on all ranks if there is only one rank. Collective."""
    if world.current().size == 1:
        raise on_all_ranks(
            InvalidArgumentError(f"{name}: 1 rank, expected at least 2: start it with mpiexec -n 2")
        )


def _mpiexec(name: str) -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or not launching.plugins():
        what = "this build has no MPI plug-in" if found else "there is no mpiexec"
        raise UnsupportedError(
            f"{name}: {what}; expected one beside {sys.executable} or on the path: "
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


def _watch(command: list[str], folder: Path, np: int) -> tuple[int, bool]:
    """Run the job and show its output. Return the exit status of the launcher, and whether Ctrl-C was passed on."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(np),
        start_new_session=True,  # Ctrl-C in a terminal reaches only this process, which then ends the job
    )
    assert process.stdout is not None
    interrupted = False
    try:
        while True:
            try:
                if not (line := process.stdout.readline()):
                    break
                sys.stdout.write(line.decode(errors="replace"))
                sys.stdout.flush()
            except KeyboardInterrupt:
                # a training saves a checkpoint, if all ranks have started
                if interrupted or len(list(folder.glob("started-*"))) < np:
                    raise
                interrupted = True
                print(
                    "run: interrupted: waiting for the ranks; interrupt again to end them",
                    file=sys.stderr,
                )
                _signal_ranks(folder, signal.SIGINT)
        return process.wait(), interrupted
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _signal_ranks(folder, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _signal_ranks(folder: Path, number: signal.Signals) -> None:
    for started in folder.glob("started-*"):
        pid = int(started.read_text())
        with contextlib.suppress(OSError):  # the process has ended
            if str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, number)


def _results(folder: Path, np: int, status: int, *, interrupted: bool) -> list[Any]:
    failures = sorted(pickle.loads(path.read_bytes()) for path in folder.glob("failure-*"))
    if interrupted:
        for _, _, message, _ in failures:
            kind, _, text = message.partition(": ")
            if kind == Interrupted.__name__:
                raise Interrupted(f"run: {text}")
        raise KeyboardInterrupt("run: all ranks have ended")
    missing = [rank for rank in range(np) if not (folder / f"result-{rank}").exists()]
    if failures:
        _, rank, message, trace = failures[0]  # mpiexec ends the others
        error, cause = RankError(f"run: rank {rank} failed: {message}"), Exception(f"\n{trace}")
    elif missing:
        rank, cause = (missing[0] if len(missing) == 1 else None), None
        which = f"rank {rank}" if len(missing) == 1 else f"ranks {', '.join(map(str, missing))}"
        error = RankError(f"run: {which} ended without a result (mpiexec's exit status: {status})")
    else:
        return [pickle.loads((folder / f"result-{rank}").read_bytes()) for rank in range(np)]
    error.rank = rank
    raise error from cause


def main(folder: Path, timeout_s: float) -> int:
    """Be one rank: call the function in FOLDER/task, write FOLDER/result-<rank> or FOLDER/failure-<rank>.

    Ranks other than 0 print nothing but their errors. An exception on this rank alone ends the job.
    """
    import cloudpickle

    rank = world.rank()  # the rank that the launcher gave, in case init fails
    try:
        world.init(timeout_s=timeout_s)
        rank = world.rank()
        _core.replace_file(os.fsencode(folder / f"started-{rank}"), str(os.getpid()).encode())
        threading.Thread(target=_end_with_caller, args=(folder,), daemon=True).start()
        if rank > 0:
            sys.stdout.flush()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        function, args, kwargs = pickle.loads((folder / "task").read_bytes())
        _core.replace_file(
            os.fsencode(folder / f"result-{rank}"), cloudpickle.dumps(function(*args, **kwargs))
        )
    except BaseException as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
        trace = "".join(traceback.format_exception(error))
        # all ranks are on this host and share this clock
        failure = (time.monotonic(), rank, message, trace)
        _core.replace_file(os.fsencode(folder / f"failure-{rank}"), pickle.dumps(failure))
        world.fail(error)
        return 1
    return 0


def _end_with_caller(folder: Path) -> None:
    """End this rank when the lock of the calling process is free: the caller was killed and needs no result."""
    with (folder / "caller").open("rb") as alive:
        while True:
            time.sleep(0.5)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(alive, fcntl.LOCK_SH | fcntl.LOCK_NB)
                os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
