# SPDX-License-Identifier: Apache-2.0
"""The steps of a job: the core's trainer on the ranks there are, with its log, checkpoints and validations."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from floodtide import _core, errors
from floodtide import config as configuration
from floodtide.base import notes
from floodtide.base.network_files import checkpoint_path
from floodtide.base.outputs import files_named
from floodtide.comm import world
from floodtide.config import Config
from floodtide.config.reader import require_same_task
from floodtide.config.sections import Corrections
from floodtide.optim import advice, lr
from floodtide.train import pace
from floodtide.train.learners.learner import Data, Model, Record
from floodtide.train.run_directory import RunDirectory, require_same_walkers
from floodtide.train.setup import Callback, Objects, set_up
from floodtide.train.signals import INTERRUPT, Requests


@dataclass(frozen=True, kw_only=True)
class Step:
    """Result of one step on this rank: its number, the mean loss over this rank's walkers, and the learning rate."""

    number: int
    loss: float
    lr: float


class StepLoop:
    """The steps of a job on the ranks of a communicator, from the newest checkpoint of the run directory on.

    Making one locks the run directory and begins its log. Collective.

    Args:
        config: The whole configuration.
        given: The network and the training data that it describes; None: build them.
        callbacks: Called on rank 0 as callback(trainer, record) with each record of the log.
    """

    # A misspelt name is an error, not a new attribute.
    __slots__ = (
        "__weakref__", "_average", "_callbacks", "_checkpoint", "_closed", "_comm", "_core",
        "_files", "_fit", "_interrupted", "_requests", "_setup", "_used", "_validated", "data",
        "given_up", "model", "stopped",
    )  # fmt: skip

    def __init__(
        self, config: Config, given: Objects | None, callbacks: Sequence[Callback]
    ) -> None:
        self._comm = world.current()
        self._setup = set_up(config, given, self._comm)
        self.model: Model = self._setup.learner.model
        self.data: Data = self._setup.learner.data
        self._average: Model | None = self.model.like() if config.training.average > 0 else None
        self.stopped = self.given_up = self._interrupted = self._closed = False
        self._callbacks = callbacks
        self._requests = Requests()
        self._used = threading.RLock()  # callbacks of its thread may use the trainer, too
        self._files = RunDirectory(Path(config.run.dir), writer=self._comm.rank == 0)
        self._core = self._new_core()  # a run that is refused here leaves no directory
        with world.agreed():
            self._files.take()
        try:
            self._begin()
        except BaseException:
            self._files.close()
            raise

    def _begin(self) -> None:
        # the newest one whose parameters all ranks had; "": none
        self._checkpoint: str = world.from_rank_0(self._files.newest_checkpoint)
        if self._checkpoint:
            with world.agreed():
                if self._comm.rank == 0:
                    require_same_walkers(self._files.path, self.data.walkers)
            self._resume(self._checkpoint)
            with world.agreed():
                self._resume_corrections()
        last: Record = world.from_rank_0(self._files.last_validation)
        self._validated: int = last.get("step", -1)
        self.given_up = bool(last.get("given_up")) and self._validated == self.steps_done
        self._start_log()
        self._record(self._start_record())
        for warning in self._setup.warnings:
            notes.warn(warning)
        rates = self._setup.optimizer, self._setup.schedule
        for trap in advice.traps(*rates, self.data.walkers, self.config.training.batch):
            notes.show(trap)
        self.stopped = self.complete or self.given_up

    def _resume(self, checkpoint: str) -> None:
        try:
            self._core.load(checkpoint)
        except errors.InvalidFileError as error:
            advised = errors.InvalidFileError(
                f"{error}: another network, optimizer or number of walkers needs another run.dir; if the file is"
                " damaged, move it away to resume from the checkpoint before it"
            )
            raise errors.on_all_ranks(advised, agreed=error.agreed) from None
        if checkpoint != str(checkpoint_path(self.directory, self.steps_done)):
            raise errors.on_all_ranks(
                errors.InvalidFileError(
                    f"{checkpoint}: holds step {self.steps_done}, expected the step that its name says:"
                    " it is damaged or was renamed"
                )
            )

    def _resume_corrections(self) -> None:
        """Take the corrections of the checkpoint, unless the configuration plans other steps."""
        given = self.config.training
        stored = require_same_task(self._checkpoint, self.config, "run.dir")
        same = stored is not None and stored.training.steps == given.steps
        done = stored.training.corrections if stored is not None and same else ()
        fewer, more = sorted((given.corrections, done), key=len)
        new = given.corrections[len(done) :]
        if more[: len(fewer)] != fewer or any(step < self.steps_done for step, _ in new):
            raise errors.ConfigurationError(
                f"training.corrections are not those of {self._checkpoint}, expected the same, or none"
            )
        self._take(more)

    def _take(self, corrections: Corrections) -> None:
        """Record corrections in the configuration. That of a complete run repeats its steps without a clock."""
        training = dataclasses.replace(self.config.training, corrections=corrections)
        run = self.config.run
        if self.config.fits_time and self.steps_done >= training.total:
            training = dataclasses.replace(training, fit_time=False)
            run = dataclasses.replace(run, stop_after_s=0.0)
        config = dataclasses.replace(self.config, run=run, training=training)
        self._setup = dataclasses.replace(self._setup, config=config)

    def _start_log(self) -> None:
        """Begin the log, and count times from now on. Collective."""
        with world.agreed():
            self._files.start(self.config, self.steps_done)
        run = self.config.run
        if run.trace:
            self._core.trace(str(self.directory / "traces" / f"rank-{self._comm.rank}.json"))
        self._requests.restart()
        left_s = run.stop_after_s - self._files.elapsed_s if self.config.fits_time else 0.0
        self._fit = pace.Fit(left_s, run.stop_after_s, self.steps_done)

    @property
    def config(self) -> Config:
        """The configuration as the run directory keeps it, with the corrections of the number of steps."""
        return self._setup.config

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._files.path

    @property
    def steps_done(self) -> int:
        """Number of training steps so far, including those before a resumed checkpoint."""
        return self._core.steps_done

    @property
    def complete(self) -> bool:
        """True if all steps are done (`config.training.total`). False after a `run` that time or a signal has ended."""
        return self.steps_done >= self.config.training.total

    @property
    def lr_share(self) -> float:
        """The rate of the next step as a share of the highest; 0 for a schedule that does not fall to an end."""
        schedule = self._setup.schedule
        highest = schedule(schedule.warmup_steps)
        if not lr.ends(schedule.name) or not highest:
            return 0.0
        return schedule(self._planned(self.steps_done)) / highest

    def _planned(self, step: int) -> float:
        return pace.planned_step(self.config.training, step)[0]

    @property
    def time_left_s(self) -> float | None:
        """Seconds until `run.stop_after_s` ends this run at the latest, by the clock of this rank; None: no limit."""
        limit_s = self.config.run.stop_after_s
        return max(0.0, self._requests.start_s + limit_s - time.monotonic()) if limit_s else None

    @property
    def result(self) -> Model:
        """The trained network: `model`, or with `training.average` a network with the averaged parameters."""
        if self._average is None:
            return self.model
        self._core.copy_average(self._average.core)
        return self._average

    @contextlib.contextmanager
    def _alone(self, method: str, *, opened: bool = False) -> Iterator[None]:
        """Raise an InUseError while another thread is in such a block, or an error if a trainer is not `opened`."""
        if not self._used.acquire(blocking=False):
            raise errors.InUseError(
                f"Trainer.{method}: another thread uses this trainer, expected one thread for each trainer"
            )
        try:
            if opened and self._closed:
                raise errors.InvalidArgumentError(
                    f"Trainer.{method}: {self.directory}: this trainer is closed, expected a new one, which resumes"
                )
            yield
        finally:
            self._used.release()

    def step(self) -> Step:
        """Run one training step: one field of view of every walker, then one change of the parameters. Collective.

        The step also writes the log and checkpoints when they are due. Your own loop iterates over the trainer instead,
        because the iterator watches for signals and ends on all ranks together. With `comm.mode`, ranks that do not
        wait for each other make different numbers of steps.
        """
        with self._alone("step", opened=True):
            # Rank 0's clock decides; the request travels with the gradients, so all ranks act after the same step.
            decides = self._comm.rank == 0
            requests = self._requests.bits(self.config.run, decides=decides)
            due = decides and self._corrects and self._fit.due(self.steps_done)
            if due:
                requests |= _core.REQUEST_LOG  # all ranks then ask rank 0 for a correction
            if self.config.training.corrections:
                planned = pace.planned_step(self.config.training, self.steps_done)
                self._core.set_pace(self.steps_done, *planned)
            try:
                report = self._core.step(requests)
            except Exception as error:
                self._core.record_failure(str(error))
                raise
            if report.requests & _core.REQUEST_RATE:
                factor = self._requests.agreed_rate_factor()
                if factor is not None:
                    self._core.rate_factor = factor
            self._after(report, due)
            return Step(number=report.step, loss=report.loss, lr=report.lr)

    @property
    def _corrects(self) -> bool:
        """True if the clock may correct the number of steps: after the last correction that was given."""
        given = self.config.training.corrections
        return self.config.fits_time and all(step < self.steps_done for step, _ in given)

    def _correct(self, due: bool) -> None:
        """Correct the number of steps if a correction is due on rank 0. Collective."""
        training, found = self.config.training, None
        if due:
            validations = 0
            if self._setup.learner.held_out is not None:
                validations = 1
                if every := self.config.validation.every:
                    done = int(self._planned(self.steps_done - 1) // every)
                    validations = -(-training.steps // every) - done
            found = self._fit.correction(self.steps_done, validations)
            planned_left = training.steps - self._planned(self.steps_done)
            if planned_left > pace.LARGEST * training.steps * (found["steps"] - self.steps_done):
                found = None  # the rate could not fall to its end
        record = world.broadcast_object(found)
        if record is None or record["steps"] == training.total:
            return
        self._take((*training.corrections, (self.steps_done, record["steps"])))
        with world.agreed():
            self._files.write_config(self.config)
        before = {"kind": "correction", "step": self.steps_done, "before": training.total}
        self._record(before | record)

    def _after(self, report: _core.StepReport, due: bool) -> None:
        """Do what is due after a step; `due`: a correction of the number of steps, by this rank's clock. Collective."""
        self.stopped = bool(report.requests & _core.REQUEST_STOP) or self.complete
        signals: list[bytes] = []
        if self.stopped and not self.complete:
            signals = world.current().allgather(self._requests.signal.encode())
        self._interrupted = INTERRUPT.encode() in signals
        if report.requests & _core.REQUEST_LOG or self.stopped:
            with self._activity("log"):
                self._core.flush_trace()
                record = self._train_record(report)
                if record[self.config.task.unit]:  # none is left if the walkers' data are used up
                    self._record(record)
            if self._corrects and not self.stopped:
                self._correct(due)
        if self.complete and self.config.fits_time:
            self._take(self.config.training.corrections)
            with world.agreed():
                self._files.write_config(self.config)
        if report.requests & _core.REQUEST_CHECKPOINT or self.stopped:
            self.save()
        every = self.config.validation.every
        before, done = self._planned(self.steps_done - 1), self._planned(self.steps_done)
        validates = self.stopped or (report.met and every > 0 and before // every < done // every)
        if self._setup.learner.held_out is not None and validates and not any(signals):
            self.validate()

    def save(self) -> Path:
        """Write a checkpoint and remove the oldest ones beyond `run.keep_checkpoints`. Collective.

        Raises:
            CommunicationError: On all ranks, if a rank holds other parameters than most ranks. Nothing is written then.
        """
        with self._alone("save"):
            path = checkpoint_path(self.directory, self.steps_done)
            with world.agreed():
                self._files.require_taken()
            try:
                self._core.check_replicas()
            except errors.CommunicationError as error:
                before = f"the checkpoint before is good: {self._checkpoint}"
                state = before if self._checkpoint else "there is no checkpoint yet"
                advised = errors.CommunicationError(f"{error}; {state}")
                raise errors.on_all_ranks(advised, agreed=error.agreed) from None
            with self._fit.timed("checkpoint"):
                self._core.save(str(path), str(self.config), self._setup.statistics)
            self._checkpoint = str(path)
            with world.agreed():
                inputs = files_named(configuration.to_dict(self.config))
                self._files.prune(self.config.run.keep_checkpoints, inputs)
            self._requests.saved_s = time.monotonic()
            return path

    def validate(self) -> Record:
        """Validate the network on the held-out data; return the scores, and record them in the log. Collective.

        docs/algorithms.md describes the scores.

        Raises:
            ConfigurationError: If there is no held-out data.
        """
        with self._alone("validate", opened=True):
            learner = self._setup.learner
            if learner.held_out is None:
                raise errors.ConfigurationError(
                    "validate: the configuration holds nothing out, expected a [validation] section that does"
                )
            with self._activity("validation"), self._fit.timed("validation"):
                scores = learner.validate(self.result)
                record = {"kind": "validation", "step": self.steps_done, **scores}
                after = self.config.validation.give_up_after
                hopeless = 0 < after <= self._planned(self.steps_done) and not (
                    self.config.task.beats_trivial(scores)
                )
                if self.given_up or (hopeless and not self.complete):
                    # The next step is the last one. All ranks learn of it as of every stop, also in mode partial.
                    self.given_up = self._requests.stop = True
                    record["given_up"] = True
                self._record(record)
            self._validated = self.steps_done
            return record

    def _check_begin(self) -> None:
        """Print a note if nothing is left to train, and validate if a kill came before the last validation. Collective.

        A complete run that was killed after its last checkpoint has no validation of its last step.
        """
        if self.stopped and self._comm.rank == 0:
            how = "was given up" if self.given_up else "is complete"
            more = f"--set training.steps={2 * self.steps_done}"
            if self.config.training.corrections:
                more += " and twice the run.stop_after_s, which training.fit_time has fitted the steps to"
            go_on = "" if self.given_up else f", or for twice as much training: {more}"
            notes.show(
                f"{self.directory}: the training {how} at step {self.steps_done}: nothing is trained; expected"
                f" another run.dir{go_on}"
            )
        unvalidated = self._setup.learner.held_out is not None and self._validated < self.steps_done
        if self.complete and unvalidated and not self._closed:
            self.validate()

    def _go_on(self) -> None:
        """Reopen what the end of an interrupted run has closed. Collective."""
        if not self._interrupted:
            return
        self.stopped = self.complete or self.given_up
        with world.agreed():
            self._files.take()
            own = str(checkpoint_path(self.directory, self.steps_done))
            if self._comm.rank == 0 and self._files.newest_checkpoint() != own:
                self._files.close()
                raise errors.LockedError(
                    f"{self.directory}: another run has written checkpoints here since this one stopped at step"
                    f" {self.steps_done}: make a new Trainer, which goes on from the newest checkpoint"
                )
        self._start_log()
        self._interrupted = self._closed = False

    def _steps(
        self, bar: contextlib.AbstractContextManager[Callable[[int, int], None]]
    ) -> Iterator[Step]:
        """Run one step per iteration until none follows or a signal comes, then close the log. Collective.

        Args:
            bar: Gives what is called as show(done, total) after each step.

        Raises:
            Interrupted: On all ranks, if Ctrl-C has ended the steps.
            KeyboardInterrupt: If Ctrl-C came too late for a step.
        """
        self._go_on()
        self._check_begin()
        with self._requests.watched(), bar as show:
            while not self.stopped:
                step = self.step()
                show(self.steps_done, self.config.training.total)
                yield step
            self.close()
        if self._interrupted:
            raise errors.Interrupted(
                f"training stopped at step {self.steps_done} of {self.config.training.total} with a checkpoint"
                f"{advice.cut_short(self.lr_share)}; Trainer.run goes on from there"
            )
        if self._requests.signal == INTERRUPT:
            self._requests.signal = ""
            raise KeyboardInterrupt

    def close(self) -> None:
        """Close log and events, and merge the traces of the ranks. A second call does nothing. Collective."""
        with self._alone("close"):
            if self._closed:
                return
            self._closed = True
            self._core.flush_trace()
            if self.config.run.trace:
                self._comm.barrier()  # all ranks' files are up to date
                with world.agreed():
                    self._files.merge_traces()
            self._files.close()

    @contextlib.contextmanager
    def _activity(self, name: str) -> Iterator[None]:
        """Show in traces, and to the watchdog, what this rank does between steps."""
        number = self._core.begin_activity(name)
        try:
            yield
        finally:
            self._core.end_activity(number)

    def _record(self, record: Record) -> None:
        if (stamped := self._files.record(record)) is not None:
            for callback in self._callbacks:
                callback(self, stamped)

    def _start_record(self) -> Record:
        walkers, batch = self.data.walkers, self.config.training.batch
        return {
            "kind": "start",
            "step": self.steps_done,
            "ranks": self._comm.size,
            "walkers": walkers,
            "threads": _core.num_threads(),
            "parameters": sum(array.size for array in self.model.state_dict().values()),
            "unit": self.config.task.unit,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "version": _core.__version__,
            "processor": _core.processor_name(),
            "cores": _core.available_cores(),
            "hosts": world.places()[3],
            "examples_per_epoch": len(self.data),
            "resumed_from": self._checkpoint,
            "transport": self._comm.description,
            "kernels": self.model.core.kernel_names(),
            "rate": advice.rate_used(self._setup.schedule, walkers, batch),
        }

    def _train_record(self, report: _core.StepReport) -> Record:
        """Return the record of the steps since the last one, of which `report` is the last. Collective."""
        sums, before_s = self._core.take_metrics(), self._requests.logged_s
        self._requests.logged_s = time.monotonic()
        elapsed_s = self._requests.logged_s - before_s
        unit, ranks = self.config.task.unit, self._comm.size
        noise: Record = {}
        if self._core.noise_scale is not None:
            examples, low, high = self._core.noise_scale
            noise = {
                "noise_scale": examples,
                "noise_scale_low": low,
                "noise_scale_high": high if math.isfinite(high) else None,
            }
        return {
            "kind": "train",
            "step": self.steps_done,
            "loss": sums["loss_sum"] / max(sums["fovs"], 1),
            "lr": report.lr,
            "lr_share": self.lr_share,
            "gradient_norm": report.gradient_norm,
            **noise,
            unit: sums["fovs"],
            "examples": sums["examples"],
            f"{unit}_per_s": sums["fovs"] / elapsed_s,
            "wait_data_s": sums["data_s"] / ranks,
            "compute_s": sums["compute_s"] / ranks,
            "wait_comm_s": sums["reduce_s"] / ranks,
            "update_s": sums["update_s"] / ranks,
            "dropped": sums["dropped"],
            "staleness": sums["staleness_sum"] / max(sums["fovs"] - sums["dropped"], 1),
            **{name: sums[name] for name in ("tp", "fp", "fn", "tn")},
        }

    def _new_core(self) -> _core.Trainer:
        """Return the core's trainer. With held-out data, the ranks meet for each validation. Collective."""
        config, options = self.config, _core.TrainerOptions()
        optimizer, schedule, comm = self._setup.optimizer, self._setup.schedule, config.comm
        for name in ("clip", "clip_norm", "average", "accumulate", "on_exhausted", "steps"):
            setattr(options, name, getattr(config.training, name))
        for name in ("algorithm", "exactness", "wire", "mode", "late", "timeout_s"):
            setattr(options, name, getattr(comm, name))
        validates = self._setup.learner.held_out is not None
        options.measure_noise = config.training.noise_scale
        options.meet_every = config.validation.every if validates else 0
        options.bucket_bytes = round(comm.bucket_mib * 2**20)
        options.contributors = comm.contributors or self._comm.size
        options.activity = world.activity(comm.timeout_s)
        options.record_path = str(self.directory / f"failure-rank-{self._comm.rank}.json")
        with world.agreed():
            walkers = self._setup.learner.new_walkers(self._comm)
        return _core.Trainer(
            walkers,
            self._comm,
            optimizer=optimizer.name,
            optimizer_values=optimizer.values,
            schedule=schedule.name,
            schedule_values=schedule.values,
            scale=schedule.scale,
            scale_values=schedule.scale_values,
            options=options,
        )
