# SPDX-License-Identifier: Apache-2.0
# Written by tests/scripts/make_stubs.py from the compiled module. Do not edit.
from __future__ import annotations

import collections.abc
import typing

import numpy
import numpy.typing

from . import agglomerate, bench, comm, data, evaluate, segment

__all__: list[str] = [
    "REQUEST_CHECKPOINT",
    "REQUEST_LOG",
    "REQUEST_RATE",
    "REQUEST_STOP",
    "Change",
    "Ffn",
    "FfnOptions",
    "GradientProducts",
    "Network",
    "Optimizer",
    "SampleNetwork",
    "Schedule",
    "SegmentationLoss",
    "StepReport",
    "Trainer",
    "TrainerOptions",
    "UNet",
    "UNetOptions",
    "ValidationResult",
    "ValidationSet",
    "Walkers",
    "WalkersOptions",
    "active_isa",
    "agglomerate",
    "available_bytes",
    "available_cores",
    "bench",
    "build_info",
    "check_network_output",
    "choices",
    "comm",
    "count_interrupts",
    "data",
    "describe_bytes",
    "evaluate",
    "flood_walkers",
    "load_network",
    "loss_rows",
    "masked_crc32c",
    "network_limits",
    "num_threads",
    "optimizer_rows",
    "output_target",
    "peak_resident_bytes",
    "processor_isa",
    "processor_name",
    "replace_file",
    "resident_bytes",
    "sample_walkers",
    "save_network",
    "scale_factor",
    "scale_rows",
    "scaled_optimizer",
    "schedule_rows",
    "score_segmentation",
    "segment",
    "segmentation_loss",
    "set_num_threads",
    "stored_text",
    "training_limits",
    "validate",
]

class Change:
    def __enter__(self) -> None: ...
    def __exit__(self, *args: typing.Any) -> None: ...

class Network:
    def changing(self) -> Change: ...
    def copy_parameters(self) -> numpy.typing.NDArray[numpy.float32]: ...
    def kernel_names(self) -> str: ...
    def layout(self) -> list[tuple[str, tuple[int, ...], int]]: ...
    def parameters(self) -> numpy.typing.NDArray[numpy.float32]: ...
    def parameters_changed(self) -> None: ...
    def set_parameters(self, values: numpy.typing.NDArray[numpy.float32]) -> None: ...
    def workspace_bytes(self) -> int: ...
    @property
    def version(self) -> int: ...

class SampleNetwork(Network): ...

class FfnOptions:
    compute: str
    depth: int
    features: int
    kernel: str
    parallel: str
    seed: int

    def __init__(self, **kwargs: typing.Any) -> None: ...
    def layout(self) -> list[tuple[str, tuple[int, ...], int]]: ...
    def parameter_count(self) -> int: ...
    def training_bytes(
        self,
        size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        examples: int,
        threads: int,
    ) -> int: ...
    @property
    def deltas(self) -> tuple[int, int, int]: ...
    @deltas.setter
    def deltas(
        self, arg1: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
    ) -> None: ...
    @property
    def fov(self) -> tuple[int, int, int]: ...
    @fov.setter
    def fov(
        self, arg1: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
    ) -> None: ...

class Ffn(Network):
    def __init__(self, options: FfnOptions) -> None: ...
    def fft_unsupported(
        self, size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
    ) -> str: ...
    def forward(
        self,
        image: numpy.typing.NDArray[numpy.float32],
        logits: numpy.typing.NDArray[numpy.float32],
        by: str | None = None,
    ) -> numpy.typing.NDArray[numpy.float32]: ...
    def loss_and_gradients(
        self,
        image: numpy.typing.NDArray[numpy.float32],
        logits: numpy.typing.NDArray[numpy.float32],
        labels: numpy.typing.NDArray[numpy.float32],
        weights: numpy.typing.NDArray[numpy.float32] | None,
        gradients: numpy.typing.NDArray[numpy.float32],
        scale: float,
    ) -> list[float]: ...
    def relu_masks(self) -> numpy.typing.NDArray[numpy.uint8]: ...
    @property
    def options(self) -> FfnOptions: ...

class SegmentationLoss:
    background: bool
    cross_entropy: float
    dice: float
    focus: float
    over_batch: bool
    smooth: float

    def __init__(self, **kwargs: typing.Any) -> None: ...

