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
import operator
import pickle
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from floodtide import _core, errors
from floodtide.comm.launching import libraries

ActivityLog = _core.comm.ActivityLog
Communicator = _core.comm.Communicator
Watchdog = _core.comm.Watchdog

_RANK_0_S = 5.0
"""After Ctrl-C, which all ranks get: time for rank 0 to remove unfinished files, report and end the job itself."""


@dataclass
class _State:
    comm: Communicator | None = None  # the one in use
    given: Any = None  # the mpi4py communicator that init was called with
    library: libraries.MpiLibrary | None = None  # kept for the life of the process
    local_ranks: tuple[int, int, int, int] = (0, 1, 0, 1)  # local rank, size; cross rank, size
    hooked: bool = False
    activity: ActivityLog = field(default_factory=ActivityLog)  # what this rank waits for
    numbers: tuple[int, ...] = ()  # of its ranks among all ranks, if it is a process set's
    timeout_s: float | None = None  # what init was given; None before it
    watchdog: Watchdog | None = None  # of the communicator in use, once something has a time limit
    left: list[Watchdog] = field(
        default_factory=list
    )  # watchdogs of communicators that were shut down
    report_path: str = ""  # where a watchdog writes why it ends the job, for floodtide.run


_state = _State()


def init(comm: Any = None, timeout_s: float | None = 300) -> None:
    """Join the ranks of the job. Collective. Does nothing if that was done before.

    Args:
        comm: An mpi4py communicator, of which a duplicate is used; None for the world when
            launched by mpiexec or srun, else one rank.
        timeout_s: How long a rank may wait in a collective, in seconds. A rank that the others wait
            for this long, because it sleeps, has left or was stopped, ends the job on all ranks
            with one line that names it; ranks that compute are left alone while no other waits.
            Holds for process sets, too; a `Trainer` has its own, `comm.timeout_s`. 0 or None: ranks
            wait for ever. The same on all ranks.

    Raises:
        UnsupportedError: If the launcher and the MPI library do not fit each other, no MPI library
            can be loaded although a launcher started several ranks, or the MPI library's thread
            level is below "serialized".
        InvalidArgumentError: If `comm` is no mpi4py communicator, another one is in use, or
            `timeout_s` is negative or no number.
    """
    limit_s = checked_timeout(timeout_s)
    _join(comm)
    if _state.timeout_s is None:
        _state.timeout_s = limit_s
        _state.activity.set_limit(limit_s)
        _watch(limit_s)


def checked_timeout(timeout_s: float | None) -> float:
    """Return a time limit in seconds, 0 for none.

    Raises:
        InvalidArgumentError: If it is negative or no number.
    """
    if timeout_s is None:
        return 0.0
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s >= 0:
        raise errors.InvalidArgumentError(
            f"timeout_s is {timeout_s!r}, expected a number of seconds, or 0 or None for no limit"
        )
    return 0.0 if timeout_s == float("inf") else float(timeout_s)


def _join(comm: Any) -> Communicator:
    """Join the ranks without watching them; return their communicator. Collective."""
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
            time.sleep(1)  # rank 0 reports; a launcher may end the job when the first process exits
        raise
    _state.activity.observe(communicator, "")
    _state.local_ranks = _places(communicator)
    _state.comm, _state.given = communicator, comm
    _core.data.set_hdf5_rank(communicator.rank)
    if not _state.hooked:
        _hook_exceptions()
        _state.hooked = True
    return communicator


def _watch(limit_s: float) -> None:
    """Have a watchdog end the job when ranks wait too long, if there is a limit. Collective."""
    ranks = _state.comm
    if limit_s > 0 and _state.watchdog is None and ranks is not None and ranks.size > 1:
        _state.watchdog = Watchdog(ranks, _state.activity, list(_state.numbers), _state.report_path)


def report_end_to(path: Path) -> None:
    """Have a watchdog that ends the job write the reason to a file, too. Before init."""
    _state.report_path = str(path)


