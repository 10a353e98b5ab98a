# SPDX-License-Identifier: Apache-2.0
"""Training runs: `Trainer` makes the objects of a training, or takes objects that a script made, and runs the steps."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.options import typed
from floodtide.base.pickling import NotPickled
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config import Config
from floodtide.config.sections import ValidationConfig
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.learners.learner import Data, Model
from floodtide.train.setup import Callback, MoreOptions, configuration_of
from floodtide.train.step_loop import Step, StepLoop


@dataclass(frozen=True)
class GradBucket:
    """A bucket: neighbouring gradients that are summed over the ranks in one allreduce.

    Attributes:
        index: Index of the bucket in the step, from 0, in the order in which the buckets are sent.
        buffer: The gradients, float32 (n,). The hook changes them in place. The array shows the trainer's memory, which
            the next step overwrites: a hook that keeps gradients keeps a copy of the array.
        parameters: Names of the parameters in the bucket, in the order of the buffer. The last bucket also holds the
            requests of the ranks, such as "save a checkpoint", under the name "flags".
        is_last: True for the last bucket of the step.
    """

    index: int
    buffer: NDArray[np.float32]
    parameters: tuple[str, ...]
    is_last: bool


class Trainer(StepLoop, NotPickled):
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

    Attributes:
        model: The network that is trained.
        data: The training data.
        stopped: True on all ranks if no step follows: all are done, or time, a signal or the end of the shards ended
            them.
        given_up: True if the training ended early because of `validation.give_up_after`. It does not go on.

    Raises:
        floodtide.errors.Error: On every rank alike, for wrong input.
    """

    not_pickled = "it holds ranks and files; expected a new trainer, from its `config`"
    __slots__ = ("_progress",)

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
        world.current()
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
        self._progress = more.progress
        super().__init__(described, (model, data), more.callbacks)

    @classmethod
    def from_config(
        cls, config: Config, *, callbacks: Sequence[Callback] = (), progress: bool = False
    ) -> Trainer:
        """Return a trainer of the objects that a configuration describes. Collective.

        Args:
            config: The whole configuration, as `ft.config.load` reads it.
            callbacks, progress: As for `MoreOptions`.
        """
        world.current()
        trainer = cls.__new__(cls)
        trainer._progress = progress
        StepLoop.__init__(trainer, config, None, callbacks)
        return trainer

    def __iter__(self) -> Iterator[Step]:
        """Run one step per iteration until the training is complete or stopped. A signal ends it as `run`. Collective.

        If you leave the loop early, the log stays open: call `close`, or use a `with` block.
        """
        return self._steps(self._bar())

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Train until `training.steps` or `run.stop_after_s`. Collective.

        Args:
            progress: Called as progress(done, total) after each step.

        When SIGTERM or SIGUSR1 comes to any rank, all ranks stop after the step that they are in, save a checkpoint,
        leave out the validation at the end, and return. Ctrl-C does the same, and then raises Interrupted, a
        KeyboardInterrupt; another call of `run` goes on. A second Ctrl-C raises KeyboardInterrupt at once.
        """
        for _ in self._steps(contextlib.nullcontext(progress) if progress else self._bar()):
            pass

    def _bar(self) -> contextlib.AbstractContextManager[Callable[[int, int], None]]:
        if not self._progress:
            return contextlib.nullcontext(lambda _done, _total: None)
        return bar(
            "steps", "train", at_most_s=lambda: self.time_left_s, fitted_s=lambda: self._fit.left_s
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close log and events. After an exception, do this without the other ranks: they may have had none."""
        if kind is None:
            self.close()
        else:
            self._files.close()

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
        return self._core.rate_factor

    def register_comm_hook(
        self, state: Any, hook: Callable[[Any, GradBucket], None] | None
    ) -> None:
        """Replace the allreduce of gradients by your own function. Call this on all ranks before `run`.

        Args:
            state: First argument of the hook.
            hook: Called as hook(state, bucket) on every rank for the same buckets in the same order, as soon as
                their gradients are computed. It must leave the sum over ranks in `bucket.buffer`. It may call
                `floodtide.allreduce` and other collectives. None: use the allreduce again.

        Raises:
            UnsupportedError: With `comm.exactness = "workers"`, which sums no buckets.
        """
        names = ["flags", *self.model.state_dict()]

        def call(index: int, buffer: NDArray[np.float32], parts: Sequence[int], last: bool) -> None:
            assert hook is not None
            hook(state, GradBucket(index, buffer, tuple(names[part] for part in parts), last))

        self._core.set_bucket_hook(None if hook is None else call)

    def take_metrics(self) -> dict[str, float]:
        """Return counts and sums over ranks since the last call or the last record of the log. Collective.

        The C++ structure floodtide::train::Metrics has the same names.
        """
        return self._core.take_metrics()