class UNetOptions:
    batch_norm: bool
    classes: int
    compute: str
    depth: int
    dropout: float
    features: int
    in_channels: int
    output: str
    seed: int
    synchronised: bool

    def __init__(self, **kwargs: typing.Any) -> None: ...
    def forward_bytes(
        self, images: int, size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
    ) -> int: ...
    def parameter_count(self) -> int: ...
    def training_bytes(
        self, images: int, size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
    ) -> int: ...
    @property
    def kernels(self) -> list[typing.Annotated[list[int], "FixedSize(3)"]]: ...
    @kernels.setter
    def kernels(
        self,
        arg0: collections.abc.Sequence[
            typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
        ],
    ) -> None: ...
    @property
    def pools(self) -> list[typing.Annotated[list[int], "FixedSize(3)"]]: ...
    @pools.setter
    def pools(
        self,
        arg0: collections.abc.Sequence[
            typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
        ],
    ) -> None: ...

class UNet(SampleNetwork):
    def __init__(self, options: UNetOptions) -> None: ...
    def forward(
        self, images: numpy.typing.NDArray[numpy.float32]
    ) -> numpy.typing.NDArray[numpy.float32]: ...
    def free_workspace(self) -> None: ...
    def loss_and_gradients(
        self,
        images: numpy.typing.NDArray[numpy.float32],
        labels: numpy.typing.NDArray[numpy.uint8] | None,
        targets: numpy.typing.NDArray[numpy.float32] | None,
        weights: numpy.typing.NDArray[numpy.float32] | None,
        loss: SegmentationLoss,
        groups: int,
        examples: collections.abc.Sequence[int],
        gradients: numpy.typing.NDArray[numpy.float32],
        scale: float,
        sum_over_ranks: collections.abc.Callable[[list[float]], collections.abc.Sequence[float]]
        | None,
    ) -> dict[str, typing.Any]: ...
    def move_statistics(
        self, gradients: numpy.typing.NDArray[numpy.float32], images: float
    ) -> None: ...
    def trained_size(self) -> int: ...
    @property
    def options(self) -> UNetOptions: ...
    @property
    def total_pool(self) -> tuple[int, int, int]: ...

class Optimizer:
    def __init__(
        self,
        name: str,
        values: collections.abc.Mapping[str, float | str],
        shape: collections.abc.Sequence[int],
    ) -> None: ...
    def load_state(self, state: dict[str, numpy.typing.NDArray[typing.Any]]) -> None: ...
    def state(self) -> dict[str, numpy.typing.NDArray[typing.Any]]: ...
    def step(
        self,
        parameters: numpy.typing.NDArray[numpy.float32],
        gradients: numpy.typing.NDArray[numpy.float32],
        lr: float,
    ) -> None: ...

class Schedule:
    def __init__(self, name: str, values: collections.abc.Mapping[str, float | str]) -> None: ...
    def at(self, step: float, factor: float) -> float: ...

class StepReport:
    @property
    def gradient_norm(self) -> float: ...
    @property
    def loss(self) -> float: ...
    @property
    def lr(self) -> float: ...
    @property
    def met(self) -> bool: ...
    @property
    def requests(self) -> int: ...
    @property
    def step(self) -> int: ...

class Walkers: ...

class WalkersOptions:
    cycle: bool
    epochs: int
    prefetch: int
    rank: int
    ranks: int
    readers: int
    seed: int
    walkers: int

    def __init__(self, **kwargs: typing.Any) -> None: ...

class TrainerOptions:
    accumulate: int
    activity: comm.ActivityLog
    algorithm: str
    average: float
    bucket_bytes: int
    clip: float
    clip_norm: float
    contributors: int
    exactness: str
    late: str
    measure_noise: bool
    meet_every: int
    mode: str
    on_exhausted: str
    record_path: str
    steps: int
    timeout_s: float
    wire: str

    def __init__(self, **kwargs: typing.Any) -> None: ...

class Trainer:
    rate_factor: float

    def __init__(
        self,
        walkers: Walkers,
        communicator: comm.Communicator,
        *,
        optimizer: str,
        optimizer_values: collections.abc.Mapping[str, float | str],
        schedule: str,
        schedule_values: collections.abc.Mapping[str, float | str],
        scale: str,
        scale_values: collections.abc.Mapping[str, float | str],
        options: TrainerOptions,
    ) -> None: ...
    def begin_activity(self, name: str) -> int: ...
    def check_replicas(self) -> None: ...
    def copy_average(self, network: Network) -> None: ...
    def end_activity(self, number: int) -> None: ...
    def flush_trace(self) -> None: ...
    def load(self, path: str) -> None: ...
    def record_failure(self, reason: str) -> None: ...
    def save(self, path: str, configuration: str, statistics: str = "") -> None: ...
    def set_bucket_hook(
        self,
        hook: collections.abc.Callable[
            [int, numpy.typing.NDArray[numpy.float32], list[int], bool], typing.Any
        ]
        | None,
    ) -> None: ...
    def set_pace(self, step: int, planned: float, per_step: float) -> None: ...
    def step(self, requests: int) -> StepReport: ...
    def take_metrics(self) -> dict[str, float]: ...
    def trace(self, path: str) -> None: ...
    @property
    def noise_scale(self) -> tuple[float, float, float] | None: ...
    @property
    def steps_done(self) -> int: ...

