# SPDX-License-Identifier: Apache-2.0
"""Training runs: builds the parts from a configuration, drives the C++ step loop, keeps the run directory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import _comm, _core, nn
from floodtide import config as configuration
from floodtide._hooks import CommHook, adapted
from floodtide._signals import StopRequest
from floodtide.config import CommConfig, Config, VolumeConfig
from floodtide.data import parse_box
from floodtide.errors import (
    CommunicationError,
    ConfigurationError,
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
        set_threads(config.run.threads)
        self._walkers = config.training.walkers or self._comm.size
        with _comm.agreed():
            check_on_lost_rank(config.comm, self._comm)
            self.model = build_model(config)
            self._examples = _core.data.ExampleSource(
                [source(volume, index) for index, volume in enumerate(_volumes(config))],
                patch_size=patch_size(config),
                seed=config.run.seed,
                walkers=self._walkers,
                permutable_axes=list(config.data.permutable_axes),
                reflectable_axes=list(config.data.reflectable_axes),
                softness=config.training.softness,
                coordinates=config.data.coordinates or None,
                progress=None,
            )
            self._validation = Validation(config) if config.validation.box else None
        self._average = build_model(config) if config.training.average > 0 else None
        self._hook: Callable[..., None] | None = None
        self._signal = StopRequest()
        self._start_s = time.monotonic()
        self._open()

    def _open(self) -> None:
        """Begin with the ranks there are, from the newest checkpoint. Collective."""
        config = self.config
        self._directory = RunDirectory(Path(config.run.dir), writer=self._comm.rank == 0)
        schedule = config.schedule
        self._trainer = _core.Trainer(
            self.model.core,
            optimizer=config.optimizer.name,
            optimizer_values=dict(config.optimizer.values),
            schedule="constant",
            schedule_values={
                "base_lr": config.optimizer.lr,
                "warmup_steps": float(schedule.warmup_steps),
                "warmup_start": schedule.warmup_start,
            },
            scale=schedule.scale,
            examples=self._examples,
            communicator=self._comm,
            walkers=self._walkers,
            seed=config.run.seed,
            seed_pad=config.training.seed_pad,
            threshold=config.training.threshold,
            clip=config.training.clip,
            average=config.training.average,
            algorithm=config.comm.algorithm,
            prefetch=config.data.prefetch,
            accumulate=config.training.accumulate,
            on_exhausted=config.training.on_exhausted,
            epochs=config.training.epochs,
            exactness=config.comm.exactness,
            bucket_bytes=round(config.comm.bucket_mib * 2**20),
            wire=config.comm.wire,
            mode=config.comm.mode,
            contributors=config.comm.contributors or self._comm.size,
            late=config.comm.late,
            steps=config.training.steps,
            meet_every=config.validation.every if self._validation else 0,
            timeout_s=config.comm.timeout_s,
            record_path=str(self._directory.failure_path(self._comm.rank)),
        )
        if self._hook is not None:
            self._trainer.set_bucket_hook(self._hook)
        checkpoint = _comm.broadcast_object(self._directory.newest_checkpoint())
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
                "examples_per_epoch": self._examples.examples,
                "resumed_from": checkpoint or "",
                "transport": self._comm.description,
                "kernels": self.model.core.kernel_names(),
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

    @property
    def steps_done(self) -> int:
        """Optimizer updates so far, those before a resumed checkpoint included."""
        return int(self._trainer.steps_done)

    @property
    def complete(self) -> bool:
        """Whether all of `training.steps` are done; False after `run` if time or a signal has ended it."""
        return self.steps_done >= self.config.training.steps

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._directory.path

    @property
    def result(self) -> nn.FFN:
        """The network to use: `model`, or with `training.average` one with the averaged parameters."""
        if self._average is None:
            return self.model
        self._trainer.copy_average(self._average.core)
        return self._average

    def step(self) -> Step:
        """One field of view of every walker and one update; logs and saves when it is time. Collective."""
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
        if report.requests & _core.REQUEST_LOG or self._stopped:
            with self._activity("log"):
                self._trainer.flush_trace()
                self._log_training(report.lr)
        if report.requests & _core.REQUEST_CHECKPOINT or self._stopped:
            self.save()
        every = self.config.validation.every
        due = self._stopped or (report.met and every and self.steps_done % every == 0)
        if self._validation and due and not (self._stopped and self._time_is_short()):
            self.validate()
        return Step(number=report.step, loss=report.loss, lr=report.lr)

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Train until `training.steps` or `run.stop_after_s`; calls `progress(done, total)` after
        each step. Collective.

        When SIGTERM or SIGUSR1 comes to any rank, all ranks stop after the step that they are in, save a checkpoint,
        leave out the validation at the end, and return.

        With `comm.on_lost_rank = "shrink"` the ranks that are left when one is lost go on from the newest checkpoint.
        """
        with self._signal.watched():
            if self.config.comm.on_lost_rank == "shrink" and self._comm.size > 1:
                self._run_with_those_left(progress)
            else:
                self._run(progress)

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
        start = build_model(self.config)  # if there is no checkpoint yet
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
        """Write a checkpoint and remove the oldest ones beyond `run.keep_checkpoints`. Collective."""
        path = self._directory.checkpoint_path(self.steps_done)
        self._trainer.save(str(path), configuration.dumps(self.config))
        with _comm.agreed():
            self._directory.prune(self.config.run.keep_checkpoints)
        self._saved_s = time.monotonic()
        return path

    def validate(self) -> Record:
        """Validation scores as DESIGN's protocol defines them, recorded in the log. Collective."""
        if self._validation is None:
            raise ConfigurationError(
                "validate: validation.box is empty, expected the held-out part"
            )
        with self._activity("validation"):
            result = self._validation.run(self.result)
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

    def _time_is_short(self) -> bool:
        """Whether a signal has ended the run, on any rank, before its last step. Collective."""
        return not self.complete and any(_comm.allgather_bytes(self._signal.name.encode()))

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
                "fovs": sums["fovs"],
                "examples": sums["examples"],
                "fovs_per_s": sums["fovs"] / elapsed_s,
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


