# SPDX-License-Identifier: Apache-2.0
"""One rank of `floodtide.run`: `python -m floodtide.comm.notebook_rank FOLDER`, started by mpiexec.

The program reads FOLDER/task, calls the function and writes FOLDER/result-<rank> or FOLDER/failure-<rank>. Output of
ranks other than 0 goes to FOLDER/output-<rank>.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import cloudpickle

from floodtide.comm import world


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
    sys.exit(main(Path(sys.argv[1])))