class GradientProducts:
    def __init__(self, walkers: Walkers) -> None: ...
    def add_pass(self) -> None: ...
    def products(self) -> numpy.typing.NDArray[numpy.float64]: ...
    def squares(self) -> numpy.typing.NDArray[numpy.float64]: ...
    @property
    def batch(self) -> int: ...
    @property
    def passes(self) -> int: ...

class ValidationResult:
    def summary(self) -> dict[str, typing.Any]: ...
    @property
    def first_pass_centres(self) -> numpy.typing.NDArray[numpy.float64]: ...
    @property
    def moves_centres(self) -> numpy.typing.NDArray[numpy.float64]: ...

class ValidationSet:
    def __init__(
        self,
        volume: data.SourceOptions,
        *,
        patch_size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        centres: int,
        seed: int,
    ) -> None: ...
    @property
    def centres(self) -> list[typing.Annotated[list[int], "FixedSize(3)"]]: ...

def active_isa() -> str: ...
def available_bytes() -> int | None: ...
def available_cores() -> int: ...
def build_info() -> dict[str, str]: ...
def check_network_output(path: str | bytes) -> None: ...
def choices(enumeration: str) -> tuple[str, ...]: ...
def count_interrupts(first: str, second: str) -> None: ...
def describe_bytes(bytes: float) -> str: ...
def flood_walkers(
    network: Ffn,
    examples: data.ExampleSource,
    options: WalkersOptions,
    *,
    seed_pad: float,
    threshold: float,
) -> Walkers: ...
def load_network(path: str | bytes, compute: str) -> Ffn | UNet: ...
def loss_rows() -> list[dict[str, typing.Any]]: ...
def masked_crc32c(content: bytes) -> int: ...
def network_limits() -> dict[str, dict[str, float]]: ...
def num_threads() -> int: ...
def optimizer_rows() -> list[dict[str, typing.Any]]: ...
def output_target(path: str | bytes) -> bytes: ...
def peak_resident_bytes() -> int: ...
def processor_isa() -> str: ...
def processor_name() -> str: ...
def replace_file(path: str | bytes, content: bytes) -> None: ...
def resident_bytes() -> int: ...
def sample_walkers(
    network: SampleNetwork,
    samples: data.PatchSource,
    options: WalkersOptions,
    loss: SegmentationLoss,
) -> Walkers: ...
def save_network(path: str | bytes, network: Network, statistics: str = "") -> None: ...
def scale_factor(
    rule: str,
    values: collections.abc.Mapping[str, float | str],
    workers: int,
    batch: int = 1,
    noise_scale: float | None = None,
) -> float: ...
def scale_rows() -> list[dict[str, typing.Any]]: ...
def scaled_optimizer(
    rule: str, optimizer: str, values: collections.abc.Mapping[str, float | str], workers: int
) -> dict[str, float | str]: ...
def schedule_rows() -> list[dict[str, typing.Any]]: ...
def score_segmentation(
    network: SampleNetwork,
    samples: data.PatchSource,
    communicator: comm.Communicator,
    progress: collections.abc.Callable[[int, int], typing.Any] | None = None,
) -> dict[str, typing.Any]: ...
def segmentation_loss(
    loss: SegmentationLoss,
    output: str,
    logits: numpy.typing.NDArray[numpy.float32],
    labels: numpy.typing.NDArray[numpy.uint8] | None,
    targets: numpy.typing.NDArray[numpy.float32] | None,
    weights: numpy.typing.NDArray[numpy.float32] | None,
    sum_over_ranks: collections.abc.Callable[[list[float]], collections.abc.Sequence[float]] | None,
) -> tuple[
    dict[str, typing.Any], numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]
]: ...
def set_num_threads(count: int) -> None: ...
def stored_text(path: str | bytes, name: str) -> str: ...
def training_limits() -> dict[str, dict[str, float]]: ...
def validate(
    network: Ffn,
    set: ValidationSet,
    *,
    seed_pad: float,
    threshold: float,
    softness: float,
    seed: int,
    communicator: comm.Communicator,
    progress: collections.abc.Callable[[int, int], typing.Any] | None = None,
) -> ValidationResult: ...

REQUEST_CHECKPOINT: int
REQUEST_LOG: int
REQUEST_RATE: int
REQUEST_STOP: int
__version__: str