class Validation:
    """The fixed set of centres of a configuration's [validation] section."""

    def __init__(self, config: Config) -> None:
        section = config.validation
        names = [volume.name for volume in _volumes(config)]
        name = section.volume or names[0]
        if name not in names:
            raise ConfigurationError(
                f"validation.volume is '{name}', expected one of: {', '.join(names)}"
            )
        index = names.index(name)
        volume = dataclasses.replace(config.data.volumes[index], box=section.box)
        self._set = _core.ValidationSet(
            source(volume, index),
            patch_size=patch_size(config),
            centres=section.centres,
            seed=section.seed,
        )
        self._config = config

    def run(self, model: nn.FFN, progress: Callable[[int, int], None] | None = None) -> Any:
        """Scores of a network on the set. Collective.

        Returns:
            An object with `summary()` (a dictionary of pooled scores beside the trivial
            predictors') and `first_pass_centres`, `moves_centres`: float64 arrays (centres, 6) of
            cross-entropy sum (nats), voxels, TP, FP, FN, TN at probability 0.5. The same on every
            rank and for every number of ranks.
        """
        training = self._config.training
        return _core.validate(
            model.core,
            self._set,
            seed_pad=training.seed_pad,
            threshold=training.threshold,
            softness=training.softness,
            seed=self._config.validation.seed,
            communicator=_comm.current(),
            progress=progress,
        )


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


def build_model(config: Config) -> nn.FFN:
    """The network of a configuration, with its initial weights."""
    section = config.model
    model = nn.FFN(
        depth=section.depth,
        fov=section.fov,
        deltas=section.deltas,
        features=section.features,
        seed=config.run.seed,
        compute=config.run.compute,
        parallel=config.run.parallel,
    )
    if section.initial_weights:
        start = nn.load(section.initial_weights, fov=section.fov, deltas=section.deltas)
        if (start.depth, start.features) != (section.depth, section.features):
            raise ConfigurationError(
                f"model.initial_weights: {section.initial_weights} holds a network of depth {start.depth} with "
                f"{start.features} features, expected depth {section.depth} with {section.features}"
            )
        model.load_state_dict(start.state_dict())
    return model


def patch_size(config: Config) -> list[int]:
    """Voxels (z, y, x) of a training example: the field of view and one step on each side."""
    return [f + 2 * d for f, d in zip(config.model.fov, config.model.deltas, strict=True)]


def set_threads(threads: int) -> None:
    """Set this rank's compute threads, as thread_count says."""
    _core.set_num_threads(thread_count(threads))


def thread_count(threads: int) -> int:
    """Threads of a rank with `run.threads` = threads; 0: OMP_NUM_THREADS, else the cores it may use shared among the
    node's ranks."""
    if threads < 0:
        raise ConfigurationError(f"run.threads is {threads}, expected 0 or more")
    if not threads:
        wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        threads = int(wanted) if wanted.isdigit() else 0
    return threads or max(1, _core.available_cores() // _comm.places()[1])


def source(volume: VolumeConfig, index: int) -> tuple[Any, ...]:
    """What the core opens a training volume from; `index` is its place in the configuration."""
    for key in ("labels", "partitions"):
        if not getattr(volume, key):
            raise ConfigurationError(
                f"data.volumes.{index}.{key} is empty, expected file:dataset (volume '{volume.name}')"
            )
    box = parse_box(volume.box)
    return (
        volume.name,
        volume.image,
        volume.labels,
        volume.partitions,
        box,
        volume.mean,
        volume.std,
    )


def _volumes(config: Config) -> tuple[VolumeConfig, ...]:
    if not config.data.volumes:
        raise ConfigurationError(
            "data.volumes is empty, expected at least one [[data.volumes]] table"
        )
    return config.data.volumes
