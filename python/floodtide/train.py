# SPDX-License-Identifier: Apache-2.0
"""Training runs: builds the parts from a configuration, drives the C++ step loop, keeps the run directory."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import _comm, _core, _notes, limits, nn
from floodtide import config as configuration
from floodtide._agreement import require_same, require_same_configuration
from floodtide._flooding import Flooding
from floodtide._hooks import CommHook, adapted
from floodtide._memory import require_memory
from floodtide._outputs import files_named
from floodtide._segmentation import Segmentation
from floodtide._signals import INTERRUPT, StopRequest
from floodtide.config import FLOOD, CommConfig, Config
from floodtide.errors import (
    CommunicationError,
    ConfigurationError,
    Interrupted,
    InvalidFileError,
    StorageError,
    UnsupportedError,
)
from floodtide.rundir import RunDirectory

Record = Mapping[str, Any]
Callback = Callable[["Trainer", Record], None]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step did on this rank: its number, the mean loss over this rank's walkers, the learning rate."""

    number: int
    loss: float
    lr: float


class Trainer:
    """A training run under MPI or alone; all ranks construct it and call its methods in the same order (collective).

    Resumes from the newest checkpoint of the run directory, whatever the number of ranks that wrote it.

    Args:
        config: The whole configuration.
        comm: An mpi4py communicator, or None: the world when launched by mpiexec, else one rank.
        callbacks: Called on rank 0 as callback(trainer, record) with every record of the log.

    Raises:
        floodtide.errors.Error: On every rank alike, for wrong input.
    """

    def __init__(
        self, config: Config, comm: Any = None, callbacks: Sequence[Callback] = ()
    ) -> None:
        _comm.ensure_init(comm)
        self.config = config
        self._comm = _comm.current()
        self._callbacks = tuple(callbacks)
        self._walkers = config.training.walkers or self._comm.size
        require_same_configuration("train", config)
        with _comm.agreed():
            check_on_lost_rank(config.comm, self._comm)
            set_threads(config.run.threads)
            require_memory(config, self._comm.size)
            self._task = _task(config, self._walkers)
            self.model: nn.Network = self._task.model
        data = {"the number of examples": self._task.examples, **self._task.facts}
        require_same("train", data, "data")
        self._hook: Callable[..., None] | None = None
        self._signal = StopRequest()
        self._interrupted = False  # by Ctrl-C, on whichever rank: the same on all
        self._start_s = time.monotonic()
        self._job = str(_comm.broadcast_object(secrets.token_hex(8)))
        self._open()

    def _open(self) -> None:
        """Begin with the ranks there are, from the newest checkpoint. Collective."""
        self._directory = RunDirectory(Path(self.config.run.dir), writer=self._comm.rank == 0)
        with _comm.agreed():
            self._directory.take(self._job)
        try:
            self._begin()
        except BaseException:
            self._directory.abandon()
            raise

    def _begin(self) -> None:
        config = self.config
        schedule = config.schedule
        training = config.training
        with _comm.agreed():
            walkers = self._task.new_walkers(self._comm)
        self._trainer = _core.Trainer(
            walkers,
            optimizer=config.optimizer.name,
            optimizer_values=dict(config.optimizer.values),
            schedule=schedule.name,
            schedule_values={
                "base_lr": config.optimizer.lr,
                "warmup_steps": float(schedule.warmup_steps),
                "warmup_start": schedule.warmup_start,
                **({"total_steps": float(training.steps)} if schedule.name == "cosine" else {}),
            },
            scale=schedule.scale,
            communicator=self._comm,
            clip=training.clip,
            average=training.average,
            algorithm=config.comm.algorithm,
            accumulate=training.accumulate,
            on_exhausted=training.on_exhausted,
            exactness=config.comm.exactness,
            bucket_bytes=round(config.comm.bucket_mib * 2**20),
            wire=config.comm.wire,
            mode=config.comm.mode,
            contributors=config.comm.contributors or self._comm.size,
            late=config.comm.late,
            steps=training.steps,
            meet_every=config.validation.every if self._task.validation else 0,
            activity=_comm.activity(config.comm.timeout_s),
            timeout_s=config.comm.timeout_s,
            record_path=str(self._directory.failure_path(self._comm.rank)),
        )
        if self._hook is not None:
            self._trainer.set_bucket_hook(self._hook)
        with _comm.agreed():
            newest = self._directory.newest_checkpoint()
        checkpoint = _comm.broadcast_object(newest)
        self._good_checkpoint = checkpoint
        if checkpoint:
            self._resume(checkpoint)
        with _comm.agreed():
            self._directory.start(config, self.steps_done)
        if config.run.trace:
            self._trainer.trace(str(self._directory.trace_path(self._comm.rank)))
        self._record(
            {
                "kind": "start",
                "step": self.steps_done,
                "ranks": self._comm.size,
                "walkers": self._walkers,
                "threads": _core.num_threads(),
                "parameters": sum(array.size for array in self.model.state_dict().values()),
                "unit": self._task.unit,
                "examples_per_epoch": self._task.examples,
                **self._task.facts,
                "resumed_from": checkpoint or "",
                "transport": self._comm.description,
                "kernels": self._task.kernels,
            }
        )
        self._logged_s = self._saved_s = time.monotonic()
        self._stopped = self.complete

    def _resume(self, checkpoint: str) -> None:
        try:
            self._trainer.load(checkpoint)
        except InvalidFileError as error:
            advised = InvalidFileError(f"{error}{self._directory.advice(checkpoint)}")
            advised.agreed = error.agreed
            raise advised from None
        if checkpoint != str(self._directory.checkpoint_path(self.steps_done)):
            renamed = InvalidFileError(
                f"{checkpoint}: holds step {self.steps_done}, expected the step that its name says:"
                " it is damaged or was renamed"
            )
            renamed.agreed = True  # all ranks have loaded the same step
            raise renamed
        if _comm.rank() == 0 and not _core.has_checksums(checkpoint):
            _notes.unprotected(checkpoint)

    @property
    def steps_done(self) -> int:
        """Optimizer updates so far, those before a resumed checkpoint included."""
        return int(self._trainer.steps_done)

    @property
    def complete(self) -> bool:
        """Whether all of `training.steps` are done; False after `run` if time or a signal has ended it."""
        return self.steps_done >= self.config.training.steps

    @property
    def stopped(self) -> bool:
        """Whether there is no further step to make: all are done, or time, a signal or the end of the shards asked for
        the end. The same on all ranks."""
        return self._stopped

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._directory.path

    @property
    def result(self) -> nn.Network:
        """The network to use: `model`, or with `training.average` one with the averaged parameters."""
        average: nn.Network | None = self._task.average
        if average is None:
            return self.model
        self._trainer.copy_average(average.core)
        return average

    def step(self) -> Step:
        """One field of view of every walker and one update; logs and saves when it is time. Collective.

        For loops of your own, which end like `run` if they are written so:

            with trainer.watching_signals():
                while not trainer.stopped:
                    trainer.step()
            trainer.close()

        Ranks that do not wait for each other (`comm.mode`) call it each as often as they can: such a loop, and no
        number of steps, ends on all of them together.
        """
        run = self.config.run
        requests = 0
        if self._comm.rank == 0:
            # Rank 0's clock decides; the request travels with the gradients, so all ranks act after the same step.
            now = time.monotonic()
            if now - self._logged_s >= run.log_every_s:
                requests |= _core.REQUEST_LOG
            if now - self._saved_s >= run.checkpoint_every_s:
                requests |= _core.REQUEST_CHECKPOINT
            if run.stop_after_s and now - self._start_s >= run.stop_after_s:
                requests |= _core.REQUEST_STOP
        if self._signal:  # on whichever ranks it came
            requests |= _core.REQUEST_STOP
        try:
            report = self._trainer.step(requests)
        except Exception as error:
            self._trainer.record_failure(str(error))
            raise
        self._stopped = bool(report.requests & _core.REQUEST_STOP) or self.complete
        signals = self._signals() if self._stopped and not self.complete else []
        self._interrupted = INTERRUPT in signals
        if report.requests & _core.REQUEST_LOG or self._stopped:
            with self._activity("log"):
                self._trainer.flush_trace()
                self._log_training(report.lr)
        if report.requests & _core.REQUEST_CHECKPOINT or self._stopped:
            self.save()
        every = self.config.validation.every
        due = self._stopped or (report.met and every and self.steps_done % every == 0)
        if self._task.validation and due and not any(signals):
            self.validate()
        return Step(number=report.step, loss=report.loss, lr=report.lr)

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Train until `training.steps` or `run.stop_after_s`; calls `progress(done, total)` after
        each step. Collective.

        When SIGTERM or SIGUSR1 comes to any rank, all ranks stop after the step that they are in, save a checkpoint,
        leave out the validation at the end, and return. Ctrl-C does the same, and then raises Interrupted, a
        KeyboardInterrupt; another call of `run` goes on. A second Ctrl-C raises KeyboardInterrupt at once.

        With `comm.on_lost_rank = "shrink"` the ranks that are left when one is lost go on from the newest checkpoint.
        """
        if self._interrupted:
            self._go_on()
        with self.watching_signals():
            if self.config.comm.on_lost_rank == "shrink" and self._comm.size > 1:
                self._run_with_those_left(progress)
            else:
                self._run(progress)

    @contextlib.contextmanager
    def watching_signals(self) -> Iterator[None]:
        """Have SIGTERM, SIGUSR1 and Ctrl-C ask for the end of the training, as long as the context lasts.

        After the first one the next `step` of all ranks is their last, and saves a checkpoint; a second one does what
        it did before. `run` does this itself. In threads other than the main one it does nothing.

        Raises:
            Interrupted: At the end of the context, on all ranks, if Ctrl-C has ended the training.
        """
        with self._signal.watched():
            yield
        if self._interrupted:
            self.close()
            raise Interrupted(
                f"training stopped at step {self.steps_done} of {self.config.training.steps} with a checkpoint; "
                "Trainer.run goes on from there"
            )
        if self._signal.name == INTERRUPT:  # it came too late for a step
            self._signal = StopRequest()
            raise KeyboardInterrupt

    def _go_on(self) -> None:
        """Open what the end of an interrupted run has closed. Collective."""
        self._signal = StopRequest()
        self._stopped = self.complete
        with _comm.agreed():
            self._directory.take_again(self._job, self.steps_done)
            self._directory.start(self.config, self.steps_done)
        if self.config.run.trace:
            self._trainer.trace(str(self._directory.trace_path(self._comm.rank)))
        self._logged_s = self._saved_s = time.monotonic()
        self._interrupted = False

    def _run(self, progress: Callable[[int, int], None] | None) -> None:
        while not self._stopped:
            self.step()
            if progress:
                progress(self.steps_done, self.config.training.steps)
        self.close()

    def _run_with_those_left(self, progress: Callable[[int, int], None] | None) -> None:
        broken = (
            False  # whether this rank's communicator is a new one, with which nothing has begun
        )
        while True:
            failure = None
            try:
                if broken:
                    self._begin_again()
                self._run(progress)
            except CommunicationError as error:
                failure = error
            rest = self._comm.settle(failure is None)
            if rest is None:
                return
            if rest.size == self._comm.size:
                raise failure or CommunicationError("train: another rank could not go on")
            self._comm, broken = rest, True

    def _begin_again(self) -> None:
        self._trainer = None  # its threads use the communicator that is given up
        _comm.replace(self._comm)
        with contextlib.suppress(StorageError):  # what is lost here is written again
            self._directory.close()
        start = self._task.new_model()  # if there is no checkpoint yet
        self.model.load_state_dict(start.state_dict())
        self._open()

    def close(self) -> None:
        """Close log and events, and merge the ranks' traces; `run` does so at its end. Collective."""
        self._trainer.flush_trace()
        if self.config.run.trace:
            self._comm.barrier()  # all ranks' files are up to date
            with _comm.agreed():
                self._directory.merge_traces()
        self._directory.close()

    def register_comm_hook(self, state: Any, hook: CommHook | None) -> None:
        """Sum gradients by a function of yours instead of an allreduce. On all ranks, before `run`.

        Args:
            state: Handed to the hook as its first argument.
            hook: Called as hook(state, bucket) on every rank for the same buckets in the same order, as soon as
                their gradients are computed. It must leave the sum over ranks in `bucket.buffer`, in place;
                `floodtide.allreduce` and its kin may be used. None: the allreduce again.

        Raises:
            UnsupportedError: With `comm.exactness = "workers"`, which sums no buckets.
        """
        if hook is None:
            self._hook = None
            self._trainer.set_bucket_hook(None)
            return
        self._hook = adapted(hook, state, list(self.model.state_dict()))
        self._trainer.set_bucket_hook(self._hook)

    def save(self) -> Path:
        """Write a checkpoint and remove the oldest ones beyond `run.keep_checkpoints`. Collective.

        Raises:
            CommunicationError: On all ranks, if one of them holds other parameters than most; nothing is written then.
        """
        path = self._directory.checkpoint_path(self.steps_done)
        with _comm.agreed():
            self._directory.require_taken()
        try:
            self._trainer.check_replicas()
        except CommunicationError as error:
            raise self._advised(error) from None
        self._trainer.save(str(path), configuration.dumps(self.config))
        self._good_checkpoint = str(path)
        with _comm.agreed():
            inputs = files_named(configuration.to_dict(self.config))
            self._directory.prune(self.config.run.keep_checkpoints, inputs)
        self._saved_s = time.monotonic()
        return path

    def _advised(self, error: CommunicationError) -> CommunicationError:
        """The failure of a comparison of the ranks, with what to go on from."""
        good = self._good_checkpoint
        advice = f"the checkpoint before is good: {good}" if good else "there is no checkpoint yet"
        advised = CommunicationError(f"{error}; {advice}")
        advised.agreed = error.agreed
        return advised

    def validate(self) -> Record:
        """Validation scores as DESIGN's protocol defines them, recorded in the log. Collective."""
        if self._task.validation is None:
            raise ConfigurationError(
                "validate: the configuration holds nothing out, expected a [validation] section that does"
            )
        with self._activity("validation"):
            result = self._task.validation.run(self.result)
            record = {"kind": "validation", "step": self.steps_done, **result.summary()}
            self._record(record)
        return record

    @contextlib.contextmanager
    def _activity(self, name: str) -> Iterator[None]:
        """Show in traces, and to the watchdog, what this rank does between steps."""
        number = self._trainer.begin_activity(name)
        try:
            yield
        finally:
            self._trainer.end_activity(number)

    def _signals(self) -> list[str]:
        """The signals that have come to the ranks, empty where none has. Collective."""
        return [name.decode() for name in _comm.allgather_bytes(self._signal.name.encode())]

    def _log_training(self, lr: float) -> None:
        sums = self._trainer.take_metrics()
        now = time.monotonic()
        elapsed_s, self._logged_s = now - self._logged_s, now
        counts = {name: sums[name] for name in ("tp", "fp", "fn", "tn")}
        self._record(
            {
                "kind": "train",
                "step": self.steps_done,
                "loss": sums["loss_sum"] / max(sums["fovs"], 1),
                "lr": lr,
                self._task.unit: sums["fovs"],
                "examples": sums["examples"],
                f"{self._task.unit}_per_s": sums["fovs"] / elapsed_s,
                "wait_data_s": sums["data_s"] / self._comm.size,
                "compute_s": sums["compute_s"] / self._comm.size,
                "wait_comm_s": sums["reduce_s"] / self._comm.size,
                "update_s": sums["update_s"] / self._comm.size,
                "dropped": sums["dropped"],
                "staleness": sums["staleness_sum"] / max(sums["fovs"] - sums["dropped"], 1),
                **counts,
            }
        )

    def _record(self, record: Record) -> None:
        stamped = self._directory.record(record)
        if stamped is not None:
            for callback in self._callbacks:
                callback(self, stamped)


