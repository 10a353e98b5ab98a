# SPDX-License-Identifier: Apache-2.0
# Written by tests/scripts/make_stubs.py from the compiled module. Do not edit.
from __future__ import annotations

import collections.abc
import typing

import numpy
import numpy.typing

__all__: list[str] = [
    "Augmentation",
    "Channel",
    "Channels",
    "ExampleOptions",
    "ExampleSource",
    "Hdf5Writer",
    "LabelPart",
    "LabelledImage",
    "PartitionJob",
    "PatchOptions",
    "PatchSource",
    "Region",
    "SampleOrderOptions",
    "SourceOptions",
    "Targets",
    "Volume",
    "absent_chunks",
    "affinity_targets",
    "array_volume",
    "check_output",
    "class_targets",
    "distance_targets",
    "exists",
    "has_attributes",
    "limits",
    "parse_dataset_name",
    "python_volume",
    "require_block",
    "synth",
]

class Volume:
    def __init__(self, file: str, dataset: str, channel: int | None = None) -> None: ...
    def integers(self, attribute: str) -> list[int] | None: ...
    def numbers(self, attribute: str) -> list[float] | None: ...
    def read(
        self,
        start: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    ) -> numpy.typing.NDArray[typing.Any]: ...
    def read_intensities(
        self,
        start: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    ) -> numpy.typing.NDArray[numpy.float32]: ...
    def text(self, attribute: str) -> str: ...
    def texts(self, attribute: str) -> list[str]: ...
    @property
    def chunks(self) -> tuple[int, int, int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, int, int]: ...

class Hdf5Writer:
    def __init__(
        self,
        path: str | bytes,
        command: str,
        objects: collections.abc.Sequence[str],
        format: str = "",
        described: str = "",
    ) -> None: ...
    def attribute(self, object: str, name: str, value: typing.Any) -> None: ...
    def create(
        self,
        dataset: str,
        type: str,
        shape: collections.abc.Sequence[int],
        chunks: collections.abc.Sequence[int],
        gzip: int,
        fill: float = 0.0,
    ) -> None: ...
    def discard(self) -> None: ...
    def finish(self) -> None: ...
    def write(
        self, dataset: str, start: collections.abc.Sequence[int], block: numpy.ndarray
    ) -> None: ...

class Channels:
    def __init__(self, path: str, dataset: str) -> None: ...
    def numbers(self, attribute: str) -> list[float] | None: ...
    def read(
        self,
        start: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        channels: int | None = None,
    ) -> numpy.typing.NDArray[numpy.float32]: ...
    def text(self, attribute: str) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def start(self) -> typing.Annotated[list[int], "FixedSize(3)"] | None: ...

class PartitionJob:
    def __init__(
        self,
        labels: str | Volume,
        thresholds: collections.abc.Sequence[float],
        lom_radius: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        min_size: int,
        box: tuple[tuple[int, int, int], tuple[int, int, int]] | None,
    ) -> None: ...
    def block(self, number: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]: ...
    def compute(self, begin: int, end: int) -> list[numpy.typing.NDArray[numpy.uint8]]: ...
    def count(
        self,
        begin: int,
        end: int,
        progress: collections.abc.Callable[[int, int], typing.Any] | None,
    ) -> numpy.typing.NDArray[numpy.int64]: ...
    def keep_large(
        self, tables: collections.abc.Sequence[numpy.typing.NDArray[numpy.int64]]
    ) -> None: ...
    @property
    def blocks(self) -> int: ...
    @property
    def counting_blocks(self) -> int: ...

class Augmentation:
    blur: float
    dark_section: float
    defocused_section: float
    elastic: float
    faint_object: float
    gain: float
    gamma: float
    missing_section: float
    noise: float
    offset: float
    rotate_in_space: bool
    rotation_deg: float
    scale: float
    shifted_section: float

    def __init__(self, **kwargs: typing.Any) -> None: ...
    def drawn(
        self,
        patch: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        seed: int,
        epoch: int,
        number: int,
    ) -> dict[str, typing.Any]: ...
    @property
    def permutable_axes(self) -> list[int]: ...
    @permutable_axes.setter
    def permutable_axes(self, arg0: collections.abc.Sequence[int]) -> None: ...
    @property
    def reflectable_axes(self) -> list[int]: ...
    @reflectable_axes.setter
    def reflectable_axes(self, arg0: collections.abc.Sequence[int]) -> None: ...

class Targets:
    def make(
        self, labels: typing.Any, training: bool
    ) -> (
        tuple[int, numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.uint8]]
        | tuple[
            int,
            numpy.typing.NDArray[numpy.float32],
            numpy.typing.NDArray[numpy.float32],
            numpy.typing.NDArray[numpy.float32],
        ]
    ): ...
    @property
    def classes(self) -> bool: ...
    @property
    def outputs(self) -> int: ...
    @property
    def soft_from(self) -> int: ...

class LabelPart:
    def __init__(
        self,
        volume: str | Volume,
        *,
        values: collections.abc.Sequence[tuple[int, int]],
        others: int | None = None,
        refuse: bool = False,
    ) -> None: ...

class Channel:
    def __init__(self, image: str | Volume, *, mean: float, std: float) -> None: ...

class LabelledImage:
    def __init__(
        self,
        *,
        name: str,
        channels: collections.abc.Sequence[Channel],
        labels: collections.abc.Sequence[LabelPart],
        labels_start: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    ) -> None: ...

