# SPDX-License-Identifier: Apache-2.0
"""One rank of `floodtide.run`: `python -m floodtide.comm.notebook_rank FOLDER TIMEOUT_S`, started by mpiexec.

The program reads FOLDER/task, calls the function and writes FOLDER/result-<rank> or FOLDER/failure-<rank>. Ranks other
than 0 print nothing but their errors.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import sys
import threading
import time
import traceback
from pathlib import Path

import cloudpickle

from floodtide.comm import world


def main(folder: Path, timeout_s: float) -> int:
    """Call the function on this rank and return the exit status. An exception on this rank alone ends the job."""
    rank = world.rank()  # the rank that the launcher gave, in case init fails
    try:
        world.init(timeout_s=timeout_s)
        rank = world.rank()
        _write(folder / f"started-{rank}", str(os.getpid()).encode())
        threading.Thread(target=_end_with_caller, args=(folder,), daemon=True).start()
        if rank > 0:
            sys.stdout.flush()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        function, args, kwargs = pickle.loads((folder / "task").read_bytes())
        _write(folder / f"result-{rank}", cloudpickle.dumps(function(*args, **kwargs)))
    except BaseException as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
        trace = "".join(traceback.format_exception(error))
        # all ranks are on this host and share this clock
        failure = (time.monotonic(), rank, message, trace)
        _write(folder / f"failure-{rank}", pickle.dumps(failure))
        world.fail(error)
        return 1
    return 0


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(data)
    os.replace(temporary, path)


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
