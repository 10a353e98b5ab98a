# SPDX-License-Identifier: Apache-2.0
"""Training runs: a trainer drives the C++ step loop over a network and its data, and keeps the run directory."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from floodtide import nn
from floodtide.base import limits
from floodtide.base.pickling import NotPickled
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config import CommConfig, Config, RunConfig, TrainingConfig
from floodtide.errors import CommunicationError, InvalidArgumentError, StorageError
from floodtide.nn.losses import loss_of
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.comm_hook import CommHook, CoreHook, adapted
from floodtide.train.described import configuration_of
from floodtide.train.kinds import Data, HeldOut, Model, Parts
from floodtide.train.setup import set_up
from floodtide.train.signals import Requests
from floodtide.train.step_loop import KINDS, Setup, Step, StepLoop
from floodtide.train.task import Record

Callback = Callable[["Trainer", Record], None]


class Trainer(NotPickled):
    """A training run under MPI or alone. All ranks construct it and call its methods in the same order (collective).

    Build it from objects in a script, or from a configuration file with `from_config`:

        model = ft.nn.FFN(depth=9)
        data = ft.data.Shards("cube.h5:raw", "cube.h5:labels", "cube.h5:partitions",
                              patch_size=model.patch_size, walkers=ft.size())
        trainer = ft.train.Trainer(model=model, data=data, optimizer=ft.optim.Adam(lr=1e-3),
                                   schedule=ft.optim.lr.Warmup(warmup_steps=100, scale="sqrt"),
                                   directory="runs/cube", steps=10_000)
        with trainer:
            for step in trainer:
                print(step.number, step.loss)

    `run` trains to the end without a loop. The run resumes from the newest checkpoint of its directory, whatever the
    number of ranks that wrote the checkpoint. The directory's config.toml describes the same training for
    `floodtide train`.

    Args:
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
        "_callbacks",
        "_hook",
        "_job",
        "_loop",
        "_progress",
        "_requests",
        "_start_state",
        "config",
        "data",
        "model",
    )

    def __init__(
        self,
        *,
        model: Model,
        data: Data,
        optimizer: Optimizer,
        directory: str | os.PathLike[str],
        steps: int,
        schedule: Schedule | None = None,
        loss: str | nn.SegmentationLoss = "dice+cross_entropy",
        validation: HeldOut | None = None,
        validate_every: int = 0,
        training: TrainingConfig | None = None,
        run: RunConfig | None = None,
        communication: CommConfig | None = None,
        comm: Any = None,
        callbacks: Sequence[Callback] = (),
        progress: bool = False,
    ) -> None:
        world.ensure_init(comm)
        with world.agreed():
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
        self._start(described, parts, callbacks, progress)

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
        world.ensure_init(comm)
        trainer = cls.__new__(cls)
        trainer._start(config, None, callbacks, progress)
        return trainer

    def _start(
        self, config: Config, parts: Parts | None, callbacks: Sequence[Callback], progress: bool
    ) -> None:
        comm = world.current()
        setup = set_up(config, parts, comm)
        self._callbacks, self._progress = tuple(callbacks), progress
        self.config = setup.config
        self.model: Model = setup.parts.model
        self.data: Data = setup.parts.data
        shrinks = config.comm.on_lost_rank == "shrink" and comm.size > 1
        self._start_state = self.model.state_dict() if shrinks else None
        self._hook: CoreHook | None = None
        self._requests = Requests()
        self._job = str(world.broadcast_object(os.urandom(8).hex()))
        self._loop = self._new_loop(setup, comm)
        self._loop.begin(self._hook)

    def _new_loop(self, setup: Setup, comm: world.Communicator) -> StepLoop:
        this = weakref.ref(
            self
        )  # a cycle would keep the core's trainer, and its watchdog, after the last use

        def call_back(record: Record) -> None:
            if trainer := this():
                for callback in trainer._callbacks:
                    callback(trainer, record)

        return StepLoop(setup, comm, self._job, self._requests, call_back)

    @property
    def steps_done(self) -> int:
        """Number of optimizer updates so far, including those before a resumed checkpoint."""
        return self._loop.steps_done

    @property
    def complete(self) -> bool:
        """True if all of `training.steps` are done. False after a `run` that time or a signal has ended."""
        return self._loop.complete

    @property
    def time_left_s(self) -> float | None:
        """Seconds until `run.stop_after_s` ends this run at the latest, by the clock of this rank; None: no limit."""
        return self._requests.time_left_s(self.config.run)

    @property
    def given_up(self) -> bool:
        """True if the training ended early because of `validation.give_up_after`. It does not go on."""
        return self._loop.given_up

    @property
    def stopped(self) -> bool:
        """True if no step follows: all steps are done, or time, a signal or the end of the shards stopped the run.

        The value is the same on all ranks.
        """
        return self._loop.stopped

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._loop.directory.path

    @property
    def result(self) -> Model:
        """The trained network: `model`, or with `training.average` a network with the averaged parameters."""
        return self._loop.result

    def step(self) -> Step:
        """Run one training step: one field of view of every walker, then one update. Collective.

        The step also writes the log and checkpoints when they are due. In your own loop, iterate over the trainer
        instead, because the iterator also watches for signals. Ranks that do not wait for each other (`comm.mode`)
        make different numbers of steps. Iterating ends on all of them together; a fixed number of calls does not.
        """
        return self._loop.step()

    def __iter__(self) -> Iterator[Step]:
        """Run one step per iteration until the training is complete or stopped. Collective.

        A signal ends the loop as it ends `run`. If you leave the loop early, the log stays open: call `close`, or use
        a `with` block.
        """
        self._loop.say_if_nothing_is_left()
        self._loop.validate_after_a_kill()
        with self.watching_signals(), self._bar() as show:
            yield from self._loop.steps(show)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close log and events. After an exception, do this without the other ranks: they may have had none."""
        if kind is None:
            self.close()
        else:
            self._loop.directory.close()

    def stop(self) -> None:
        """Ask all ranks to end the training after the next step, with a checkpoint. For callbacks and loops.

        Any rank may call it. `complete` stays false, and a later trainer of the same run directory goes on.
        """
        self._requests.stop = True

    def scale_lr(self, factor: float) -> None:
        """Ask all ranks to multiply the schedule's rate by `factor` after the next step. For callbacks and loops.

        The factor replaces the factor before. It is 1 at the start, and checkpoints keep it. Any rank may call this. If
        several ranks call this before the same step, the factor of the lowest rank holds.

        Raises:
            InvalidArgumentError: If the factor is not above 0 and at most 1e6.
        """
        limits.RATE_FACTOR.check(factor, "scale_lr: factor")
        self._requests.rate_factor = float(factor)

    @property
    def lr_factor(self) -> float:
        """Factor that multiplies the schedule's rate; see `scale_lr`."""
        return self._loop.core.rate_factor

    def add_record(self, kind: str, values: Record) -> None:
        """Add a record of your own to log.jsonl and the TensorBoard events, with the step and the time.

        Ranks other than 0 do nothing. The trainer does not pass the record to callbacks, so callbacks may call this.

        Args:
            kind: Name of the kind of record. The names of its TensorBoard events begin with it.
            values: Values that JSON can hold, by name.

        Raises:
            InvalidArgumentError: For a kind that the trainer writes itself, or names that every record has.
        """
        if kind in KINDS or not kind:
            raise InvalidArgumentError(
                f"add_record: kind is '{kind}', expected a name other than {', '.join(KINDS)}"
            )
        taken = sorted({"kind", "step", "time_s"} & values.keys())
        if taken:
            raise InvalidArgumentError(
                f"add_record: '{taken[0]}' is part of every record, expected another name"
            )
        self._loop.directory.record({"kind": kind, "step": self.steps_done, **values})

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Train until `training.steps` or `run.stop_after_s`. Collective.

        Args:
            progress: Called as progress(done, total) after each step.

        When SIGTERM or SIGUSR1 comes to any rank, all ranks stop after the step that they are in, save a checkpoint,
        leave out the validation at the end, and return. Ctrl-C does the same, and then raises Interrupted, a
        KeyboardInterrupt; another call of `run` goes on. A second Ctrl-C raises KeyboardInterrupt at once.

        With `comm.on_lost_rank = "shrink"` the ranks that are left when one is lost go on from the newest checkpoint.
        """
        self._loop.go_on()
        self._loop.say_if_nothing_is_left()
        self._loop.validate_after_a_kill()
        with self.watching_signals(), self._bar() as show:
            _train(self._loop, progress or show, self._begin_again)

    def _begin_again(self, comm: world.Communicator) -> StepLoop:
        """Begin on the ranks that are left, from the newest checkpoint. Collective."""
        setup = self._loop.setup
        self._loop.end()
        world.replace(comm)
        with contextlib.suppress(StorageError):  # what is lost here is written again
            self._loop.directory.close()
        assert self._start_state is not None  # kept for jobs that shrink
        self.model.load_state_dict(self._start_state)  # if there is no checkpoint yet
        self._loop = self._new_loop(setup, comm)
        self._loop.begin(self._hook)
        return self._loop

    def _bar(self) -> contextlib.AbstractContextManager[Callable[[int, int], None]]:
        """Return the progress display, or one that shows nothing."""
        if not self._progress:
            return contextlib.nullcontext(lambda _done, _total: None)
        return bar("steps", "train", at_most_s=lambda: self.time_left_s)

    @contextlib.contextmanager
    def watching_signals(self) -> Iterator[None]:
        """Inside the block, let SIGTERM, SIGUSR1 and Ctrl-C stop the training.

        After the first signal, the next `step` is the last one on all ranks, and saves a checkpoint. A second signal
        has its usual effect. `run` and iterating do this themselves. Only the main thread watches for signals.

        Raises:
            Interrupted: At the end of the block, on all ranks, if Ctrl-C has ended the training.
        """
        with self._requests.signal.watched():
            yield
        self._loop.raise_if_interrupted()

    def close(self) -> None:
        """Close log and events, and merge the traces of the ranks. `run` does this at its end. Collective.

        A second call does nothing.
        """
        self._loop.close()

    def save(self) -> Path:
        """Write a checkpoint and remove the oldest ones beyond `run.keep_checkpoints`. Collective.

        Raises:
            CommunicationError: On all ranks, if a rank holds other parameters than most ranks. Nothing is written then.
        """
        return self._loop.save()

    def validate(self) -> Record:
        """Validate the network on the held-out data; return the scores, and record them in the log. Collective.

        docs/algorithms.md describes the scores.

        Raises:
            ConfigurationError: If there is no held-out data.
        """
        return self._loop.validate()

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
            self._loop.core.set_bucket_hook(None)
            return
        self._hook = adapted(hook, state, list(self.model.state_dict()))
        self._loop.core.set_bucket_hook(self._hook)

    def take_metrics(self) -> dict[str, float]:
        """Return counts and sums over ranks since the last call or the last record of the log. Collective.

        The names are those of floodtide::train::Metrics.
        """
        return self._loop.core.take_metrics()


def _train(
    loop: StepLoop,
    show: Callable[[int, int], None],
    begin_again: Callable[[world.Communicator], StepLoop],
) -> None:
    """Run the steps of a loop. With `comm.on_lost_rank = "shrink"`, go on with the ranks that are left. Collective.

    Args:
        loop: The loop.
        show: Called as show(done, total) after each step.
        begin_again: Returns a loop on the ranks that are left, which has begun from the newest checkpoint.

    Raises:
        CommunicationError: If ranks cannot go on although none is lost.
    """
    comm = loop.comm
    if loop.setup.config.comm.on_lost_rank != "shrink" or comm.size == 1:
        _run(loop, show)
        return
    shrunk = False  # whether `comm` is a new communicator, with which nothing has begun
    while True:
        failure = None
        try:
            if shrunk:
                loop = begin_again(comm)
                loop.validate_after_a_kill()
            _run(loop, show)
        except CommunicationError as error:
            failure = error
        rest = comm.settle(failure is None)
        if rest is None:
            return
        if rest.size == comm.size:
            raise failure or CommunicationError("train: another rank could not go on")
        comm, shrunk = rest, True


def _run(loop: StepLoop, show: Callable[[int, int], None]) -> None:
    for _ in loop.steps(show):
        pass
