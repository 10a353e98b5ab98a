# SPDX-License-Identifier: Apache-2.0
"""The sections of a configuration: one frozen dataclass each; every key has a help text, every number a range."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tomli_w

from floodtide import _core
from floodtide.base import limits
from floodtide.base.data_options import Augmentation, DataOptions, TrainingVolume, volume_name
from floodtide.base.networks import NETWORKS, FfnConfig, NetworkConfig
from floodtide.base.options import (
    ANY,
    FLOOD,
    PATCHES,
    Checked,
    Value,
    names,
    one_of,
    option,
    registered,
)
from floodtide.base.tasks import TASKS, FloodTask, Task
from floodtide.config.segment_options import ResegmentOptions, SegmentOptions
from floodtide.errors import ConfigurationError

Corrections = tuple[tuple[int, int], ...]
"""Corrections of the number of steps of a training: after how many steps, and the number of steps from there on."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """Run directory, computing resources, logging and checkpoints."""

    dir: str = option("runs/run", "Run directory; resumed from its newest checkpoint", path=True)
    seed: int = option(0, "Seed of weights, examples and augmentation", range=limits.FILE_SEED)
    threads: int = option(
        0,
        "Compute threads of each rank; 0: OMP_NUM_THREADS, else the cores of the node divided by its ranks",
        range=limits.THREADS,
        differs=ANY,
    )
    log_every_s: float = option(10.0, "Seconds between records of the log", range=limits.SECONDS)
    checkpoint_every_s: float = option(
        300.0, "Seconds between two checkpoints; the last one is at the end", range=limits.SECONDS
    )
    stop_after_s: float = option(
        0.0,
        "Stop with a checkpoint after this many seconds of training, even before training.steps; 0: no time limit. A"
        " resumed run has this time again",
        range=limits.SECONDS,
    )
    compute: str = option(
        "fp32",
        "Convolution algorithms. fp32 may use Winograd or Fourier transforms, and fp32-direct uses only"
        " direct convolution; both compute in float32. bf16 is for flood-filling networks on processors with AMX, with"
        " features in multiples of 32: operands are rounded to bfloat16 (an error of 2.3e-3 for each layer), sums and"
        " parameters stay in float32",
        choices=_core.choices("compute"),
    )
    parallel: str = option(
        "fovs",
        "How the threads of a rank divide the work: each computes whole fields of view (fovs; needs at least as many"
        " walkers per rank as threads), or all compute one field of view together (voxels; needs less memory)",
        choices=_core.choices("parallel"),
        kinds=(FLOOD,),
    )
    keep_checkpoints: int = option(
        3, "Number of checkpoints to keep; older checkpoints are deleted", range=limits.CHECKPOINTS
    )
    trace: bool = option(
        False, "Write a timeline of all ranks to trace.json, for Perfetto or Chrome's trace viewer"
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """The training loop."""

    steps: int = option(
        10_000,
        "Number of training steps; each step processes one field of view (U-Nets: training.batch samples) of every"
        " walker, training.accumulate times, and updates the parameters once",
        range=limits.STEPS,
    )
    fit_time: bool = option(
        False,
        "Correct the number of steps to the measured speed, so that the learning rate falls to its end within"
        " run.stop_after_s, all jobs of a resumed run together; keys that count steps then count planned steps",
    )
    corrections: Corrections = option(
        (),
        "Corrections of the number of steps, [after how many steps, number of steps] each, as a run with fit_time"
        " records them; a run that is given corrections repeats them",
        range=limits.STEPS,
    )
    walkers: int = option(
        0,
        "Walkers (streams of examples) of all ranks: the global batch size in fields of view; 0: one per rank",
        range=limits.WALKERS_OR_DEFAULT,
    )
    batch: int = option(1, "Patches of a walker at a time", kinds=(PATCHES,), range=limits.BATCH)
    loss: str = option(
        "dice+cross_entropy",
        "Loss function: " + "; ".join(f"{row['name']}: {row['help']}" for row in _core.loss_rows()),
        choices=names(_core.loss_rows()),
        kinds=(PATCHES,),
    )
    dice: str = option(
        "image",
        "Soft Dice of each image (image), or one over the images of all walkers (batch; adds a small allreduce)",
        choices=("image", "batch"),
        kinds=(PATCHES,),
    )
    background: bool = option(False, "Include the background in the Dice loss", kinds=("classes",))
    seed_pad: float = option(
        0.05, "Initial probability of unvisited voxels", kinds=(FLOOD,), range=limits.PROBABILITY
    )
    threshold: float = option(
        0.9,
        "Minimum object probability of a voxel to which the field of view moves",
        kinds=(FLOOD,),
        range=limits.MOVE_THRESHOLD,
    )
    softness: float = option(
        0.05,
        "Target probability is 1 - softness inside the object and softness outside",
        kinds=(FLOOD,),
        range=limits.SOFTNESS,
    )
    clip: float = option(
        0.7, "Clip each entry of the averaged gradient to [-clip, clip]", range=limits.CLIP
    )
    clip_norm: float = option(
        0.0,
        "Largest norm of the averaged gradient: a larger gradient is scaled down, before `clip`; 0: no limit",
        range=limits.CLIP_OR_NONE,
    )
    noise_scale: bool = option(
        False,
        "Log the gradient noise scale; needs 2 ranks or comm.exactness = 'workers'; schedule.scale auto always logs it",
    )
    average: float = option(
        0.0,
        "Decay of an exponential moving average of the parameters; validation and programs that load a checkpoint use"
        " the average instead of the last parameters; 0: no average",
        range=limits.SHARE,
    )
    accumulate: int = option(
        1,
        "Number of fields of view (U-Nets: batches) of each walker whose gradients are averaged for one training step",
        range=limits.BATCH,
    )
    on_exhausted: str = option(
        "cycle",
        "What happens when a walker has processed its shard training.epochs times: cycle: the walker continues with the"
        " next epoch; join: the walker stops and the others continue until all have finished; stop: the training ends",
        choices=_core.choices("on_exhausted"),
    )
    epochs: int = option(
        1, "Passes over a walker's shard, if on_exhausted is join or stop", range=limits.EPOCHS
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        before, total = 0, self.steps
        for index, (step, corrected) in enumerate(self.corrections):
            if not before < step < min(corrected, total):
                raise ConfigurationError(
                    f"{self._prefix}corrections.{index} is [{step}, {corrected}], expected a step above {before} and"
                    f" below {min(corrected, total)}, the number of steps"
                )
            before, total = step, corrected

    @property
    def total(self) -> int:
        """The number of training steps: that of the last correction, or the planned `steps`."""
        return self.corrections[-1][1] if self.corrections else self.steps

    def walkers_of(self, ranks: int) -> int:
        """Return the number of walkers of a job: `walkers`, or one for each of its ranks."""
        return self.walkers or ranks


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Checked):
    """The optimizer. Its further keys depend on `name`."""

    name: str = option("adam", "Name of the optimizer", choices=names(_core.optimizer_rows()))
    lr: float = option(
        1e-3,
        "Base learning rate, for one walker; schedule.scale adapts it to the number of walkers",
        range=limits.LEARNING_RATE,
    )
    values: Mapping[str, Value] = registered(_core.optimizer_rows, "name")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig(Checked):
    """The learning rate as a function of step and number of walkers. Further keys depend on `name` and `scale`."""

    name: str = option(
        "constant", "How the rate changes with the step", choices=names(_core.schedule_rows())
    )
    scale: str = option(
        "none",
        "How the learning rate depends on the number of walkers: "
        + "; ".join(f"{row['name']}: {row['help']}" for row in _core.scale_rows()),
        choices=names(_core.scale_rows()),
    )
    values: Mapping[str, Value] = registered(
        _core.schedule_rows,
        "name",
        elsewhere=("base_lr", "total_steps"),  # optimizer.lr, training.steps
    )
    scale_values: Mapping[str, Value] = registered(_core.scale_rows, "scale")


@dataclass(frozen=True, kw_only=True)
class CommConfig(Checked):
    """How ranks average gradients, and how long ranks wait for each other."""

    algorithm: str = option(
        _core.comm.default_allreduce,
        "Allreduce algorithm: "
        + "; ".join(f"{row['name']}: {row['help']}" for row in _core.comm.allreduce_rows())
        + "; or a table name:first-last,... of message sizes in bytes",
    )
    bucket_mib: float = option(
        0.25,
        "Minimum size (MiB) of a bucket; ranks sum gradients bucket by bucket while the backward pass continues",
        range=limits.BUCKET,
    )
    wire: str = option(
        "native",
        "Number format of gradients in messages: native (float32), or bf16 (half the bytes; sums stay in float32)",
        choices=_core.choices("wire"),
    )
    exactness: str = option(
        "run",
        "Bitwise equal results of synchronous training: for the same number of ranks (run), or for any number of ranks"
        " with the same walkers ('workers': twice the bytes in messages, no overlap with the backward pass)",
        choices=_core.choices("exactness"),
    )
    mode: str = option(
        "synchronous",
        "Gradients of a step: of all ranks (synchronous), or of the first comm.contributors ready ranks (partial)",
        choices=_core.choices("mode"),
    )
    contributors: int = option(
        0,
        "Number of ranks whose gradients a training step waits for in mode partial; 0: all ranks",
        range=limits.RANKS_OR_ALL,
    )
    late: str = option(
        "drop",
        "Mode partial: gradients ready after their step are discarded (drop), or added to the next one (carry)",
        choices=_core.choices("late"),
    )
    timeout_s: float = option(
        300.0,
        "Time limit (s) of the watchdog: if a rank is silent, or others wait for it, for this long, the job ends with a"
        " message that names the rank; 0: no limit",
        range=limits.SECONDS,
    )


@dataclass(frozen=True, kw_only=True)
class ValidationConfig(Checked):
    """Validation on held-out data. Scores do not depend on the number of ranks (see docs/algorithms.md)."""

    volume: str = option("", "Name of the [[data.volumes]] table to validate on; empty: the first")
    box: str = option(
        "", "Held-out boxes, z0:z1,y0:y1,x0:x1 in voxels, separated by semicolons (flood: one)"
    )
    test_box: str = option(
        "",
        "Held-out boxes as `box`, which neither training nor the choice of thresholds reads: `floodtide segment` takes"
        " the first one; empty: that of `box`",
        kinds=("affinities", "lsd"),
    )
    every: int = option(
        0, "Training steps between two validations; 0: only at the end", range=limits.STEPS_OR_NONE
    )
    give_up_after: int = option(
        0,
        "Stop if a validation after at least this many steps is no better than a trivial prediction; 0: never",
        range=limits.STEPS_OR_NONE,
    )
    centres: int = option(
        64,
        "Number of example centres, balanced over the partition classes 1 to 13",
        kinds=(FLOOD,),
        range=limits.CENTRES,
    )
    seed: int = option(0, "Seed for choosing centres or held-out groups", range=limits.FILE_SEED)
    share: float = option(
        0.0,
        "Instead of a box: share of the groups in data.volumes that are held out",
        kinds=(PATCHES,),
        range=limits.SHARE,
    )
    volumes: tuple[TrainingVolume, ...] = option(
        (), "Instead of a box: other volumes to validate on, one table each", kinds=(PATCHES,)
    )

    @property
    def holds_out(self) -> bool:
        """True if something is held out to validate on."""
        return bool(self.box or self.share or self.volumes)


def to_dict(config: Any) -> dict[str, Any]:
    """Return a configuration as nested dictionaries of plain values. This is the inverse of `from_dict`."""
    plain: dict[str, Any] = _plain_of(config, getattr(config, "task", FloodTask()))
    return plain


def _plain_of(value: Any, task: Task) -> Any:
    if dataclasses.is_dataclass(value):
        result: dict[str, Any] = {}
        for key in dataclasses.fields(value):
            one = getattr(value, key.name)
            if "rows" in key.metadata and task.has(key):
                result.update(one)
            elif one is not None and task.has(key):
                result[key.name] = _plain_of(one, task)
        return result
    if isinstance(value, Mapping):
        return {str(key): _plain_of(item, task) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain_of(item, task) for item in value]
    return value if isinstance(value, (str, int, float)) else volume_name(value)


@dataclass(frozen=True, kw_only=True)
class Config(Checked):
    """A complete configuration. `str(config)` returns it as TOML text."""

    run: RunConfig = RunConfig()
    data: DataOptions = field(default=DataOptions())
    augmentation: Augmentation = field(default=Augmentation())
    task: Task = field(default=FloodTask(), metadata={"alternatives": TASKS})
    model: NetworkConfig = field(default=FfnConfig(), metadata={"alternatives": NETWORKS})
    training: TrainingConfig = TrainingConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    comm: CommConfig = CommConfig()
    validation: ValidationConfig = ValidationConfig()
    segment: SegmentOptions = field(default=SegmentOptions())
    resegment: ResegmentOptions = field(default=ResegmentOptions(), metadata={"kinds": (FLOOD,)})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.examples != self.task.examples:
            fitting = (one.kind for one in NETWORKS if one.examples == self.task.examples)
            raise ConfigurationError(
                f"{self._prefix}model.kind is '{self.model.kind}', which cannot learn the task '{self.task.kind}';"
                f" expected {one_of(list(fitting))}, or another task.kind"
            )

    @property
    def fits_time(self) -> bool:
        """True if the clock corrects the number of training steps."""
        return self.training.fit_time and self.run.stop_after_s > 0

    def __str__(self) -> str:
        return tomli_w.dumps(to_dict(self))