class Region:
    box: tuple[tuple[int, int, int], tuple[int, int, int]]
    group: int
    image: int

    def __init__(self, **kwargs: typing.Any) -> None: ...

class SampleOrderOptions:
    batch: int
    seed: int
    walkers: int

    def __init__(self, **kwargs: typing.Any) -> None: ...

class PatchOptions:
    augmentation: Augmentation
    order: SampleOrderOptions
    patches: int | None
    whole: bool

    def __init__(self, **kwargs: typing.Any) -> None: ...
    @property
    def class_weights(self) -> list[float]: ...
    @class_weights.setter
    def class_weights(self, arg0: collections.abc.Sequence[float]) -> None: ...
    @property
    def patch(self) -> tuple[int, int, int]: ...
    @patch.setter
    def patch(
        self, arg1: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
    ) -> None: ...

class PatchSource:
    def __init__(
        self,
        images: collections.abc.Sequence[LabelledImage],
        regions: collections.abc.Sequence[Region],
        groups: collections.abc.Sequence[str],
        targets: Targets,
        options: PatchOptions,
        progress: collections.abc.Callable[[int, int], typing.Any] | None,
    ) -> None: ...
    def fixed(
        self, number: int
    ) -> (
        tuple[int, numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.uint8]]
        | tuple[
            int,
            numpy.typing.NDArray[numpy.float32],
            numpy.typing.NDArray[numpy.float32],
            numpy.typing.NDArray[numpy.float32],
        ]
    ): ...
    def fixed_place(self, number: int) -> Region: ...
    def load(
        self, walker: int, epoch: int, index: int
    ) -> (
        tuple[int, numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.uint8]]
        | tuple[
            int,
            numpy.typing.NDArray[numpy.float32],
            numpy.typing.NDArray[numpy.float32],
            numpy.typing.NDArray[numpy.float32],
        ]
    ): ...
    def number(self, walker: int, epoch: int, index: int) -> int: ...
    def per_walker(self, walker: int, epoch: int) -> int: ...
    def training_place(self, epoch: int, number: int) -> Region: ...
    @property
    def fixed_size(self) -> int: ...
    @property
    def groups(self) -> list[str]: ...
    @property
    def label_counts(self) -> list[int]: ...
    @property
    def outputs(self) -> int: ...
    @property
    def size(self) -> int: ...

class SourceOptions:
    def __init__(
        self,
        *,
        name: str,
        image: str | Volume,
        labels: str | Volume,
        partitions: str | Volume = "",
        box: tuple[tuple[int, int, int], tuple[int, int, int]] | None = None,
        mean: float = 0.0,
        std: float = 1.0,
    ) -> None: ...

class ExampleOptions:
    augmentation: Augmentation
    seed: int
    softness: float
    walkers: int

    def __init__(self, **kwargs: typing.Any) -> None: ...
    @property
    def patch_size(self) -> tuple[int, int, int]: ...
    @patch_size.setter
    def patch_size(
        self, arg1: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
    ) -> None: ...

class ExampleSource:
    def __init__(
        self,
        volumes: collections.abc.Sequence[SourceOptions],
        options: ExampleOptions,
        progress: collections.abc.Callable[[int, int], typing.Any] | None,
    ) -> None: ...
    def centre(
        self, walker: int, epoch: int, index: int
    ) -> tuple[int, typing.Annotated[list[int], "FixedSize(3)"]]: ...
    def load(
        self, walker: int, epoch: int, index: int
    ) -> tuple[numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]]: ...
    def per_walker(self, walker: int) -> int: ...
    def set_load_delay(self, seconds: float) -> None: ...
    @property
    def examples(self) -> int: ...

def absent_chunks(file: str, dataset: str) -> tuple[int, int]: ...
def affinity_targets(
    offsets: collections.abc.Sequence[
        typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"]
    ],
    *,
    balance: bool,
    descriptors: typing.Annotated[collections.abc.Sequence[float], "FixedSize(3)"],
) -> Targets: ...
def array_volume(array: numpy.typing.NDArray[typing.Any], name: str) -> Volume: ...
def check_output(
    path: str | bytes, command: str, objects: collections.abc.Sequence[str], described: str = ""
) -> None: ...
def class_targets(count: int) -> Targets: ...
def distance_targets(
    scale: float, *, voxel_size: typing.Annotated[collections.abc.Sequence[float], "FixedSize(3)"]
) -> Targets: ...
def exists(file: str, object: str) -> bool: ...
def has_attributes(file: str, object: str, names: collections.abc.Sequence[str]) -> list[str]: ...
def limits() -> dict[str, dict[str, float]]: ...
def parse_dataset_name(reference: str) -> tuple[str, str]: ...
def python_volume(
    read: collections.abc.Callable[
        [tuple[int, int, int], tuple[int, int, int]], numpy.typing.NDArray[typing.Any]
    ],
    name: str,
    *,
    shape: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    chunks: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    dtype: str,
) -> Volume: ...
def require_block(
    file: str,
    dataset: str,
    start: collections.abc.Sequence[int],
    count: collections.abc.Sequence[int],
) -> None: ...
def synth(
    shape: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    seed: int,
    progress: collections.abc.Callable[[int, int], typing.Any] | None,
) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]: ...
