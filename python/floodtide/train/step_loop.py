# SPDX-License-Identifier: Apache-2.0
"""The steps of a job: the core's trainer on the ranks there are, with its log, checkpoints and validations."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from floodtide import _core, errors
from floodtide import config as configuration
from floodtide.base import notes
from floodtide.base.outputs import files_named
from floodtide.comm import world
from floodtide.config.sections import Corrections
from floodtide.config.stored import require_same_task
from floodtide.optim import advice, lr
from floodtide.train import pace
from floodtide.train.learners.learner import Model, Record, Setup
from floodtide.train.run_directory import RunDirectory, require_same_walkers
from floodtide.train.signals import INTERRUPT, Requests

KINDS = ("start", "train", "validation", "correction")
"""The kinds of the records that a step loop writes into log.jsonl."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Result of one step on this rank: its number, the mean loss over this rank's walkers, and the learning rate."""

    number: int
    loss: float
    lr: float


P = ParamSpec("P")
R = TypeVar("R")


def _by_one_thread(
    method: Callable[Concatenate[StepLoop, P], R],
) -> Callable[Concatenate[StepLoop, P], R]:
    """Return a method that raises an InUseError, and does nothing, while another thread is in such a method."""

    @functools.wraps(method)
    def alone(loop: StepLoop, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not loop._used.acquire(blocking=False):
            raise errors.InUseError(
                f"Trainer.{method.__name__}: another thread uses this trainer, expected one thread for each trainer"
            )
        try:
            return method(loop, *args, **kwargs)
        finally:
            loop._used.release()

    return alone


class StepLoop:
    """The steps of a job on the ranks of a communicator. `begin` starts them, from the newest checkpoint.

    Args:
        on_record: Called on rank 0 with each record of the log.

    Attributes:
        stopped: True if no step follows. The same on all ranks.
        given_up: True if `validation.give_up_after` has ended the training. The same on all ranks.
        interrupted: True if Ctrl-C on any rank has ended the steps. The same on all ranks.
        core: The core's trainer. It exists after `begin` has made it.
        checkpoint: The newest checkpoint whose parameters all ranks had; empty if there is none.
    """

    core: _core.Trainer

    def __init__(
        self,
        setup: Setup,
        comm: world.Communicator,
        requests: Requests,
        on_record: Callable[[Record], None],
    ) -> None:
        self.setup = setup
        self.comm = comm
        self.directory = RunDirectory(Path(setup.config.run.dir), writer=comm.rank == 0)
        self.stopped = self.given_up = self.interrupted = False
        self.checkpoint = ""
        self._requests = requests
        self._on_record = on_record
        self._closed = False
        self._used = threading.RLock()  # callbacks of its thread may use the trainer, too

    def begin(self) -> None:
        """Lock the run directory, resume from its newest checkpoint, and begin its log. Collective."""
        with world.agreed():
            self.directory.take()
        try:
            self._begin()
        except BaseException:
            self.directory.abandon()
            raise

    def _begin(self) -> None:
        self.core = self._new_core()
        self.checkpoint = world.from_rank_0(self.directory.newest_checkpoint)
        if self.checkpoint:
            with world.agreed():
                if self.comm.rank == 0:
                    require_same_walkers(self.directory.path, self.setup.data.walkers)
            self._resume(self.checkpoint)
            with world.agreed():
                self._resume_corrections()
        self.given_up = world.from_rank_0(lambda: self.directory.given_up(self.steps_done))
        self._start_log()
        self._record(self._start_record())
        self._print_warnings()
        self._restart_clocks()
        self.stopped = self.complete or self.given_up

    def _restart_clocks(self) -> None:
        self._requests.restart_clocks()
        run = self.setup.config.run
        left_s = run.stop_after_s - self.directory.elapsed_s
        self._fit = pace.Fit(left_s if self.setup.config.fits_time else 0.0, run.stop_after_s)

    def _resume_corrections(self) -> None:
        """Take the corrections of the checkpoint, unless the configuration plans other steps."""
        given = self.setup.config.training
        stored = require_same_task(self.checkpoint, self.setup.config, "run.dir")
        same = stored is not None and stored.training.steps == given.steps
        done = stored.training.corrections if stored is not None and same else ()
        fewer, more = sorted((given.corrections, done), key=len)
        new = given.corrections[len(done) :]
        if more[: len(fewer)] != fewer or any(step < self.steps_done for step, _ in new):
            raise errors.ConfigurationError(
                f"training.corrections are not those of {self.checkpoint}, expected the same, or none"
            )
        self._take(more)

    def _take(self, corrections: Corrections) -> None:
        """Record corrections in the configuration. That of a complete run repeats its steps without a clock."""
        config, run = self.setup.config, self.setup.config.run
        training = dataclasses.replace(config.training, corrections=corrections)
        if config.fits_time and self.steps_done >= training.total:
            training = dataclasses.replace(training, fit_time=False)
            run = dataclasses.replace(run, stop_after_s=0.0)
        config = dataclasses.replace(config, run=run, training=training)
        self.setup = dataclasses.replace(self.setup, config=config)

    def _new_core(self) -> _core.Trainer:
        optimizer, schedule = self.setup.optimizer, self.setup.schedule
        with world.agreed():
            walkers = self.setup.learner.new_walkers(self.comm)
        return _core.Trainer(
            walkers,
            self.comm,
            optimizer=optimizer.name,
            optimizer_values=optimizer.values,
            schedule=schedule.name,
            schedule_values=schedule.values,
            scale=schedule.scale,
            scale_values=schedule.scale_values,
            options=self._engine_options(),
        )

    def _start_log(self) -> None:
        config = self.setup.config
        with world.agreed():
            self.directory.start(config, self.steps_done)
        if config.run.trace:
            self.core.trace(str(self.directory.trace_path(self.comm.rank)))

    def _resume(self, checkpoint: str) -> None:
        try:
            self.core.load(checkpoint)
        except errors.InvalidFileError as error:
            advised = errors.InvalidFileError(f"{error}{self.directory.advice(checkpoint)}")
            raise errors.on_all_ranks(advised, agreed=error.agreed) from None
        if checkpoint != str(self.directory.checkpoint_path(self.steps_done)):
            raise errors.on_all_ranks(
                errors.InvalidFileError(
                    f"{checkpoint}: holds step {self.steps_done}, expected the step that its name says:"
                    " it is damaged or was renamed"
                )
            )

    @property
    def steps_done(self) -> int:
        """Number of training steps so far, including those before a resumed checkpoint."""
        return self.core.steps_done

    @property
    def complete(self) -> bool:
        """True if all steps are done: `training.steps`, or those of the last correction."""
        return self.steps_done >= self.setup.config.training.total

    @property
    def lr_share(self) -> float:
        """The rate of the next step as a share of the highest; 0 for a schedule that does not fall to an end."""
        schedule = self.setup.schedule
        highest = schedule(schedule.warmup_steps)
        if not lr.ends(schedule.name) or not highest:
            return 0.0
        return schedule(pace.planned_step(self.setup.config.training, self.steps_done)[0]) / highest

    @property
    def fitted_left_s(self) -> float | None:
        """Seconds until the end that `training.fit_time` fits the steps to, by the clock of this rank; None: no end."""
        return self._fit.left_s

    @property
    def result(self) -> Model:
        """The trained network, with the averaged parameters if there are any."""
        if self.setup.average is None:
            return self.setup.model
        self.core.copy_average(self.setup.average.core)
        return self.setup.average

    @_by_one_thread
    def step(self) -> Step:
        """Run one training step, then write records and checkpoints that are due, and validate. Collective."""
        self._require_open("step")
        # Rank 0's clock decides; the request travels with the gradients, so all ranks act after the same step.
        training = self.setup.config.training
        requests = self._requests.bits(self.setup.config.run, decides=self.comm.rank == 0)
        due = self.comm.rank == 0 and self._corrects and self._fit.due(self.steps_done)
        if due:
            requests |= _core.REQUEST_LOG  # all ranks then ask rank 0 for a correction
        if training.corrections:
            self.core.set_pace(self.steps_done, *pace.planned_step(training, self.steps_done))
        try:
            report = self.core.step(requests)
        except Exception as error:
            self.core.record_failure(str(error))
            raise
        if report.requests & _core.REQUEST_RATE:
            factor = self._requests.agreed_rate_factor()
            if factor is not None:
                self.core.rate_factor = factor
        self._after(report, due)
        return Step(number=report.step, loss=report.loss, lr=report.lr)

    @property
    def _corrects(self) -> bool:
        """True if the clock may correct the number of steps: after the last correction that was given."""
        config = self.setup.config
        return config.fits_time and all(n < self.steps_done for n, _ in config.training.corrections)

    def _correct(self, due: bool) -> None:
        """Correct the number of steps if a correction is due on rank 0. Collective."""
        training, found = self.setup.config.training, None
        if due:
            every = self.setup.config.validation.every
            left = pace.validations_left(training, self.steps_done, every)
            found = self._fit.correction(
                self.steps_done, left if self.setup.learner.held_out is not None else 0
            )
            planned_left = training.steps - pace.planned_step(training, self.steps_done)[0]
            if planned_left > pace.LARGEST * training.steps * (found["steps"] - self.steps_done):
                found = None  # the rate could not fall to its end
        record = world.broadcast_object(found)
        if record is None or record["steps"] == training.total:
            return
        self._take((*training.corrections, (self.steps_done, record["steps"])))
        with world.agreed():
            self.directory.write_config(self.setup.config)
        before = {"kind": "correction", "step": self.steps_done, "before": training.total}
        self._record(before | record)

    def _after(self, report: _core.StepReport, due: bool) -> None:
        """Do what is due after a step. Collective.

        Args:
            due: A correction of the number of steps is due, by the clock of this rank.
        """
        self.stopped = bool(report.requests & _core.REQUEST_STOP) or self.complete
        signals = self._requests.signals() if self.stopped and not self.complete else []
        self.interrupted = INTERRUPT in signals
        if report.requests & _core.REQUEST_LOG or self.stopped:
            with self._activity("log"):
                self.core.flush_trace()
                self._record(self._train_record(report))
            if self._corrects and not self.stopped:
                self._correct(due)
        config = self.setup.config
        if self.complete and config.fits_time:
            self._take(config.training.corrections)
            with world.agreed():
                self.directory.write_config(self.setup.config)
        if report.requests & _core.REQUEST_CHECKPOINT or self.stopped:
            self.save()
        every = config.validation.every
        before, done = (pace.planned_step(config.training, self.steps_done - n)[0] for n in (1, 0))
        validates = self.stopped or (report.met and every > 0 and before // every < done // every)
        if self.setup.learner.held_out is not None and validates and not any(signals):
            self.validate()

    def steps(self, show: Callable[[int, int], None]) -> Iterator[Step]:
        """Run one step per iteration until none follows, then close the log. Collective.

        Args:
            show: Called as show(done, total) after each step.
        """
        while not self.stopped:
            step = self.step()
            show(self.steps_done, self.setup.config.training.total)
            yield step
        self.close()

    @_by_one_thread
    def save(self) -> Path:
        """Write a checkpoint and remove the oldest ones beyond `run.keep_checkpoints`. Collective."""
        config = self.setup.config
        path = self.directory.checkpoint_path(self.steps_done)
        with world.agreed():
            self.directory.require_taken()
        try:
            self.core.check_replicas()
        except errors.CommunicationError as error:
            before = f"the checkpoint before is good: {self.checkpoint}"
            state = before if self.checkpoint else "there is no checkpoint yet"
            advised = errors.CommunicationError(f"{error}; {state}")
            raise errors.on_all_ranks(advised, agreed=error.agreed) from None
        with self._fit.timed("checkpoint"):
            self.core.save(str(path), str(config), self.setup.statistics)
        self.checkpoint = str(path)
        with world.agreed():
            inputs = files_named(configuration.to_dict(config))
            self.directory.prune(config.run.keep_checkpoints, inputs)
        self._requests.saved()
        return path

    @_by_one_thread
    def validate(self) -> Record:
        """Validate the network on the held-out data; return the scores, and record them in the log. Collective."""
        self._require_open("validate")
        learner = self.setup.learner
        if learner.held_out is None:
            raise errors.ConfigurationError(
                "validate: the configuration holds nothing out, expected a [validation] section that does"
            )
        with self._activity("validation"), self._fit.timed("validation"):
            scores = learner.validate(self.result)
            record = {"kind": "validation", "step": self.steps_done, **scores}
            after = self.setup.config.validation.give_up_after
            task = self.setup.config.task
            done = pace.planned_step(self.setup.config.training, self.steps_done)[0]
            hopeless = 0 < after <= done and not task.beats_trivial(scores)
            if self.given_up or (hopeless and not self.complete):
                # The next step is the last one. All ranks learn of it as of every stop, also in mode partial.
                self.given_up = self._requests.stop = True
                record["given_up"] = True
            self._record(record)
        return record

    def check_begin(self) -> None:
        """Print a note if nothing is left to train, and validate if a kill came before the last validation. Collective.

        A complete run that was killed after its last checkpoint has no validation of its last step.
        """
        if self.stopped and self.comm.rank == 0:
            how = "was given up" if self.given_up else "is complete"
            more = f"--set training.steps={2 * self.steps_done}"
            if self.setup.config.training.corrections:
                more += " and twice the run.stop_after_s, which training.fit_time has fitted the steps to"
            go_on = "" if self.given_up else f", or for twice as much training: {more}"
            notes.show(
                f"{self.directory.path}: the training {how} at step {self.steps_done}: nothing is trained; expected"
                f" another run.dir{go_on}"
            )
        if not self.complete or self.setup.learner.held_out is None or self._closed:
            return
        if world.from_rank_0(lambda: self.directory.lacks_validation(self.steps_done)):
            self.validate()

    def go_on(self) -> None:
        """Reopen what the end of an interrupted run has closed. Collective."""
        if not self.interrupted:
            return
        self._requests.restart()
        self.stopped = self.complete or self.given_up
        with world.agreed():
            self.directory.take_again(self.steps_done)
        self._start_log()
        self._restart_clocks()
        self.interrupted = self._closed = False

    def raise_if_interrupted(self) -> None:
        """End a block that has watched for signals. Collective.

        Raises:
            Interrupted: On all ranks, if Ctrl-C has ended the steps.
            KeyboardInterrupt: If Ctrl-C came too late for a step.
        """
        if self.interrupted:
            self.close()
            raise errors.Interrupted(
                f"training stopped at step {self.steps_done} of {self.setup.config.training.total} with a checkpoint"
                f"{advice.cut_short(self.lr_share)}; Trainer.run goes on from there"
            )
        if self._requests.signal == INTERRUPT:
            self._requests.signal = ""
            raise KeyboardInterrupt

    def _require_open(self, work: str) -> None:
        if self._closed:
            raise errors.InvalidArgumentError(
                f"Trainer.{work}: {self.directory.path}: this trainer is closed, expected a new one, which resumes"
            )

    @_by_one_thread
    def close(self) -> None:
        """Close log and events, and merge the traces of the ranks. A second call does nothing. Collective."""
        if self._closed:
            return
        self._closed = True
        self.core.flush_trace()
        if self.setup.config.run.trace:
            self.comm.barrier()  # all ranks' files are up to date
            with world.agreed():
                self.directory.merge_traces()
        self.directory.close()

    @contextlib.contextmanager
    def _activity(self, name: str) -> Iterator[None]:
        """Show in traces, and to the watchdog, what this rank does between steps."""
        number = self.core.begin_activity(name)
        try:
            yield
        finally:
            self.core.end_activity(number)

    def _record(self, record: Record) -> None:
        if (stamped := self.directory.record(record)) is not None:
            self._on_record(stamped)

    def _start_record(self) -> Record:
        setup = self.setup
        walkers, batch = setup.data.walkers, setup.config.training.batch
        return {
            "kind": "start",
            "step": self.steps_done,
            "ranks": self.comm.size,
            "walkers": walkers,
            "threads": _core.num_threads(),
            "parameters": sum(array.size for array in setup.model.state_dict().values()),
            "unit": setup.config.task.unit,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "version": _core.__version__,
            "processor": _core.processor_name(),
            "cores": _core.available_cores(),
            "hosts": world.places()[3],
            "examples_per_epoch": len(setup.data),
            "resumed_from": self.checkpoint,
            "transport": self.comm.description,
            "kernels": setup.model.core.kernel_names(),
            "rate": advice.rate_used(setup.schedule, walkers, batch),
        }

    def _print_warnings(self) -> None:
        """Print what the checks of the data have found, and what the learning rate is bad for."""
        for warning in self.setup.warnings:
            notes.warn(warning)
        for trap in advice.traps(
            self.setup.optimizer,
            self.setup.schedule,
            self.setup.data.walkers,
            self.setup.config.training.batch,
            statistics=getattr(self.setup.config.model, "batch_norm", False),
        ):
            notes.show(trap)

    def _train_record(self, report: _core.StepReport) -> Record:
        """Return the record of the steps since the last one, of which `report` is the last. Collective."""
        sums, elapsed_s = self.core.take_metrics(), self._requests.logged()
        unit, ranks = self.setup.config.task.unit, self.comm.size
        noise: Record = {}
        if self.core.noise_scale is not None:
            examples, low, high = self.core.noise_scale
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

    def _engine_options(self) -> _core.TrainerOptions:
        """Return the options of the core's trainer. Collective.

        With held-out data, the ranks meet for each validation.
        """
        config, options = self.setup.config, _core.TrainerOptions()
        training, section = config.training, config.comm
        for name in ("clip", "clip_norm", "average", "accumulate", "on_exhausted", "steps"):
            setattr(options, name, getattr(training, name))
        for name in ("algorithm", "exactness", "wire", "mode", "late", "timeout_s"):
            setattr(options, name, getattr(section, name))
        validates = self.setup.learner.held_out is not None
        options.measure_noise = training.noise_scale
        options.meet_every = config.validation.every if validates else 0
        options.bucket_bytes = round(section.bucket_mib * 2**20)
        options.contributors = section.contributors or self.comm.size
        options.activity = world.activity(section.timeout_s)
        options.record_path = str(self.directory.failure_path(self.comm.rank))
        return options
