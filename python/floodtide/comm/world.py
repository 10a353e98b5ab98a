# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job: initialise them, ask for rank and size, agree on failures, and shut down.

Importing this module starts nothing. `init` chooses the communicator: the one it is given; else all processes, if a
launcher started several (or mpi4py runs in several); else one rank. The word Collective marks functions that
communicate: every rank must call them, in the same order.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import operator
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy as np

from floodtide import _core, errors
from floodtide.comm import launching
from floodtide.comm.launching import MpiLibrary, one_line

ActivityLog = _core.comm.ActivityLog
Communicator = _core.comm.Communicator
Watchdog = _core.comm.Watchdog
Made = TypeVar("Made")

_RANK_0_S = 5.0
"""Seconds that other ranks wait after Ctrl-C, while rank 0 removes unfinished files, reports and ends the job."""


@dataclass
class _State:
    comm: Communicator | None = None  # the current communicator
    given: Any = None  # the mpi4py communicator that init was called with
    library: MpiLibrary | None = None  # kept until the process ends
    local_ranks: tuple[int, int, int, int] = (0, 1, 0, 1)  # local rank, size; cross rank, size
    activity: ActivityLog = field(default_factory=ActivityLog)  # what this rank waits for
    numbers: tuple[int, ...] = ()  # in a process set: its members, as ranks among all ranks
    timeout_s: float | None = None  # argument of init; None before init
    watchdog: Watchdog | None = None  # of the current communicator, if there is a time limit
    # watchdogs of communicators that were shut down
    left: list[Watchdog] = field(default_factory=list)


_state = _State()


def init(comm: Any = None, timeout_s: float | None = 300) -> None:
    """Initialise floodtide on all ranks of the job. A second call does nothing. Collective.

    Args:
        comm: An mpi4py communicator; floodtide uses a duplicate of it. None: all ranks that mpiexec or srun started,
            else one rank.
        timeout_s: Time limit in seconds for waiting in a collective; equal on all ranks. If ranks wait for another
            rank longer than this, the job ends on all ranks with one line that names the late rank. A rank that only
            computes is no problem while no other rank waits for it. The limit also holds for process sets. A
            `Trainer` uses `comm.timeout_s` instead. 0 or None: no limit.

    Raises:
        UnsupportedError: If the MPI library does not support the launcher, if no MPI library can be loaded although a
            launcher started several ranks, or if the thread level of the MPI library is below "serialized". If another
            library has started MPI: if it is below "multiple".
        InvalidArgumentError: If `comm` is not an mpi4py communicator, if another communicator is in use, or if
            `timeout_s` is negative or not a number.
    """
    limit_s = checked_timeout(timeout_s)
    current(comm)
    if _state.timeout_s is None:
        _state.timeout_s = limit_s
        _state.activity.set_limit(limit_s)
        _watch(limit_s)


def checked_timeout(timeout_s: float | None) -> float:
    """Return a time limit in seconds; 0 means no limit."""
    if timeout_s is None:
        return 0.0
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s >= 0:
        raise errors.InvalidArgumentError(
            f"timeout_s is {timeout_s!r}, expected a number of seconds, or 0 or None for no limit"
        )
    return 0.0 if timeout_s == float("inf") else float(timeout_s)


def current(comm: Any = None) -> Communicator:
    """Return the current communicator. Initialises the ranks if `init` was not called; Collective in that case.

    This sets no time limit, because ranks of a command may wait long for files of rank 0. `init` or a trainer sets one.

    Args:
        comm: As for `init`.
    """
    if _state.comm is not None:
        if comm is not None and comm is not _state.given:
            raise errors.InvalidArgumentError(
                "init: another communicator is in use; call floodtide.shutdown() first"
            )
        return _state.comm
    try:
        communicator = _world() if comm is None else _adopt(comm)
    except errors.UnsupportedError:
        if rank() > 0:
            time.sleep(1)  # rank 0 reports first; a launcher may end the job when a process exits
        raise
    _state.activity.observe(communicator, "")
    _state.local_ranks = _places(communicator)
    _state.comm, _state.given = communicator, comm
    _hook_exceptions()
    return communicator


def _watch(limit_s: float) -> None:
    """Start a watchdog that ends the job if ranks wait too long, if there is a time limit. Collective."""
    ranks = _state.comm
    if limit_s > 0 and _state.watchdog is None and ranks is not None and ranks.size > 1:
        _state.watchdog = Watchdog(ranks, _state.activity, list(_state.numbers))


