# SPDX-License-Identifier: Apache-2.0
"""Training runs: a trainer drives the C++ step loop over a network and its data, and keeps the run directory."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import _core, nn
from floodtide import config as configuration
from floodtide.base import limits, notes
from floodtide.base.outputs import files_named
from floodtide.base.pickling import NotPickled
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config import CommConfig, Config, RunConfig, TrainingConfig
from floodtide.errors import (
    CommunicationError,
    ConfigurationError,
    Interrupted,
    InvalidArgumentError,
    InvalidFileError,
    StorageError,
    UnsupportedError,
)
from floodtide.nn.losses import loss_of
from floodtide.optim import Optimizer, advice
from floodtide.optim.lr import Schedule
from floodtide.train.comm_hook import CommHook, CoreHook, adapted
from floodtide.train.described import configuration_of
from floodtide.train.engine_options import engine_options
from floodtide.train.kinds import Data, HeldOut, Model, Parts, kind_of
from floodtide.train.memory import require_memory
from floodtide.train.parts import complete_schedule, parts_of
from floodtide.train.run_directory import RunDirectory, read_log
from floodtide.train.same_on_ranks import require_same, require_same_configuration
from floodtide.train.signals import INTERRUPT, StopRequest
from floodtide.train.task import Record
from floodtide.train.threads import bind_ranks, set_threads

Callback = Callable[["Trainer", Record], None]

_KINDS = ("start", "train", "validation")  # of the records that a trainer writes


@dataclass(frozen=True, kw_only=True)
class Step:
    """Result of one step on this rank: its number, the mean loss over this rank's walkers, and the learning rate."""

    number: int
    loss: float
    lr: float


