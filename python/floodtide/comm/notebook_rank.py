# SPDX-License-Identifier: Apache-2.0
"""One rank of `floodtide.run`: `python -m floodtide.comm.notebook_rank FOLDER`, started by mpiexec.

The program reads FOLDER/task, calls the function and writes FOLDER/result-<rank> or FOLDER/failure-<rank>. Output of
ranks other than 0 goes to FOLDER/output-<rank>.

The rank is a child of the process that mpiexec starts. When a rank dies, mpiexec kills all others and may name any of
them. Only the parent knows that its child died first: it writes FOLDER/died-<rank> before mpiexec can see the death.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import cloudpickle

from floodtide.comm import world

_PR_SET_PDEATHSIG = 1


def supervise(folder: Path) -> NoReturn:
    """Run this rank in a child process, and end as it ends. A death without a result or a failure is recorded."""
    rank = world.rank()  # the rank that the launcher gave
    library = ctypes.CDLL(None)
    child = os.fork()
    if child == 0:
        if hasattr(library, "prctl"):
            library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        sys.exit(main(folder))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda sent, _: os.kill(child, sent))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not any((folder / f"{kind}-{rank}").exists() for kind in ("result", "failure")):
        how = f"exit status {status}" if status >= 0 else f"killed by {_signal_name(-status)}"
        record = {"rank": rank, "how": how, "time_s": time.monotonic()}
        _write(folder / f"died-{rank}", json.dumps(record).encode())
    os._exit(status if status >= 0 else 128 - status)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def main(folder: Path) -> int:
    """Call the function on this rank and return the exit status. An exception on this rank alone ends the job."""
    rank = world.rank()  # the rank that the launcher gave, in case init fails
    try:
        world.report_end_to(folder / "ended")
        world.init(timeout_s=float((folder / "timeout").read_text()))
        rank = world.rank()
        _write(folder / f"started-{rank}", str(os.getpid()).encode())
        threading.Thread(target=_end_with_caller, args=(folder,), daemon=True).start()
        if rank > 0:
            _redirect(folder / f"output-{rank}")
        function, args, kwargs = pickle.loads((folder / "task").read_bytes())
        _write(folder / f"result-{rank}", _dumps(function(*args, **kwargs)))
    except BaseException as error:
        _write(folder / f"failure-{rank}", _failure(rank, error))
        world.fail(error)
        return 1
    return 0


def _dumps(result: Any) -> bytes:
    data: bytes = cloudpickle.dumps(result)
    return data


def _failure(rank: int, error: BaseException) -> bytes:
    text = " ".join(str(error).split())
    record = {
        "rank": rank,
        "message": f"{type(error).__name__}: {text}".rstrip(": "),
        "traceback": "".join(traceback.format_exception(error)),
        "time_s": time.monotonic(),  # all ranks are on this host and share this clock
    }
    return json.dumps(record).encode()


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _redirect(path: Path) -> None:
    """Redirect standard output and standard error to a file, including output of C libraries."""
    sys.stdout.flush()
    sys.stderr.flush()
    with path.open("wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def _end_with_caller(folder: Path) -> None:
    """End this rank when the lock of the calling process is free: the caller was killed and needs no result."""
    with (folder / "caller").open("rb") as alive:
        while True:
            time.sleep(0.5)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(alive, fcntl.LOCK_SH | fcntl.LOCK_NB)
                os._exit(1)


if __name__ == "__main__":
    supervise(Path(sys.argv[1]))