def _task(config: Config, walkers: int) -> Any:
    """What this kind of network is trained on, on this rank."""
    if config.model.kind == FLOOD:
        return Flooding(config, walkers)
    return Segmentation(config, walkers)


def check_on_lost_rank(section: CommConfig, communicator: Any) -> None:
    """Whether this job can do what `comm.on_lost_rank` says.

    Raises:
        ConfigurationError: If the mode cannot.
        UnsupportedError: If the MPI library or its launcher cannot.
    """
    if section.on_lost_rank != "shrink" or communicator.size == 1:
        return
    if section.mode != "synchronous":
        raise ConfigurationError(
            f"comm.on_lost_rank is 'shrink' with comm.mode '{section.mode}', expected mode 'synchronous'"
        )
    if not communicator.survives:
        raise UnsupportedError(
            "comm.on_lost_rank is 'shrink', expected Open MPI 5 and its mpiexec --with-ft ulfm; this job has "
            + communicator.description
        )


def set_threads(threads: int) -> None:
    """Set this rank's compute threads, as thread_count says."""
    _core.set_num_threads(thread_count(threads))


def thread_count(threads: int) -> int:
    """Threads of a rank with `run.threads` = threads; 0: OMP_NUM_THREADS, else the cores it may use shared among the
    node's ranks."""
    limits.THREADS.check(threads, "run.threads", ConfigurationError)
    if not threads:
        wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        threads = int(wanted) if wanted.isdecimal() and len(wanted) < 10 else 0
        if threads:
            limits.THREADS.check(threads, "OMP_NUM_THREADS")
    return threads or max(1, _core.available_cores() // _comm.places()[1])