class Trainer(NotPickled):
    """A training run under MPI or alone. All ranks construct it and call its methods in the same order (collective).

    Build it from objects in a script, or from a configuration file with `from_config`:

        model = ft.nn.FFN(depth=9)
        data = ft.data.Shards("cube.h5:raw", "cube.h5:labels", "cube.h5:partitions",
                              patch_size=model.patch_size, walkers=ft.size())
        trainer = ft.train.Trainer(model=model, data=data, optimizer=ft.optim.Adam(lr=1e-3),
                                   schedule=ft.lr.Warmup(warmup_steps=100, scale="sqrt"),
                                   directory="runs/cube", steps=10_000)
        with trainer:
            for step in trainer:
                print(step.number, step.loss)

    `run` trains to the end without a loop. The run resumes from the newest checkpoint of its directory, whatever the
    number of ranks that wrote the checkpoint. The directory's config.toml describes the same training for
    `floodtide train`.

    Args:
        config: A configuration instead of objects: an older form of `from_config`.
        comm: An mpi4py communicator. None: the world when launched by mpiexec, else one rank.
        callbacks: Called on rank 0 as callback(trainer, record) with every record of the log.
        model: The network to train. All ranks start from the parameters of rank 0.
        data: Training data: `Shards` for an FFN, `Slices` for a UNet2D, `Affinities` for a UNet3D. Their `walkers`
            are the global batch, shared out over the ranks.
        optimizer: Update rule. Its state starts anew, or comes from the checkpoint.
        schedule: Learning rate of each step, with its warm-up and its scaling with the walkers. What the schedule
            leaves out comes from the optimizer (`base_lr`) and the trainer (`total_steps`). None: the optimizer's rate.
        loss: Loss of a U-Net. Flood-filling networks always minimise the sigmoid cross-entropy.
        validation: Held-out data: `FloodValidation`, `Slices` or `Affinities`. None: no validation.
        validate_every: Steps between two validations; 0: only at the end.
        directory: The run directory.
        steps: Optimizer updates.
        training, run, communication: Further options, with the names that a configuration file has for them.
        progress: Show the progress and the time left on rank 0's standard error.

    Raises:
        floodtide.errors.Error: On every rank alike, for wrong input.
    """

    not_pickled = (
        "it holds ranks and files; expected a new trainer in each process, from its `config`"
    )
    __slots__ = (  # a misspelt name is an error, not a new attribute
        "__weakref__",
        "_average",
        "_callbacks",
        "_closed",
        "_comm",
        "_directory",
        "_given_up",
        "_good_checkpoint",
        "_hook",
        "_interrupted",
        "_job",
        "_logged_s",
        "_parts",
        "_progress",
        "_rate_factor",
        "_saved_s",
        "_schedule",
        "_signal",
        "_start_s",
        "_start_state",
        "_statistics",
        "_stop",
        "_stopped",
        "_task",
        "_trainer",
        "_walkers",
        "_warnings",
        "config",
        "data",
        "model",
    )

    def __init__(
        self,
        config: Config | None = None,
        comm: Any = None,
        callbacks: Sequence[Callback] = (),
        *,
        model: Model | None = None,
        data: Data | None = None,
        optimizer: Optimizer | None = None,
        schedule: Schedule | None = None,
        loss: str | nn.SegmentationLoss = "dice+cross_entropy",
        validation: HeldOut | None = None,
        validate_every: int = 0,
        directory: str | os.PathLike[str] | None = None,
        steps: int | None = None,
        training: TrainingConfig | None = None,
        run: RunConfig | None = None,
        communication: CommConfig | None = None,
        progress: bool = False,
    ) -> None:
        world.ensure_init(comm)
        self._callbacks = tuple(callbacks)
        self._progress = progress
        if config is not None:
            objects = (model, data, optimizer, schedule, validation, directory, steps)
            if any(one is not None for one in (*objects, training, run, communication)):
                raise InvalidArgumentError(
                    "Trainer: a configuration and objects are given, expected one of them"
                )
            self._start(config, None)
            return
        with world.agreed():
            if model is None or data is None or optimizer is None:
                raise InvalidArgumentError("Trainer: expected a model, data and an optimizer")
            if directory is None or steps is None:
                raise InvalidArgumentError("Trainer: expected a directory and steps")
            parts = Parts(
                model=model,
                data=data,
                validation=validation,
                loss=loss_of(loss),
                optimizer=optimizer,
                schedule=schedule or Schedule("constant"),
            )
            described = configuration_of(
                parts,
                directory=directory,
                steps=steps,
                validate_every=validate_every,
                run=run or RunConfig(),
                training=training or TrainingConfig(),
                comm=communication or CommConfig(),
            )
        self._start(described, parts)

    @classmethod
    def from_config(
        cls,
        config: Config,
        comm: Any = None,
        callbacks: Sequence[Callback] = (),
        *,
        progress: bool = False,
    ) -> Trainer:
        """Return a trainer of the objects that a configuration describes. Collective.

        Args:
            config: The whole configuration, as `ft.config.load` reads it.
            comm, callbacks, progress: As for the class.

        Raises:
            floodtide.errors.Error: On every rank alike, for wrong input.
        """
        return cls(config, comm, callbacks, progress=progress)

    def _start(self, config: Config, parts: Parts | None) -> None:
        """Check that all ranks can train as the configuration says, build what it describes, and begin. Collective."""
        self.config = config
        self._comm = world.current()
        self._walkers = config.training.walkers or self._comm.size
        require_same_configuration("train", config)
        if config.run.bind == "ranks":
            bind_ranks()
        with world.agreed():
            check_on_lost_rank(config.comm, self._comm)
            set_threads(config.run.threads)
            require_memory(config, self._comm.size)
        # Ranks import modules only when they need them: a thousand ranks read the files at once.
        if parts is None and any(v.labels and not v.partitions for v in config.data.volumes):
            from floodtide.train.own_partitions import with_partitions

            self.config = config = with_partitions(config)
        self._statistics = ""
        self._warnings: tuple[str, ...] = ()
        with world.agreed():
            if self._comm.rank == 0:
                from floodtide.train.data_checks import checked

                found = checked(config, parts, self._comm.size)
                self._parts, self._statistics, self._warnings = found
            else:
                self._parts = parts or parts_of(config, self._comm.size)
            self._schedule = complete_schedule(
                self._parts.schedule, self._parts.optimizer, config, self._walkers
            )
            self._task = kind_of(config).task_of(self._parts, config)
            self.model: Model = self._parts.model
            self.data: Data = self._parts.data
            self._average = self.model.like() if config.training.average > 0 else None
        facts = {"the number of examples": self._task.examples, **self._task.facts}
        require_same("train", facts, "data")
        shrinks = config.comm.on_lost_rank == "shrink" and self._comm.size > 1
        self._start_state = self.model.state_dict() if shrinks else None
        self._hook: CoreHook | None = None
        self._signal = StopRequest()
        self._stop = False  # what `stop` asks for on this rank
        self._rate_factor: float | None = None  # what `scale_lr` asks for on this rank
        self._interrupted = False  # by Ctrl-C, on whichever rank: the same on all
        self._given_up = False  # as `validation.give_up_after` says: the same on all ranks
        self._start_s = time.monotonic()
        self._job = str(world.broadcast_object(os.urandom(8).hex()))
        self._open()

    def _open(self) -> None:
        """Begin with the ranks there are, from the newest checkpoint. Collective."""
        self._directory = RunDirectory(Path(self.config.run.dir), writer=self._comm.rank == 0)
        with world.agreed():
            self._directory.take(self._job)
        try:
            self._begin()
        except BaseException:
            self._directory.abandon()
            raise

    def _begin(self) -> None:
        config, parts, schedule = self.config, self._parts, self._schedule
        with world.agreed():
            walkers = self._task.new_walkers(self._comm)
        self._trainer = _core.Trainer(
            walkers,
            self._comm,
            optimizer=parts.optimizer.name,
            optimizer_values=parts.optimizer.values,
            schedule=schedule.name,
            schedule_values=schedule.values,
            scale=schedule.scale,
            scale_values=schedule.scale_values,
            options=engine_options(
                config,
                self._comm,
                validates=self._task.validates,
                record_path=self._directory.failure_path(self._comm.rank),
            ),
        )
        if self._hook is not None:
            self._trainer.set_bucket_hook(self._hook)
        with world.agreed():
            newest = self._directory.newest_checkpoint()
        checkpoint = world.broadcast_object(newest)
        self._good_checkpoint = checkpoint
        if checkpoint:
            self._resume(checkpoint)
        with world.agreed():
            self._given_up = self._directory.given_up(self.steps_done)
        self._given_up = bool(world.broadcast_object(self._given_up))
        with world.agreed():
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
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "version": _core.__version__,
                "processor": _core.processor_name(),
                "cores": _core.available_cores(),
                "hosts": world.places()[3],
                "examples_per_epoch": self._task.examples,
                **self._task.facts,
                "resumed_from": checkpoint or "",
                "transport": self._comm.description,
                "kernels": self._task.kernels,
                "rate": advice.rate_used(schedule, self._walkers, config.training.batch),
            }
        )
        for warning in self._warnings:
            notes.warn(warning)
        for trap in advice.traps(
            parts.optimizer,
            schedule,
            self._walkers,
            config.training.batch,
            statistics=getattr(config.model, "batch_norm", False),
        ):
            notes.show(trap)
        self._logged_s = self._saved_s = time.monotonic()
        self._stopped = self.complete or self._given_up
        self._closed = False

    def _resume(self, checkpoint: str) -> None:
        try:
            self._trainer.load(checkpoint)
        except InvalidFileError as error:
            from floodtide.train.resumed import other_model

            other = other_model(checkpoint, self.config)
            advised = InvalidFileError(other or f"{error}{self._directory.advice(checkpoint)}")
            advised.agreed = error.agreed
            raise advised from None
        if checkpoint != str(self._directory.checkpoint_path(self.steps_done)):
            renamed = InvalidFileError(
                f"{checkpoint}: holds step {self.steps_done}, expected the step that its name says:"
                " it is damaged or was renamed"
            )
            renamed.agreed = True  # all ranks have loaded the same step
            raise renamed
        if world.rank() == 0 and not _core.has_checksums(checkpoint):
            notes.unprotected(checkpoint)

    @property
    def steps_done(self) -> int:
        """Number of optimizer updates so far, including those before a resumed checkpoint."""
        return self._trainer.steps_done

    @property
    def complete(self) -> bool:
        """True if all of `training.steps` are done. False after a `run` that time or a signal has ended."""
        return self.steps_done >= self.config.training.steps

    @property
    def time_left_s(self) -> float | None:
        """Seconds until `run.stop_after_s` ends this run at the latest, by the clock of this rank; None: no limit."""
        limit_s = self.config.run.stop_after_s
        return max(0.0, limit_s - (time.monotonic() - self._start_s)) if limit_s else None

    @property
    def given_up(self) -> bool:
        """True if the training ended early because of `validation.give_up_after`. It does not go on."""
        return self._given_up

    @property
    def stopped(self) -> bool:
        """True if no step follows: all steps are done, or time, a signal or the end of the shards stopped the run.

        The value is the same on all ranks.
        """
        return self._stopped

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._directory.path

    @property
    def result(self) -> Model:
        """The trained network: `model`, or with `training.average` a network with the averaged parameters."""
        if self._average is None:
            return self.model
        self._trainer.copy_average(self._average.core)
        return self._average

    def step(self) -> Step:
        """Run one training step: one field of view of every walker, then one update. Collective.

        The step also writes the log and checkpoints when they are due. In your own loop, iterate over the trainer
        instead, because the iterator also watches for signals. Ranks that do not wait for each other (`comm.mode`)
        make different numbers of steps. Iterating ends on all of them together; a fixed number of calls does not.
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
        if self._signal or self._stop:  # on whichever ranks it came
            requests |= _core.REQUEST_STOP
        if self._rate_factor is not None:
            requests |= _core.REQUEST_RATE
        try:
            report = self._trainer.step(requests)
        except Exception as error:
            self._trainer.record_failure(str(error))
            raise
        if report.requests & _core.REQUEST_RATE:
            self._change_rate()
        self._stopped = bool(report.requests & _core.REQUEST_STOP) or self.complete
        signals = self._signals() if self._stopped and not self.complete else []
        self._interrupted = INTERRUPT in signals
        if report.requests & _core.REQUEST_LOG or self._stopped:
            with self._activity("log"):
                self._trainer.flush_trace()
                self._log_training(report)
        if report.requests & _core.REQUEST_CHECKPOINT or self._stopped:
            self.save()
        every = self.config.validation.every
        due = self._stopped or (report.met and every and self.steps_done % every == 0)
        if self._task.validates and due and not any(signals):
            self.validate()
        return Step(number=report.step, loss=report.loss, lr=report.lr)

    def __iter__(self) -> Iterator[Step]:
        """Run one step per iteration until the training is complete or stopped. Collective.

        A signal ends the loop as it ends `run`. If you leave the loop early, the log stays open: call `close`, or use
        a `with` block.
        """
        self._say_if_nothing_is_left()
        self._validate_after_a_kill()
        with self.watching_signals(), self._bar() as show:
            while not self._stopped:
                step = self.step()
                show(self.steps_done, self.config.training.steps)
                yield step
        self.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close log and events. After an exception, do this without the other ranks: they may have had none."""
        if kind is None:
            self.close()
        else:
            self._directory.close()

    def stop(self) -> None:
        """Ask all ranks to end the training after the next step, with a checkpoint. For callbacks and loops.

        Any rank may call it. `complete` stays false, and a later trainer of the same run directory goes on.
        """
        self._stop = True

    def scale_lr(self, factor: float) -> None:
        """Ask all ranks to multiply the schedule's rate by `factor` after the next step. For callbacks and loops.

        The factor replaces the factor before. It is 1 at the start, and checkpoints keep it. Any rank may call this. If
        several ranks call this before the same step, the factor of the lowest rank holds.

        Raises:
            InvalidArgumentError: If the factor is not above 0 and at most 1e6.
        """
        limits.RATE_FACTOR.check(factor, "scale_lr: factor")
        self._rate_factor = float(factor)

    @property
    def lr_factor(self) -> float:
        """Factor that multiplies the schedule's rate; see `scale_lr`."""
        return self._trainer.rate_factor

    def _change_rate(self) -> None:
        """Apply the factor that the lowest rank has asked for. Collective."""
        own = b"" if self._rate_factor is None else struct.pack("d", self._rate_factor)
        self._rate_factor = None
        asked = next(filter(None, world.allgather_bytes(own)), None)
        if asked is not None:  # ranks that do not wait for each other may have learnt of it twice
            (self._trainer.rate_factor,) = struct.unpack("d", asked)

    def add_record(self, kind: str, values: Record) -> None:
        """Add a record of your own to log.jsonl and the TensorBoard events, with the step and the time.

        Ranks other than 0 do nothing. The trainer does not pass the record to callbacks, so callbacks may call this.

        Args:
            kind: Name of the kind of record. The names of its TensorBoard events begin with it.
            values: Values that JSON can hold, by name.

        Raises:
            InvalidArgumentError: For a kind that the trainer writes itself, or names that every record has.
        """
        if kind in _KINDS or not kind:
            raise InvalidArgumentError(
                f"add_record: kind is '{kind}', expected a name other than {', '.join(_KINDS)}"
            )
        taken = sorted({"kind", "step", "time_s"} & values.keys())
        if taken:
            raise InvalidArgumentError(
                f"add_record: '{taken[0]}' is part of every record, expected another name"
            )
        self._directory.record({"kind": kind, "step": self.steps_done, **values})

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Train until `training.steps` or `run.stop_after_s`. Collective.

        Args:
            progress: Called as progress(done, total) after each step.

        When SIGTERM or SIGUSR1 comes to any rank, all ranks stop after the step that they are in, save a checkpoint,
        leave out the validation at the end, and return. Ctrl-C does the same, and then raises Interrupted, a
        KeyboardInterrupt; another call of `run` goes on. A second Ctrl-C raises KeyboardInterrupt at once.

        With `comm.on_lost_rank = "shrink"` the ranks that are left when one is lost go on from the newest checkpoint.
        """
        if self._interrupted:
            self._go_on()
        self._say_if_nothing_is_left()
        self._validate_after_a_kill()
        with self.watching_signals(), self._bar() as show:
            if self.config.comm.on_lost_rank == "shrink" and self._comm.size > 1:
                self._run_with_those_left(progress or show)
            else:
                self._run(progress or show)

    def _say_if_nothing_is_left(self) -> None:
        """Print a note if the run is over before its first step, and which changed keys have no effect."""
        if not self._stopped or self._comm.rank > 0:
            return
        from floodtide.train.resumed import without_effect

        how = "was given up" if self._given_up else "is complete"
        vain = without_effect(self._good_checkpoint, self.config) if self._good_checkpoint else ""
        notes.show(
            f"{self._directory.path}: the training {how} at step {self.steps_done}: nothing is trained{vain};"
            " expected another run.dir, or more training.steps"
        )

    def _validate_after_a_kill(self) -> None:
        """Validate a complete run that was killed between its last checkpoint and its last validation. Collective."""
        if not (self.complete and self._task.validates and not self._closed):
            return
        lacks = False
        with world.agreed():
            if self._comm.rank == 0:
                records = read_log(self._directory.path / "log.jsonl")
                last = [r["step"] for r in records if r["kind"] == "validation"]
                lacks = not last or last[-1] < self.steps_done
        if world.broadcast_object(lacks):
            self.validate()

    def _bar(self) -> contextlib.AbstractContextManager[Callable[[int, int], None]]:
        """Return the progress display, or one that shows nothing."""
        if not self._progress:
            return contextlib.nullcontext(_no_progress)
        return bar("steps", "train", at_most_s=lambda: self.time_left_s)

    @contextlib.contextmanager
    def watching_signals(self) -> Iterator[None]:
        """Inside the block, let SIGTERM, SIGUSR1 and Ctrl-C stop the training.

        After the first signal, the next `step` is the last one on all ranks, and saves a checkpoint. A second signal
        has its usual effect. `run` and iterating do this themselves. Only the main thread watches for signals.

        Raises:
            Interrupted: At the end of the block, on all ranks, if Ctrl-C has ended the training.
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
        """Reopen what the end of an interrupted run has closed. Collective."""
        self._signal = StopRequest()
        self._stopped = self.complete or self._given_up
        with world.agreed():
            self._directory.take_again(self._job, self.steps_done)
            self._directory.start(self.config, self.steps_done)
        if self.config.run.trace:
            self._trainer.trace(str(self._directory.trace_path(self._comm.rank)))
        self._logged_s = self._saved_s = time.monotonic()
        self._interrupted = self._closed = False

    def _run(self, progress: Callable[[int, int], None]) -> None:
        while not self._stopped:
            self.step()
            progress(self.steps_done, self.config.training.steps)
        self.close()

    def _run_with_those_left(self, progress: Callable[[int, int], None]) -> None:
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
        del self._trainer  # its threads use the communicator that is given up
        world.replace(self._comm)
        with contextlib.suppress(StorageError):  # what is lost here is written again
            self._directory.close()
        assert self._start_state is not None  # kept for jobs that shrink
        self.model.load_state_dict(
            self._start_state
        )  # for the case that there is no checkpoint yet
        self._open()

    def close(self) -> None:
        """Close log and events, and merge the traces of the ranks. `run` does this at its end. Collective.

        A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._trainer.flush_trace()
        if self.config.run.trace:
            self._comm.barrier()  # all ranks' files are up to date
            with world.agreed():
                self._directory.merge_traces()
        self._directory.close()

    def register_comm_hook(self, state: Any, hook: CommHook | None) -> None:
        """Replace the allreduce of gradients by your own function. Call this on all ranks before `run`.

        Args:
            state: First argument of the hook.
            hook: Called as hook(state, bucket) on every rank for the same buckets in the same order, as soon as
                their gradients are computed. It must leave the sum over ranks in `bucket.buffer`. It may call
                `floodtide.allreduce` and other collectives. None: use the allreduce again.

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
            CommunicationError: On all ranks, if a rank holds other parameters than most ranks. Nothing is written then.
        """
        path = self._directory.checkpoint_path(self.steps_done)
        with world.agreed():
            self._directory.require_taken()
        try:
            self._trainer.check_replicas()
        except CommunicationError as error:
            raise self._advised(error) from None
        self._trainer.save(str(path), configuration.dumps(self.config), self._statistics)
        self._good_checkpoint = str(path)
        with world.agreed():
            inputs = files_named(configuration.to_dict(self.config))
            self._directory.prune(self.config.run.keep_checkpoints, inputs)
        self._saved_s = time.monotonic()
        return path

    def _advised(self, error: CommunicationError) -> CommunicationError:
        """Add to the error of a comparison of ranks which checkpoint is still good."""
        good = self._good_checkpoint
        advice = f"the checkpoint before is good: {good}" if good else "there is no checkpoint yet"
        advised = CommunicationError(f"{error}; {advice}")
        advised.agreed = error.agreed
        return advised

    def validate(self) -> Record:
        """Validate the network on the held-out data; return the scores, and record them in the log. Collective.

        docs/algorithms.md describes the scores.

        Raises:
            ConfigurationError: If there is no held-out data.
        """
        if not self._task.validates:
            raise ConfigurationError(
                "validate: the configuration holds nothing out, expected a [validation] section that does"
            )
        with self._activity("validation"):
            scores = self._task.validate(self.result)
            record = {"kind": "validation", "step": self.steps_done, **scores}
            after = self.config.validation.give_up_after
            hopeless = 0 < after <= self.steps_done and not self._task.beats_trivial(scores)
            if self._given_up or (hopeless and not self.complete):
                # The next step is the last one. All ranks learn of it as of every stop, also in asynchronous training.
                self._given_up = self._stop = True
                record["given_up"] = True
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
        """Return the name of the signal that each rank has received, or an empty text. Collective."""
        return [name.decode() for name in world.allgather_bytes(self._signal.name.encode())]

    def _log_training(self, report: _core.StepReport) -> None:
        sums = self._trainer.take_metrics()
        now = time.monotonic()
        elapsed_s, self._logged_s = now - self._logged_s, now
        counts = {name: sums[name] for name in ("tp", "fp", "fn", "tn")}
        self._record(
            {
                "kind": "train",
                "step": self.steps_done,
                "loss": sums["loss_sum"] / max(sums["fovs"], 1),
                "lr": report.lr,
                "gradient_norm": report.gradient_norm,
                **self._noise(),
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

    def _noise(self) -> Record:
        """Return the gradient noise scale and its interval in examples; nothing if it is not known."""
        if self._trainer.noise_scale is None:
            return {}
        examples, low, high = self._trainer.noise_scale
        return {
            "noise_scale": examples,
            "noise_scale_low": low,
            "noise_scale_high": high if math.isfinite(high) else None,
        }

    def _record(self, record: Record) -> None:
        stamped = self._directory.record(record)
        if stamped is not None:
            for callback in self._callbacks:
                callback(self, stamped)


def _no_progress(_done: int, _total: int) -> None:
    """Show nothing."""


def check_on_lost_rank(section: CommConfig, communicator: world.Communicator) -> None:
    """Check that this job can do what `comm.on_lost_rank` says.

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
