# SPDX-License-Identifier: Apache-2.0
"""The ranks of this process's job: starting, asking, agreeing on failures, ending.

Importing this module starts nothing. `init` decides: the communicator handed in, else the world if
a launcher started several processes (or mpi4py runs one), else one rank. Functions that
communicate say Collective: every rank must call them, in the same order.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from floodtide import _core, _launch, errors

Communicator = _core.comm.Communicator


@dataclass
class _State:
    comm: Any = None  # the Communicator in use
    given: Any = None  # the mpi4py communicator that init was called with
    library: Any = None  # the MpiLibrary loaded, kept for the life of the process
    local_ranks: tuple[int, int, int, int] = (0, 1, 0, 1)  # local rank, size; cross rank, size
    hooked: bool = False


_state = _State()


def init(comm: Any = None) -> None:
    """Join the ranks of the job. Collective. Does nothing if that was done before.

    Args:
        comm: An mpi4py communicator, of which a duplicate is used; None for the world when
            launched by mpiexec or srun, else one rank.

    Raises:
        UnsupportedError: If the launcher and the MPI library do not fit each other, no MPI library
            can be loaded although a launcher started several ranks, or the MPI library's thread
            level is below "serialized".
        InvalidArgumentError: If `comm` is no mpi4py communicator, or another one is in use.
    """
    if _state.comm is not None:
        if comm is not None and comm is not _state.given:
            raise errors.InvalidArgumentError(
                "init: another communicator is in use; call floodtide.shutdown() first"
            )
        return
    try:
        communicator = _world() if comm is None else _adopt(comm)
    except errors.UnsupportedError:
        if rank() > 0:
            time.sleep(1)  # rank 0 reports; a launcher may end the job when the first process exits
        raise
    _state.local_ranks = _places(communicator)
    _state.comm, _state.given = communicator, comm
    if not _state.hooked:
        _hook_exceptions()
        _state.hooked = True


def _world() -> Any:
    launched = _launch.launcher()
    mpi4py = _launch.mpi4py()
    several = launched is not None and launched.ranks != 1
    if not several and (mpi4py is None or mpi4py.COMM_WORLD.size == 1):
        return _core.comm.self()
    _load(launched)
    world = _state.library.world()
    if launched is not None and (launched.ranks or 0) > 1 and world.size == 1:
        raise _launch.mismatch(launched, _state.library.family)
    return world


def _adopt(comm: Any) -> Any:
    mpi4py = _launch.mpi4py()
    if mpi4py is None or not isinstance(comm, mpi4py.Intracomm) or comm == mpi4py.COMM_NULL:
        raise errors.InvalidArgumentError(
            f"init: expected an mpi4py intracommunicator or None, got {type(comm).__name__}"
        )
    library = _load(_launch.launcher())
    size = mpi4py._sizeof(mpi4py.Comm)
    if size != library.handle_bytes:
        raise errors.UnsupportedError(
            f"init: mpi4py's communicators are handles of {size} bytes, the plug-in for "
            f"{_launch.FAMILIES[library.family]} expects {library.handle_bytes}"
        )
    if mpi4py.Get_library_version().rstrip("\0") != library.version:
        raise errors.UnsupportedError(
            f"init: mpi4py uses {_one_line(mpi4py.Get_library_version())}, floodtide has loaded "
            f"{_one_line(library.version)} from {library.library}"
        )
    return library.adopt(comm.handle)


def _load(launched: _launch.Launcher | None) -> Any:
    if _state.library is None:
        _state.library = _launch.load(launched)
        atexit.register(_finish)
    return _state.library


def library() -> Any:
    """The MPI library that this process uses or would use; loads it, but does not start MPI.

    Returns:
        The core's MpiLibrary: family, library (file), version, start() -> thread level.

    Raises:
        UnsupportedError: If there is none.
    """
    return _load(_launch.launcher())


def shutdown() -> None:
    """Leave the ranks; init may be called again. MPI itself ends with the process. Collective."""
    _state.comm = _state.given = None
    _state.local_ranks = (0, 1, 0, 1)


def _finish() -> None:
    shutdown()
    _state.library.finish()


def is_initialized() -> bool:
    """Whether init has been called and shutdown has not."""
    return _state.comm is not None


def current() -> Any:
    """The communicator in use; calls init() if nobody has. Collective in that case."""
    if _state.comm is None:
        init()
    return _state.comm


def ensure_init(comm: Any = None) -> None:
    """init(comm) unless that was done, for entry points that users may call before or after it."""
    init(comm)


def rank() -> int:
    """This process's rank; before init what the launcher says, so that one process can report."""
    if _state.comm is not None:
        return int(_state.comm.rank)
    launched = _launch.launcher()
    return 0 if launched is None else launched.rank