def activity(timeout_s: float) -> ActivityLog:
    """Return the core's log of what this rank does, watched if `timeout_s` is above 0. Collective.

    For trainers, which bring a time limit of their own (0: none).
    """
    _watch(timeout_s)
    return _state.activity


def _world() -> Communicator:
    launched = libraries.launcher()
    mpi4py = libraries.mpi4py()
    several = launched is not None and launched.ranks != 1
    if not several and (mpi4py is None or mpi4py.COMM_WORLD.size == 1):
        return _core.comm.self()
    if mpi4py is None:
        libraries.require_there(launched)
        libraries.hide_others(launched)
    library = _load(launched)
    world = library.world()
    if launched is None or launched.ranks in (None, world.size):
        return world
    if world.size == 1:
        raise libraries.mismatch(launched, library.family)
    if launched.family is not None:  # a heterogeneous job of Slurm counts the tasks of its parts
        raise libraries.wrong_size(launched, world.size)
    return world


def _adopt(comm: Any) -> Communicator:
    mpi4py = libraries.mpi4py()
    if mpi4py is None or not isinstance(comm, mpi4py.Intracomm) or comm == mpi4py.COMM_NULL:
        raise errors.InvalidArgumentError(
            f"init: expected an mpi4py intracommunicator or None, got {type(comm).__name__}"
        )
    library = _load(libraries.launcher())
    size = mpi4py._sizeof(mpi4py.Comm)
    if size != library.handle_bytes:
        raise errors.UnsupportedError(
            f"init: mpi4py's communicators are handles of {size} bytes, the plug-in for "
            f"{libraries.FAMILIES[library.family]} expects {library.handle_bytes}"
        )
    if mpi4py.Get_library_version().rstrip("\0") != library.version:
        raise errors.UnsupportedError(
            f"init: mpi4py uses {_one_line(mpi4py.Get_library_version())}, floodtide has loaded "
            f"{_one_line(library.version)} from {library.library}"
        )
    return library.adopt(comm.handle)


def _load(launched: libraries.Launcher | None) -> libraries.MpiLibrary:
    if _state.library is None:
        _state.library = libraries.load(launched)
        atexit.register(_finish)
    return _state.library


def library() -> libraries.MpiLibrary:
    """The MPI library that this process uses or would use; loads it, but does not start MPI.

    Returns:
        The core's MpiLibrary: family, library (file), version, start() -> thread level.

    Raises:
        UnsupportedError: If there is none.
    """
    return _load(libraries.launcher())


def shutdown() -> None:
    """Leave the ranks; init may be called again. MPI itself ends with the process. Collective.

    Returns at once. If other ranks wait for this one, the time limit of init still ends the job.
    """
    if _state.watchdog is not None:
        _state.watchdog.leave()
        _state.left = [w for w in (*_state.left, _state.watchdog) if not w.over]
    _state.comm = _state.given = _state.watchdog = _state.timeout_s = None
    _state.activity.set_limit(0)
    _state.local_ranks = (0, 1, 0, 1)


def _finish() -> None:
    """End MPI at the end of the process, once no other rank can wait for this one."""
    shutdown()
    pause_s = 0.0005
    while not all(watchdog.over for watchdog in _state.left):
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    _state.left.clear()
    if _state.library is not None:
        _state.library.finish()


def replace(communicator: Communicator) -> None:
    """Work in a communicator of the ranks that are left (`settle`). Collective over them."""
    _state.watchdog = None  # it would wait for the lost ranks
    _state.activity.observe(communicator, "")
    _use(communicator)
    _watch(_state.timeout_s or 0)


def _use(communicator: Communicator) -> None:
    _state.comm = communicator
    _state.local_ranks = _places(communicator)


def is_initialized() -> bool:
    """Whether init has been called and shutdown has not."""
    return _state.comm is not None


def current() -> Communicator:
    """The communicator in use; joins the ranks if init was not called. Collective in that case."""
    return _join(None)