def activity(timeout_s: float) -> ActivityLog:
    """Return the core's log of what this rank does. A watchdog reads the log if `timeout_s` is above 0. Collective.

    Trainers call this with their own time limit in seconds (0: no limit).
    """
    _watch(timeout_s)
    return _state.activity


def _world() -> Communicator:
    launched = launching.launcher()
    mpi4py = launching.mpi4py()
    several = launched is not None and launched.ranks != 1
    if not several and (mpi4py is None or mpi4py.COMM_WORLD.size == 1):
        return _core.comm.self()
    if mpi4py is None:
        launching.prepare_for(launched)
    library = mpi_library()
    world = library.world()
    if world.size == 1 and launched is not None and launched.ranks not in (None, 1):
        raise launching.mismatch(launched, library.family)
    return world


def _adopt(comm: Any) -> Communicator:
    mpi4py = launching.mpi4py()
    if mpi4py is None or not isinstance(comm, mpi4py.Intracomm) or comm == mpi4py.COMM_NULL:
        raise errors.InvalidArgumentError(
            f"init: expected an mpi4py intracommunicator or None, got {type(comm).__name__}"
        )
    library = mpi_library()
    size = mpi4py._sizeof(mpi4py.Comm)
    if size != library.handle_bytes:
        raise errors.UnsupportedError(
            f"init: mpi4py's communicators are handles of {size} bytes, the plug-in for "
            f"{launching.FAMILIES[library.family]} expects {library.handle_bytes}"
        )
    if mpi4py.Get_library_version().rstrip("\0") != library.version:
        raise errors.UnsupportedError(
            f"init: mpi4py uses {one_line(mpi4py.Get_library_version())}, floodtide has loaded "
            f"{one_line(library.version)} from {library.library}"
        )
    return library.adopt(comm.handle)


def mpi_library() -> MpiLibrary:
    """Load and return the MPI library for this process, without starting MPI.

    Returns:
        The core's MpiLibrary with `family`, `library` (file), `version` and `start()`, which returns the thread level.
    """
    if _state.library is None:
        _state.library = launching.load(launching.launcher())
        atexit.register(_finish)
    return _state.library


def shutdown() -> None:
    """Leave the job. `init` may be called again. MPI ends when the process ends. Collective.

    The rank does not wait for the others, unless this process uses mpi4py: mpi4py may end MPI from then on, and no
    thread of floodtide may be inside MPI when it does. If other ranks later wait for this rank, the time limit of
    `init` still ends the job.

    Raises:
        CommunicationError: If this process uses mpi4py, and another rank does not call shutdown within that limit.
    """
    if _state.watchdog is not None and launching.mpi4py() is not None:
        _state.watchdog.leave()
        _wait_for([*_state.left, _state.watchdog], _state.timeout_s)
    _leave()


def _leave() -> None:
    if _state.watchdog is not None:
        _state.watchdog.leave()
        _state.left = [w for w in (*_state.left, _state.watchdog) if not w.over]
    _state.comm = _state.given = _state.watchdog = _state.timeout_s = None
    _state.activity.set_limit(0)
    _state.local_ranks = (0, 1, 0, 1)


def _finish() -> None:
    """End MPI when the process ends, after all watchdogs are over: then no rank waits for this one."""
    _leave()
    _wait_for(_state.left)
    _state.left.clear()
    if _state.library is not None:
        _state.library.finish()


def _wait_for(watchdogs: Sequence[Watchdog], limit_s: float | None = None) -> None:
    """Wait until the watchdogs are over, because all ranks have left; no limit: as long as that takes."""
    start_s = time.monotonic()
    while not all(watchdog.over for watchdog in watchdogs):
        if limit_s and time.monotonic() - start_s > limit_s:
            raise errors.CommunicationError(
                f"shutdown: another rank has not called it within {limit_s:g} s; with mpi4py, ranks wait for each other"
            )
        time.sleep(0.002)


def _after_fork() -> None:
    """Forget the ranks in a child process: only the parent is a rank. The core leaves MPI to the parent."""
    global _state
    _state = _State(library=_state.library)


os.register_at_fork(after_in_child=_after_fork)


def is_initialized() -> bool:
    """Return True after `init` and before `shutdown`."""
    return _state.comm is not None


def rank() -> int:
    """Return the rank of this process. Before `init`, return the rank that a live launcher gave, else 0."""
    if _state.comm is not None:
        return _state.comm.rank
    launched = launching.launcher()
    return 0 if launched is None or not launched.live else launched.rank


