# SPDX-License-Identifier: Apache-2.0
"""Training runs: `Trainer` is what scripts use of the step loop and of the log."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from floodtide.base.pickling import NotPickled
from floodtide.base.progress import bar
from floodtide.base.typed import typed
from floodtide.comm import world
from floodtide.config import Config
from floodtide.config.sections import ValidationConfig
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.learners.learner import Data, Model, Record
from floodtide.train.setup import Callback, MoreOptions, Objects, configuration_of, set_up
from floodtide.train.signals import Requests
from floodtide.train.steering import Steering
from floodtide.train.step_loop import Step, StepLoop


class Trainer(Steering, NotPickled):
    """A training run on the ranks of a job, or on one rank.

    All ranks make the trainer and call its methods in the same order, because the methods communicate (collective).
    `from_config` makes a trainer from a configuration file. A script makes one from objects:

        model = ft.nn.FFN(depth=9)
        volume = ft.data.TrainingVolume("cube.h5:raw", "cube.h5:labels", "cube.h5:partitions")
        data = ft.data.Shards(volume, patch_size=model.patch_size, walkers=ft.size())
        trainer = ft.train.Trainer(
            model=model,
            data=data,
            optimizer=ft.optim.Adam(lr=1e-3),
            schedule=ft.optim.lr.Schedule("constant", warmup_steps=100, warmup_start="zero"),
            directory="runs/cube",
            steps=10_000,
        )
        with trainer:
            for step in trainer:
                print(step.number, step.loss)

    `run` trains to the end without a loop. If the run directory holds checkpoints, the training goes on from the
    newest one, whatever the number of ranks that wrote it. `floodtide train` reads the configuration that the trainer
    writes into the run directory, and trains the same.

    Args:
        model: The network to train. All ranks start from the parameters that the network has on rank 0.
        data: The training data: `Shards` for an FFN, `Patches` with a task for a U-Net. Their number
            of walkers is the global batch, which the trainer shares out over the ranks.
        optimizer: The update rule. The trainer starts with a new state, or with the state in the checkpoint.
        directory: The run directory. The trainer creates it if it is missing.
        steps: The number of training steps.
        schedule: The learning rate of each step, with warm-up and scaling with the number of walkers. If the schedule
            has no `base_lr`, the trainer takes the rate of the optimizer. If it has no `total_steps`, the trainer takes
            `steps`. None means the rate of the optimizer in every step.
        validation: What the training validates on, and how often: a box of one of the volumes, a share of the groups
            (then `data` are the others), or other volumes. None means no validation.
        options: Callbacks, progress, and the remaining options of a configuration file.

    Raises:
        floodtide.errors.Error: On every rank alike, for wrong input.
    """

    not_pickled = "it holds ranks and files; expected a new trainer, from its `config`"
    # A misspelt name is an error, not a new attribute.
    __slots__ = ("__weakref__", "_progress", "data", "model")

    @typed(world.agreed)
    def __init__(
        self,
        *,
        model: Model,
        data: Data,
        optimizer: Optimizer,
        directory: str | os.PathLike[str],
        steps: int,
        schedule: Schedule | None = None,
        validation: ValidationConfig | None = None,
        options: MoreOptions | None = None,
    ) -> None:
        world.ensure_init()
        more = options or MoreOptions()
        with world.agreed():
            described = configuration_of(
                model,
                data,
                optimizer,
                schedule or Schedule("constant"),
                more,
                dir=directory,
                steps=steps,
                validation=validation or ValidationConfig(),
            )
        self._start(described, (model, data), more.callbacks, more.progress)

    @classmethod
    def from_config(
        cls, config: Config, *, callbacks: Sequence[Callback] = (), progress: bool = False
    ) -> Trainer:
        """Return a trainer of the objects that a configuration describes. Collective.

        Args:
            config: The whole configuration, as `ft.config.load` reads it.
            callbacks, progress: As for `MoreOptions`.
        """
        world.ensure_init()
        trainer = cls.__new__(cls)
        trainer._start(config, None, callbacks, progress)
        return trainer

    def _start(
        self, config: Config, given: Objects | None, callbacks: Sequence[Callback], progress: bool
    ) -> None:
        setup = set_up(config, given, world.current())
        self._progress = progress
        self.model: Model = setup.model
        self.data: Data = setup.data
        self._requests = Requests()
        # A cycle would keep the core's trainer, and its watchdog, after the last use.
        this = weakref.ref(self)

        def call_back(record: Record) -> None:
            if trainer := this():
                for callback in callbacks:
                    callback(trainer, record)

        self._loop = StepLoop(setup, world.current(), self._requests, call_back)
        self._loop.begin()

    @property
    def config(self) -> Config:
        """The configuration as the run directory keeps it, with the corrections of the number of steps."""
        return self._loop.setup.config

    @property
    def lr_share(self) -> float:
        """The rate of the next step as a share of the highest; 0 for a schedule that does not fall to an end."""
        return self._loop.lr_share

    @property
    def steps_done(self) -> int:
        """Number of training steps so far, including those before a resumed checkpoint."""
        return self._loop.steps_done

    @property
    def complete(self) -> bool:
        """True if all steps are done (`config.training.total`). False after a `run` that time or a signal has ended."""
        return self._loop.complete

    @property
    def time_left_s(self) -> float | None:
        """Seconds until `run.stop_after_s` ends this run at the latest, by the clock of this rank; None: no limit."""
        return self._requests.time_left_s(self.config.run)

    @property
    def fitted_left_s(self) -> float | None:
        """Seconds until the end that `training.fit_time` fits the steps to, by the clock of rank 0; None: no end."""
        return self._loop.fitted_left_s

    @property
    def given_up(self) -> bool:
        """True if the training ended early because of `validation.give_up_after`. It does not go on."""
        return self._loop.given_up

    @property
    def stopped(self) -> bool:
        """True on all ranks if no step follows: all are done, or time, a signal or the end of the shards ended them."""
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
        """Run one training step: one field of view of every walker, then one change of the parameters. Collective.

        The step also writes the log and checkpoints when they are due. Your own loop iterates over the trainer instead,
        because the iterator watches for signals and ends on all ranks together. With `comm.mode`, ranks that do not
        wait for each other make different numbers of steps.
        """
        return self._loop.step()

    def __iter__(self) -> Iterator[Step]:
        """Run one step per iteration until the training is complete or stopped. A signal ends it as `run`. Collective.

        If you leave the loop early, the log stays open: call `close`, or use a `with` block.
        """
        self._loop.check_begin()
        with self.watching_signals(), self._bar() as show:
            yield from self._loop.steps(show)

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Train until `training.steps` or `run.stop_after_s`. Collective.

        Args:
            progress: Called as progress(done, total) after each step.

        When SIGTERM or SIGUSR1 comes to any rank, all ranks stop after the step that they are in, save a checkpoint,
        leave out the validation at the end, and return. Ctrl-C does the same, and then raises Interrupted, a
        KeyboardInterrupt; another call of `run` goes on. A second Ctrl-C raises KeyboardInterrupt at once.
        """
        self._loop.go_on()
        self._loop.check_begin()
        with self.watching_signals(), self._bar() as show:
            for _ in self._loop.steps(progress or show):
                pass

    def _bar(self) -> contextlib.AbstractContextManager[Callable[[int, int], None]]:
        if not self._progress:
            return contextlib.nullcontext(lambda _done, _total: None)
        return bar(
            "steps",
            "train",
            at_most_s=lambda: self.time_left_s,
            fitted_s=lambda: self.fitted_left_s,
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close log and events. After an exception, do this without the other ranks: they may have had none."""
        if kind is None:
            self.close()
        else:
            self._loop.directory.close()

    @contextlib.contextmanager
    def watching_signals(self) -> Iterator[None]:
        """Inside the block, let SIGTERM, SIGUSR1 and Ctrl-C stop the training.

        After the first signal, the next `step` is the last one on all ranks, and saves a checkpoint. A second signal
        has its usual effect. `run` and iterating do this themselves. Only the main thread watches for signals.

        Raises:
            Interrupted: At the end of the block, on all ranks, if Ctrl-C has ended the training.
        """
        with self._requests.watched():
            yield
        self._loop.raise_if_interrupted()

    def close(self) -> None:
        """Close log and events, and merge the traces of the ranks. A second call does nothing. Collective."""
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