@contextlib.contextmanager
def using(comm: Communicator) -> Iterator[None]:
    """Have the body take another of the core's communicators of all ranks for the one in use: benchmarks train behind a
    slower wire. All ranks do it."""
    before, _state.comm = current(), comm
    try:
        yield
    finally:
        _state.comm = before


def ensure_init(comm: Any = None) -> None:
    """Join the ranks unless that was done, for entry points that users may call before or after init. Collective.

    Without a time limit, which init or a trainer brings: in commands ranks may wait long for rank 0's files.
    """
    _join(comm)


def rank() -> int:
    """This process's rank; before init what a live launcher says, so that one process can report."""
    if _state.comm is not None:
        return _state.comm.rank
    try:
        launched = libraries.launcher()
    except errors.LauncherError as error:
        return error.rank
    return 0 if launched is None or not launched.live else launched.rank


def size() -> int:
    """Ranks that work together: 1 before init."""
    return 1 if _state.comm is None else _state.comm.size


def places() -> tuple[int, int, int, int]:
    """This rank's place on its host, ranks there; the host's place, hosts with such a rank."""
    return _state.local_ranks


def _places(comm: Communicator) -> tuple[int, int, int, int]:
    hosts = [name.decode() for name in comm.allgather(comm.node_name.encode(), "names of hosts")]
    here = [r for r, host in enumerate(hosts) if host == hosts[comm.rank]]
    local_rank = here.index(comm.rank)
    peers = [h for h in dict.fromkeys(hosts) if hosts.count(h) > local_rank]
    return local_rank, len(here), peers.index(hosts[comm.rank]), len(peers)


def allgather_bytes(own: bytes, words: str = "") -> list[bytes]:
    """Every rank's bytes, in rank order, on every rank. `words` describe them. Collective."""
    return current().allgather(own, words)