def size() -> int:
    """Return the number of ranks; 1 before `init`."""
    return 1 if _state.comm is None else _state.comm.size


def places() -> tuple[int, int, int, int]:
    """Return (local rank, local size, index of this host, number of hosts with a rank of this local rank)."""
    return _state.local_ranks


def _places(comm: Communicator) -> tuple[int, int, int, int]:
    hosts = [name.decode() for name in comm.allgather(comm.node_name.encode(), "names of hosts")]
    here = [r for r, host in enumerate(hosts) if host == hosts[comm.rank]]
    local_rank = here.index(comm.rank)
    peers = [h for h in dict.fromkeys(hosts) if hosts.count(h) > local_rank]
    return local_rank, len(here), peers.index(hosts[comm.rank]), len(peers)


def gather_bytes(own: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of all ranks' arrays, in rank order, on rank 0; an empty array on other ranks. Collective.

    Args:
        own: C-contiguous arrays of this rank, of any types and lengths.
    """
    nothing = np.empty(0, np.uint8)
    joined = np.concatenate([nothing, *(array.reshape(-1).view(np.uint8) for array in own)])
    exchange = current().start_alltoall(joined, [joined.size] + [0] * (size() - 1), "")
    exchange.wait()
    return exchange.result()[1]


def broadcast_object(value: Any, root_rank: int = 0, comm: Communicator | None = None) -> Any:
    """Return the value of rank `root_rank` on every rank. The value is sent as a pickle. Collective.

    Args:
        comm: A communicator of the core; None: all ranks.
    """
    comm = comm or current()
    data = pickle.dumps(value) if comm.rank == root_rank else b""
    length = np.array([len(data)], dtype=np.int64)
    comm.start_broadcast(length, root_rank, f"size of an object from rank {root_rank}").wait()
    buffer = np.frombuffer(data.ljust(int(length[0]), b"\0"), dtype=np.uint8).copy()
    comm.start_broadcast(buffer, root_rank, f"an object from rank {root_rank}").wait()
    return value if comm.rank == root_rank else pickle.loads(buffer.tobytes())


class ProcessSet:
    """A group of ranks that communicate among themselves, so that several training runs can share one job.

    Creating a process set is Collective over all ranks. All ranks pass the same list, also ranks that are not members.
    Or each rank passes its mpi4py communicator, and ranks without one pass MPI.COMM_NULL. Members then pass the process
    set as `process_set=` to collectives. Inside a `with` block, the members are the only ranks: a trainer that is made
    and run there uses only them. On a rank that is no member, everything but `included` and `ranks` raises an
    InvalidArgumentError.
    """

    def __init__(self, ranks: Iterable[int] | Any) -> None:
        """Create a communicator of these ranks. Collective.

        Args:
            ranks: Rank numbers, in the order of the new communicator. Or an mpi4py communicator; ranks may then pass
                different communicators, and ranks in none of them pass MPI.COMM_NULL.

        Raises:
            InvalidArgumentError: On all ranks, if a rank does not exist or appears twice.
            CommunicationError: On all ranks, if the lists of the ranks differ.
        """
        everyone = current()
        mpi4py = launching.mpi4py()
        self._comm: Communicator | None = None
        self._outer: list[tuple[Communicator, tuple[int, ...], tuple[int, int, int, int]]] = []
        self.ranks: tuple[int, ...] = ()
        """Members, as ranks among all ranks. Empty on a rank that passed MPI.COMM_NULL."""
        if mpi4py is not None and isinstance(ranks, mpi4py.Comm):
            # MPI duplicates a communicator in one blocking call, in which the watchdog cannot send. So all
            # ranks come first.
            everyone.barrier()
            if ranks != mpi4py.COMM_NULL:
                self._comm = _adopt(ranks)
                own = str(everyone.rank).encode()
                self.ranks = tuple(map(int, self._comm.allgather(own, "ranks of a process set")))
        else:
            self.ranks = tuple(map(operator.index, ranks))
            everyone.allgather(b"", f"process set of ranks {list(self.ranks)}")  # compares them
            known = set(range(everyone.size)).intersection(self.ranks)
            if not known or len(known) < len(self.ranks):
                raise errors.on_all_ranks(
                    errors.InvalidArgumentError(
                        f"ProcessSet: {list(self.ranks)}: expected ranks from 0 to {everyone.size - 1}, at least one"
                        " rank, and none twice"
                    )
                )
            included = everyone.rank in self.ranks
            key = self.ranks.index(everyone.rank) if included else 0
            comm = everyone.split(0 if included else 1, key)
            self._comm = comm if included else None
        if self._comm is not None:
            _state.activity.observe(self._comm, ", ".join(map(str, sorted(self.ranks))))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "ProcessSet cannot be pickled or copied: it holds a communicator; expected its `ranks`"
        )

    def included(self) -> bool:
        """Return True if this rank is a member."""
        return self._comm is not None

    def rank(self) -> int:
        """Return the index of this rank in the process set."""
        return self.communicator().rank

    def size(self) -> int:
        """Return the number of members."""
        return self.communicator().size

    def communicator(self) -> Communicator:
        """Return the core's communicator of the members."""
        if self._comm is None:
            raise errors.InvalidArgumentError(
                f"rank {rank()} is not in the process set of ranks {list(self.ranks)}"
            )
        return self._comm

    def __enter__(self) -> ProcessSet:
        """Make the members the only ranks until the `with` block ends. Collective over the members."""
        own = self.communicator()
        self._outer.append((current(), _state.numbers, _state.local_ranks))
        _state.comm, _state.local_ranks = own, _places(own)
        _state.numbers = self.ranks
        return self

    def __exit__(self, *_: object) -> None:
        _state.comm, _state.numbers, _state.local_ranks = self._outer.pop()


@contextlib.contextmanager
def agreed() -> Iterator[None]:
    """Return a context manager: if its block fails on one rank, all ranks raise. Collective at the end of the block.

    The block must not communicate. If it raises on some ranks, the lowest of these ranks raises its own exception. The
    other ranks raise an exception of the same class with the same message. For a usage error of click they raise an
    InvalidArgumentError, for any other class a CommunicationError that names the rank. All exceptions have
    `agreed = True`.
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
    record = b""
    if failure is not None:
        kind, text = type(failure).__name__, str(failure)
        if hasattr(failure, "exit_code"):  # a usage error of click, which is not imported here
            kind = errors.InvalidArgumentError.__name__
        elif kind not in vars(errors):
            kind, text = errors.CommunicationError.__name__, f"rank {rank()}: {kind}: {text}"
        record = json.dumps([kind, text]).encode()
    for failed_rank, other in enumerate(current().allgather(record, "failures")):
        if not other:
            continue
        if failed_rank != rank():
            kind, text = json.loads(other)
            failure = getattr(errors, kind)(text)
        assert failure is not None
        with contextlib.suppress(AttributeError):
            failure.agreed = True  # type: ignore[attr-defined]
        raise failure


def from_rank_0(make: Callable[[], Made]) -> Made:
    """Return on all ranks what a function returns on rank 0. If it fails there, all ranks raise. Collective."""
    made: Any = None
    with agreed():
        if rank() == 0:
            made = make()
    result: Made = broadcast_object(made)
    return result


def fail(error: BaseException) -> None:
    """End the job because of an exception on this rank, if other ranks may be waiting for this rank.

    Prints one line `rank r: message` and aborts the job with the exit status of the exception. Returns without doing
    so if there is only one rank, or if all ranks agreed on the failure and end by themselves.
    """
    comm = _state.comm
    if comm is None or comm.size == 1 or getattr(error, "agreed", False):
        return
    if isinstance(error, KeyboardInterrupt) and comm.rank > 0:
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C ends the job at once
            time.sleep(_RANK_0_S)
    text = one_line(str(error))
    if not isinstance(error, errors.Error):
        text = f"{type(error).__name__}: {text}".rstrip(": ")
    with contextlib.suppress(OSError):  # the job ends also if the streams are on a full disk
        sys.stdout.flush()
        print(f"rank {comm.rank}: {text}", file=sys.stderr, flush=True)
    default = 130 if isinstance(error, KeyboardInterrupt) else 1
    comm.abort(getattr(error, "exit_status", default), text)


@functools.cache
def _hook_exceptions() -> None:
    """Install a hook: an uncaught exception in a user's script ends the whole job, not only its own rank."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, errors.Interrupted):
            if rank() == 0:
                print(one_line(str(error)), file=sys.stderr, flush=True)
            sys.exit(error.exit_status)
        if not getattr(error, "agreed", False) or rank() == 0:
            previous(kind, error, trace)
        fail(error)

    sys.excepthook = hook
