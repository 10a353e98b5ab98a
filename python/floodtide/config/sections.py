# SPDX-License-Identifier: Apache-2.0
"""The sections of a configuration: one frozen dataclass each, with a help text, a unit and a range for every key."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomli_w

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import ANY, FOLDER, REQUIRED, Checked, option
from floodtide.base.registry import Registered, Value, names, registered
from floodtide.config.networks import (
    FLOOD,
    PATCHES,
    SLICES,
    FfnConfig,
    UNet2DConfig,
    UNet3DConfig,
    Vec3,
)
from floodtide.config.segment_options import SegmentOptions
from floodtide.config.tables import to_dict
from floodtide.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """Where a run lives and how often it reports."""

    dir: str = option("runs/run", "Run directory; training resumes from its checkpoints", path=True)
    seed: int = option(
        0,
        "Seed of everything random: weights, examples, order, augmentation",
        range=limits.FILE_SEED,
    )
    threads: int = option(
        0,
        "Compute threads of each rank; 0: OMP_NUM_THREADS, else the cores divided by the ranks of the node",
        range=limits.THREADS,
        differs=ANY,
    )
    log_every_s: float = option(10.0, "Seconds between two lines of the log", range=limits.SECONDS)
    checkpoint_every_s: float = option(
        300.0,
        "Seconds between two checkpoints; one is always written at the end",
        range=limits.SECONDS,
    )
    stop_after_s: float = option(
        0.0,
        "Seconds of training after which the run stops with a checkpoint; 0: only after training.steps",
        range=limits.SECONDS,
    )
    compute: str = option(
        "fp32",
        "Convolutions: fp32 may use Winograd's transforms, fp32-direct does not",
        choices=("fp32", "fp32-direct"),
    )
    parallel: str = option(
        "fovs",
        "What a rank's threads share: whole fields of view (where it has at least as many walkers as threads), or the"
        " voxels of each, which takes less memory",
        choices=("fovs", "voxels"),
        kinds=(FLOOD,),
    )
    keep_checkpoints: int = option(3, "Newest checkpoints that are kept", range=limits.CHECKPOINTS)
    trace: bool = option(
        False, "Record what each rank does, and when, in trace.json (Chrome trace, Perfetto)"
    )


@dataclass(frozen=True, kw_only=True)
class VolumeConfig(Checked):
    """One image volume with its labels."""

    name: str = option(REQUIRED, "Name in messages and logs")
    image: str = option(
        REQUIRED, "Image, file:dataset (HDF5, axes z, y, x)", path=True, differs=FOLDER
    )
    labels: str = option(
        "",
        "Object ids, file:dataset; needed for training and validation",
        path=True,
        differs=FOLDER,
    )
    partitions: str = option(
        "",
        "Partition volume of `floodtide partition`, file:dataset; for flood-filling networks",
        path=True,
        differs=FOLDER,
    )
    box: str = option("", "Part to use, z0:z1,y0:y1,x0:x1 in voxels; empty: all of it")
    mean: float = option(
        128.0, "Image mean: the network sees (image - mean) / std", range=limits.INTENSITY
    )
    std: float = option(33.0, "Image standard deviation", range=limits.DEVIATION)
    voxel_size_nm: tuple[float, float, float] = option(
        (1.0, 1.0, 1.0), "Voxel size (z, y, x) in nanometres, for pictures", range=limits.VOXEL_SIZE
    )


@dataclass(frozen=True, kw_only=True)
class SlicesConfig(Checked):
    """One stack of slices with class masks."""

    images: str = option(
        REQUIRED, "Images, file:dataset (HDF5, axes slice, y, x)", path=True, differs=FOLDER
    )
    masks: str = option(REQUIRED, "Classes from 0, file:dataset", path=True, differs=FOLDER)
    patients: str = option(
        "",
        "Patient numbers of the slices, file:dataset; empty: the stack is one patient",
        path=True,
        differs=FOLDER,
    )


@dataclass(frozen=True, kw_only=True)
class DataConfig(Checked):
    """What is trained on."""

    volumes: tuple[VolumeConfig, ...] = option(
        (), "Training volumes, one [[data.volumes]] table each", kinds=(FLOOD, PATCHES)
    )
    permutable_axes: tuple[int, ...] = option(
        (1, 2),
        "Axes (0 z, 1 y, 2 x) that augmentation permutes among themselves",
        kinds=(FLOOD, PATCHES),
        range=limits.AXIS,
    )
    reflectable_axes: tuple[int, ...] = option(
        (0, 1, 2), "Axes that augmentation reflects", kinds=(FLOOD, PATCHES), range=limits.AXIS
    )
    coordinates: str = option(
        "",
        "File of `floodtide coordinates` to take examples from, instead of drawing from the partitions",
        path=True,
        kinds=(FLOOD,),
        differs=FOLDER,
    )
    slices: tuple[SlicesConfig, ...] = option(
        (), "Stacks of slices, one [[data.slices]] table each", kinds=(SLICES,)
    )
    size: tuple[int, int] = option(
        (0, 0),
        "Slices are cut or padded about their centre to this size (y, x); 0, 0: as stored",
        kinds=(SLICES,),
        range=limits.PIXELS_OR_STORED,
    )
    mean: float = option(
        0.0,
        "Mean of the slices: the network sees (value - mean) / std",
        kinds=(SLICES,),
        range=limits.INTENSITY,
    )
    std: float = option(
        1.0, "Standard deviation of the slices", kinds=(SLICES,), range=limits.DEVIATION
    )
    outside: float = option(
        0.0,
        "Stored value of what lies outside of a slice, where its class is 0",
        kinds=(SLICES,),
        range=limits.INTENSITY,
    )
    patch: Vec3 = option(
        (16, 128, 128),
        "Size (z, y, x) of the patches, in voxels",
        kinds=(PATCHES,),
        range=limits.PATCH,
    )
    patches: int = option(
        0,
        "Patches of an epoch; 0: as many as fill the volumes side by side",
        kinds=(PATCHES,),
        range=limits.COUNT_OR_NONE,
    )
    zero_is_boundary: bool = option(
        False,
        "Voxels labelled 0 are boundary or background, with affinities 0; otherwise nobody labelled them and they"
        " are not counted",
        kinds=(PATCHES,),
    )
    balance: bool = option(
        False, "Affinities of 0 and of 1 weigh alike in each patch", kinds=(PATCHES,)
    )
    prefetch: int = option(
        2,
        "Examples, or batches, that each walker has ready in advance; 0: each is read inside of the step",
        range=limits.PREFETCH,
    )
    readers: int = option(
        1,
        "Threads of a rank that read ahead: so many examples are under way at once",
        range=limits.READERS,
    )


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig(Checked):
    """Random changes of training slices, others in each epoch; for `unet2d`."""

    flip_y: bool = option(False, "Reversed along y, with probability one half")
    flip_x: bool = option(False, "Reversed along x, with probability one half")
    rotation_deg: float = option(0.0, "Turned by at most this angle (degrees)", range=limits.ANGLE)
    scale: float = option(
        0.0, "Scaled by a factor from 1 / (1 + scale) to 1 + scale", range=limits.SCALE
    )
    gain: float = option(
        0.0, "Normalised values times a factor from 1 - gain to 1 + gain", range=limits.GAIN
    )
    offset: float = option(
        0.0, "Normalised values plus a number from -offset to offset", range=limits.NOISE
    )
    noise: float = option(
        0.0, "Normalised values plus normal noise of this standard deviation", range=limits.NOISE
    )


ModelConfig = FfnConfig | UNet2DConfig | UNet3DConfig


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """The training loop."""

    steps: int = option(
        10_000,
        "Optimizer updates; each takes one FOV, or training.batch samples, of every walker",
        range=limits.UPDATES,
    )
    walkers: int = option(
        0,
        "Streams of examples over all ranks (the global batch); 0: one per rank",
        range=limits.WALKERS_OR_DEFAULT,
    )
    batch: int = option(
        1,
        "Slices or patches that a walker takes in a step",
        kinds=(SLICES, PATCHES),
        range=limits.BATCH,
    )
    loss: str = option(
        "dice+cross_entropy",
        "What is minimised: 1 - soft Dice, cross-entropy, or the sum",
        choices=("dice", "cross_entropy", "dice+cross_entropy"),
        kinds=(SLICES, PATCHES),
    )
    dice: str = option(
        "image",
        "Soft Dice of each image, averaged, or one over the images of all walkers (batch): its sums then go around"
        " in the middle of each step",
        choices=("image", "batch"),
        kinds=(SLICES, PATCHES),
    )
    background: bool = option(False, "Class 0 has part in the Dice", kinds=(SLICES,))
    smooth: float = option(
        1.0, "Added above and below Dice's fraction", kinds=(SLICES, PATCHES), range=limits.WEIGHT
    )
    seed_pad: float = option(
        0.05,
        "Probability that an unvisited voxel starts with",
        kinds=(FLOOD,),
        range=limits.PROBABILITY,
    )
    threshold: float = option(
        0.9,
        "Probability at a FOV centre from which a move is made",
        kinds=(FLOOD,),
        range=limits.MOVE_THRESHOLD,
    )
    softness: float = option(
        0.05,
        "Targets are 1 - softness inside the object and softness outside",
        kinds=(FLOOD,),
        range=limits.SOFTNESS,
    )
    clip: float = option(
        0.7, "Each gradient entry is clipped to [-clip, clip] after averaging", range=limits.CLIP
    )
    average: float = option(
        0.0,
        "Decay of an exponential moving average of the parameters, which validation and readers of"
        " the checkpoints use instead of the last ones; 0: none",
        range=limits.SHARE,
    )
    accumulate: int = option(
        1, "FOVs, or batches, of each walker whose gradients make one update", range=limits.BATCH
    )
    on_exhausted: str = option(
        "cycle",
        "When a walker has been through its shard: cycle begins it anew, join lets it leave and the others go on"
        " until the last one, stop ends the training",
        choices=("cycle", "join", "stop"),
    )
    epochs: int = option(
        1, "Passes through its shard that exhaust a walker, for join and stop", range=limits.EPOCHS
    )


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Registered):
    """The optimizer; its further parameters are the ones listed for its name."""

    name: str = option("adam", "Optimizer", choices=names(_core.optimizer_rows()))
    lr: float = option(1e-3, "Base learning rate, tuned for one walker", range=limits.LEARNING_RATE)
    values: Mapping[str, Value] = registered(_core.optimizer_rows, "name")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig(Registered):
    """The learning rate against steps and walkers; its further parameters are the ones listed for its name."""

    name: str = option(
        "constant",
        "The rate against the updates",
        choices=names(_core.schedule_rows()),
    )
    scale: str = option(
        "none",
        "What the number of walkers makes of the base rate: "
        + "; ".join(f"{row['name']}: {row['help']}" for row in _core.scale_rows()),
        choices=names(_core.scale_rows()),
    )
    values: Mapping[str, Value] = registered(
        _core.schedule_rows,
        "name",
        elsewhere=("base_lr", "total_steps"),  # optimizer.lr, training.steps
    )


@dataclass(frozen=True, kw_only=True)
class CommConfig(Checked):
    """How ranks average gradients, and how long they wait for each other."""

    algorithm: str = option(
        _core.comm.default_allreduce,
        "Allreduce: ring, rabenseifner, recursive_doubling, two_level, mpi (the library's), a table "
        "name:first-last,... by bytes, or auto (measured at the start: another run may choose otherwise)",
    )
    bucket_mib: float = option(
        0.25,
        "Least size (MiB) of the parts in which gradients are summed while backward goes on",
        range=limits.BUCKET,
    )
    wire: str = option(
        "native",
        "How gradients travel: native (float32), or bf16 (half the bytes, sums in float32)",
        choices=("native", "bf16"),
    )
    exactness: str = option(
        "run",
        "Bits depend on the run, or only on its walkers: any number of ranks gives the same (twice "
        "the bytes, no overlap)",
        choices=("run", "workers"),
    )
    mode: str = option(
        "synchronous",
        "Whose gradients make an update: all ranks' (synchronous), those of the first comm.contributors ranks"
        " that are ready (partial), or each rank's as they come at a parameter server (asynchronous, the method"
        " that synchronous training is compared with)",
        choices=("synchronous", "partial", "asynchronous"),
    )
    contributors: int = option(
        0, "Ranks whose gradients make an update in mode partial; 0: all", range=limits.RANKS_OR_ALL
    )
    late: str = option(
        "drop",
        "Gradients that come after their update, in mode partial: drop, or carry into the next one",
        choices=("drop", "carry"),
    )
    timeout_s: float = option(
        300.0,
        "A rank that is silent or waited for so long (s) ends the job, by name; 0: never",
        range=limits.SECONDS,
    )
    on_lost_rank: str = option(
        "abort",
        "When a rank is lost: abort the job, or (experimental) shrink to the others, which take over its walkers and"
        " go on from the newest checkpoint; needs Open MPI's mpiexec --with-ft ulfm, and mode synchronous",
        choices=("abort", "shrink"),
    )


@dataclass(frozen=True, kw_only=True)
class ValidationConfig(Checked):
    """Validation on what training does not see, the same for any number of ranks (see docs/algorithms.md)."""

    volume: str = option("", "Name of the volume; empty: the first one", kinds=(FLOOD, PATCHES))
    box: str = option(
        "", "Held-out part, z0:z1,y0:y1,x0:x1; empty: no validation", kinds=(FLOOD, PATCHES)
    )
    every: int = option(
        0, "Steps between two validations; 0: only at the end", range=limits.UPDATES_OR_NONE
    )
    centres: int = option(
        64,
        "Centres, balanced over the partition classes 1 to 13",
        kinds=(FLOOD,),
        range=limits.CENTRES,
    )
    seed: int = option(
        0,
        "Seed of the choice of centres, or of the patients that are held out",
        kinds=(FLOOD, SLICES),
        range=limits.FILE_SEED,
    )
    share: float = option(
        0.0,
        "Share of the patients of data.slices that is held out",
        kinds=(SLICES,),
        range=limits.SHARE,
    )
    slices: tuple[SlicesConfig, ...] = option(
        (),
        "Stacks of other patients instead, one [[validation.slices]] table each",
        kinds=(SLICES,),
    )


@dataclass(frozen=True, kw_only=True)
class Config:
    """A whole configuration file; `str` gives its text."""

    run: RunConfig = RunConfig()
    data: DataConfig = DataConfig()
    augmentation: AugmentationConfig = dataclasses.field(
        default=AugmentationConfig(), metadata={"kinds": (SLICES,)}
    )
    model: FfnConfig | UNet2DConfig | UNet3DConfig = dataclasses.field(default=FfnConfig())
    training: TrainingConfig = TrainingConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    comm: CommConfig = CommConfig()
    validation: ValidationConfig = ValidationConfig()
    segment: SegmentOptions = dataclasses.field(
        default=SegmentOptions(), metadata={"kinds": (FLOOD,)}
    )

    def __str__(self) -> str:
        return tomli_w.dumps(to_dict(self))


def require_tables(tables: Sequence[Any], key: str) -> None:
    """Check that an array of tables such as `data.volumes` has one.

    Raises:
        ConfigurationError: If there is none.
    """
    if not tables:
        raise ConfigurationError(f"{key} is empty, expected at least one [[{key}]] table")