def gather_bytes(
    own: Sequence[np.ndarray[Any, Any]], words: str = ""
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of all ranks' arrays, in rank order, on rank 0; an empty array elsewhere. Collective.

    Args:
        own: This rank's C-contiguous arrays, of any types and lengths.
        words: A description of the arrays for error messages; the same on all ranks.
    """
    gathered: np.ndarray[Any, np.dtype[np.uint8]] = current().gather(list(own), 0, words)
    return gathered


def broadcast_object(value: Any, root_rank: int = 0, comm: Communicator | None = None) -> Any:
    """root_rank's value on every rank; it travels as a pickle between ranks of one job. Collective.

    Args:
        value: What to send; of consequence on root_rank alone.
        root_rank: Rank in `comm`.
        comm: The core's communicator; None for all ranks.

    Raises:
        OutOfRangeError: If root_rank is no rank.
    """
    comm = comm or current()
    data = pickle.dumps(value) if comm.rank == root_rank else b""
    length = np.array([len(data)], dtype=np.int64)
    comm.broadcast(length, root_rank, f"size of an object from rank {root_rank}")
    buffer = np.frombuffer(data.ljust(int(length[0]), b"\0"), dtype=np.uint8).copy()
    comm.broadcast(buffer, root_rank, f"an object from rank {root_rank}")
    return value if comm.rank == root_rank else pickle.loads(buffer.tobytes())


class ProcessSet:
    """Some ranks that communicate among themselves, so that several trainings share one job.

    Making one is Collective: all ranks with the same list (also those outside of it), or all ranks
    of the mpi4py communicator. Then `process_set=` of every collective takes it, on its members. In a
    `with` block the members are all ranks there are: a trainer that is made and run there is theirs.
    """

    def __init__(self, ranks: Iterable[int] | Any) -> None:
        """Make a communicator of these ranks.

        Args:
            ranks: Rank numbers, of which the order counts; or an mpi4py communicator (every rank
                may pass another one, and those outside of all pass MPI.COMM_NULL).

        Raises:
            InvalidArgumentError: For ranks that do not exist or appear twice; on all ranks, if
                their lists differ.
        """
        everyone = current()
        mpi4py = libraries.mpi4py()
        self._comm: Communicator | None = None
        self._outer: list[tuple[Communicator, tuple[int, ...], tuple[int, int, int, int]]] = []
        self.ranks: tuple[int, ...] = ()
        """The members, by their rank among all ranks; empty outside of an mpi4py communicator."""
        if mpi4py is not None and isinstance(ranks, mpi4py.Comm):
            if ranks != mpi4py.COMM_NULL:
                self._comm = _adopt(ranks)
                members = self._comm.allgather(
                    str(everyone.rank).encode(), "ranks of a process set"
                )
                self.ranks = tuple(int(member) for member in members)
                _state.activity.observe(self._comm, _ranges(self.ranks))
            return
        self.ranks = tuple(map(operator.index, ranks))
        self._require_ranks(everyone)
        included = everyone.rank in self.ranks
        key = self.ranks.index(everyone.rank) if included else 0
        comm = everyone.split(0 if included else 1, key)
        self._comm = comm if included else None
        if included:
            _state.activity.observe(comm, _ranges(self.ranks))

    def _require_ranks(self, everyone: Communicator) -> None:
        lists = [
            json.loads(t)
            for t in everyone.allgather(json.dumps(self.ranks).encode(), "ranks of a process set")
        ]
        for other, members in enumerate(lists):
            if members != lists[0]:
                problem = f"other ranks than on rank 0, which has {lists[0]}"
            elif not members or len(set(members)) < len(members):
                problem = "expected at least one rank, and none twice"
            elif not all(0 <= member < everyone.size for member in members):
                problem = f"expected ranks from 0 to {everyone.size - 1}"
            else:
                continue
            error = errors.InvalidArgumentError(f"ProcessSet on rank {other}: {members}: {problem}")
            error.agreed = True
            raise error

    def included(self) -> bool:
        """Whether this rank is a member."""
        return self._comm is not None

    def rank(self) -> int:
        """This rank's place in the set.

        Raises:
            InvalidArgumentError: If it is not a member.
        """
        return self.communicator().rank

    def size(self) -> int:
        """Number of members.

        Raises:
            InvalidArgumentError: If this rank is not a member.
        """
        return self.communicator().size

    def communicator(self) -> Communicator:
        """The core's communicator of the members.

        Raises:
            InvalidArgumentError: If this rank is not a member.
        """
        if self._comm is None:
            raise errors.InvalidArgumentError(
                f"rank {rank()} is not in the process set of ranks {list(self.ranks)}"
            )
        return self._comm

    def __enter__(self) -> ProcessSet:
        """Have the members be all ranks until the block ends. Collective over them.

        Raises:
            InvalidArgumentError: If this rank is not a member.
        """
        own = self.communicator()
        self._outer.append((current(), _state.numbers, _state.local_ranks))
        _use(own)
        _state.numbers = self.ranks
        return self

    def __exit__(self, *_: object) -> None:
        _state.comm, _state.numbers, _state.local_ranks = self._outer.pop()


def _ranges(ranks: Iterable[int]) -> str:
    """Rank numbers in short: "0, 2-5"."""
    runs: list[list[int]] = []
    for number in sorted(ranks):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


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
    for failed_rank, other in enumerate(allgather_bytes(record, "failures")):
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
    if isinstance(error, KeyboardInterrupt) and comm.rank > 0:
        with contextlib.suppress(KeyboardInterrupt):  # a second one ends the job at once
            time.sleep(_RANK_0_S)
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
        if isinstance(error, errors.Interrupted):
            if rank() == 0:
                print(_one_line(str(error)), file=sys.stderr, flush=True)
            sys.exit(error.exit_status)
        if not getattr(error, "agreed", False) or rank() == 0:
            previous(kind, error, trace)
        fail(error)

    sys.excepthook = hook


def _one_line(text: str) -> str:
    return " ".join(text.replace("\0", "").split())