def size() -> int:
    """Ranks that work together: 1 before init."""
    return 1 if _state.comm is None else int(_state.comm.size)


def places() -> tuple[int, int, int, int]:
    """This rank's place on its host, ranks there; the host's place, hosts with such a rank."""
    return _state.local_ranks


def _places(comm: Any) -> tuple[int, int, int, int]:
    hosts = [name.decode() for name in comm.allgather(socket.gethostname().encode())]
    here = [r for r, host in enumerate(hosts) if host == hosts[comm.rank]]
    local_rank = here.index(comm.rank)
    peers = [h for h in dict.fromkeys(hosts) if hosts.count(h) > local_rank]
    return local_rank, len(here), peers.index(hosts[comm.rank]), len(peers)


def allgather_bytes(own: bytes) -> list[bytes]:
    """Every rank's bytes, in rank order, on every rank. Collective."""
    gathered: list[bytes] = current().allgather(own)
    return gathered


def broadcast_object(value: Any, root_rank: int = 0) -> Any:
    """root_rank's value on every rank; it travels as a pickle between ranks of one job. Collective.

    Raises:
        OutOfRangeError: If root_rank is no rank.
    """
    comm = current()
    data = pickle.dumps(value) if comm.rank == root_rank else b""
    length = np.array([len(data)], dtype=np.int64)
    comm.broadcast(length, root_rank)
    buffer = np.frombuffer(data.ljust(int(length[0]), b"\0"), dtype=np.uint8).copy()
    comm.broadcast(buffer, root_rank)
    return value if comm.rank == root_rank else pickle.loads(buffer.tobytes())


@contextlib.contextmanager
def agreed() -> Iterator[None]:
    """Make a failure of local work one of all ranks. Collective at its end.

    The block must not communicate. If it raises on any rank, every rank raises: the lowest rank
    that failed its own exception, the others one of the same class with the same message (a
    CommunicationError naming the rank if the class is not floodtide's). All carry `agreed = True`.
    """
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    if size() == 1 and is_initialized():
        if failure is not None:
            raise failure
        return
    record = b"" if failure is None else json.dumps([type(failure).__name__, str(failure)]).encode()
    for failed_rank, other in enumerate(allgather_bytes(record)):
        if not other:
            continue
        if failed_rank != rank():
            failure = _rebuilt(failed_rank, *json.loads(other))
        assert failure is not None
        with contextlib.suppress(AttributeError):
            failure.agreed = True  # type: ignore[attr-defined]
        raise failure


def _rebuilt(failed_rank: int, kind: str, message: str) -> errors.Error:
    cls = getattr(errors, kind, None)
    if isinstance(cls, type) and issubclass(cls, errors.Error):
        return cls(message)
    return errors.CommunicationError(f"rank {failed_rank}: {kind}: {message}")


def fail(error: BaseException) -> None:
    """Outermost handler of an exception: end the job if other ranks may be waiting for this one.

    Writes one line `rank r: message` and aborts the job with the exception's exit status. Returns
    if there is one rank only, or all ranks have agreed on the failure and leave by themselves.
    """
    comm = _state.comm
    if comm is None or comm.size == 1 or getattr(error, "agreed", False):
        return
    text = _one_line(str(error))
    if not isinstance(error, errors.Error):
        text = f"{type(error).__name__}: {text}".rstrip(": ")
    sys.stdout.flush()
    print(f"rank {comm.rank}: {text}", file=sys.stderr, flush=True)
    default = 130 if isinstance(error, KeyboardInterrupt) else 1
    comm.abort(getattr(error, "exit_status", default), text)


def _hook_exceptions() -> None:
    """An exception that leaves a user's script ends the job, not only its own rank."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not getattr(error, "agreed", False) or rank() == 0:
            previous(kind, error, trace)
        fail(error)

    sys.excepthook = hook


def _one_line(text: str) -> str:
    return " ".join(text.replace("\0", "").split())
