# SPDX-License-Identifier: Apache-2.0
"""The configuration of a run: frozen dataclasses, read from TOML, checked key by key.

Every field carries its help text (and unit) in its metadata; docs/configuration.md is generated from them.
Relative paths are relative to the working directory; `~` and `$NAME` are expanded in them.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from floodtide import _core
from floodtide._files import replace_text
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.options import REQUIRED, option
from floodtide.segment import SegmentOptions

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[import-not-found,no-redef]

Vec3 = tuple[int, int, int]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Where a run lives and how often it reports."""

    dir: str = option("runs/run", "Run directory; training resumes from its checkpoints", path=True)
    seed: int = option(0, "Seed of everything random: weights, examples, order, augmentation")
    threads: int = option(
        0,
        "Compute threads of each rank; 0: OMP_NUM_THREADS, else the cores divided by the ranks of the node",
    )
    log_every_s: float = option(10.0, "Seconds between two lines of the log")
    checkpoint_every_s: float = option(
        300.0, "Seconds between two checkpoints; one is always written at the end"
    )
    stop_after_s: float = option(
        0.0,
        "Seconds of training after which the run stops with a checkpoint; 0: only after training.steps",
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
    )
    keep_checkpoints: int = option(3, "Newest checkpoints that are kept")
    trace: bool = option(
        False, "Record what each rank does, and when, in trace.json (Chrome trace, Perfetto)"
    )


@dataclass(frozen=True, kw_only=True)
class VolumeConfig:
    """One image volume with its labels."""

    name: str = option(REQUIRED, "Name in messages and logs")
    image: str = option(REQUIRED, "Image, file:dataset (HDF5, axes z, y, x)", path=True)
    labels: str = option(
        "", "Object ids, file:dataset; needed for training and validation", path=True
    )
    partitions: str = option(
        "", "Partition volume of `floodtide partition`, file:dataset", path=True
    )
    box: str = option("", "Part to use, z0:z1,y0:y1,x0:x1 in voxels; empty: all of it")
    mean: float = option(128.0, "Image mean: the network sees (image - mean) / std")
    std: float = option(33.0, "Image standard deviation")
    voxel_size_nm: tuple[float, float, float] = option(
        (1.0, 1.0, 1.0), "Voxel size (z, y, x) in nanometres, for pictures"
    )


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Training volumes and augmentation."""

    volumes: tuple[VolumeConfig, ...] = option(
        (), "Training volumes, one [[data.volumes]] table each"
    )
    permutable_axes: tuple[int, ...] = option(
        (1, 2), "Axes (0 z, 1 y, 2 x) that augmentation permutes among themselves"
    )
    reflectable_axes: tuple[int, ...] = option((0, 1, 2), "Axes that augmentation reflects")
    coordinates: str = option(
        "",
        "File of `floodtide coordinates` to take examples from, instead of drawing from the partitions",
        path=True,
    )
    prefetch: int = option(2, "Examples that each walker has ready in advance")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network."""

    kind: str = option("ffn", "Network kind", choices=("ffn",))
    depth: int = option(9, "Modules: one input module and depth - 1 residual modules")
    features: int = option(32, "Feature maps of each convolution")
    fov: Vec3 = option((33, 33, 33), "Field of view (z, y, x) in voxels, odd")
    deltas: Vec3 = option((8, 8, 8), "Step of the field of view (z, y, x) in voxels")
    initial_weights: str = option(
        "",
        "Checkpoint of ours or TensorFlow prefix to start from; empty: Glorot-uniform weights",
        path=True,
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The training loop."""

    steps: int = option(10_000, "Optimizer updates; each takes one FOV of every walker")
    walkers: int = option(
        0, "Streams of examples over all ranks (the global batch); 0: one per rank"
    )
    moves: str = option("fixed", "FOV moves within an example", choices=("fixed",))
    seed_pad: float = option(0.05, "Probability that an unvisited voxel starts with")
    threshold: float = option(0.9, "Probability at a FOV centre from which a move is made")
    softness: float = option(
        0.05, "Targets are 1 - softness inside the object and softness outside"
    )
    clip: float = option(0.7, "Each gradient entry is clipped to [-clip, clip] after averaging")
    average: float = option(
        0.0,
        "Decay of an exponential moving average of the parameters, which validation and readers of"
        " the checkpoints use instead of the last ones; 0: none",
    )
    accumulate: int = option(1, "FOVs of each walker whose gradients make one update")
    on_exhausted: str = option(
        "cycle",
        "When a walker has been through its shard: cycle begins it anew, join lets it leave and the others go on"
        " until the last one, stop ends the training",
        choices=("cycle", "join", "stop"),
    )
    epochs: int = option(1, "Passes through its shard that exhaust a walker, for join and stop")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The optimizer; its further parameters are the ones listed for its name."""

    name: str = option("adam", "Optimizer")
    lr: float = option(1e-3, "Base learning rate, tuned for one walker")
    values: Mapping[str, float | bool] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType({}),
        metadata={"help": "Parameters of the chosen optimizer"},
    )


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """The learning rate against steps and walkers."""

    scale: str = option(
        "none",
        "Rate multiplier for W walkers: none 1, linear W, sqrt the root of W",
        choices=("none", "linear", "sqrt"),
    )
    warmup_steps: int = option(0, "Updates over which the rate rises linearly to its scaled value")
    warmup_start: str = option(
        "base", "Where the warm-up starts: the base rate or zero", choices=("base", "zero")
    )


@dataclass(frozen=True, kw_only=True)
class CommConfig:
    """How ranks average gradients, and how long they wait for each other."""

    algorithm: str = option(
        _core.comm.default_allreduce,
        "Allreduce: ring, rabenseifner, recursive_doubling, two_level, mpi (the library's), a table "
        "name:first-last,... by bytes, or auto (measured at the start: another run may choose otherwise)",
    )
    bucket_mib: float = option(
        0.25, "Least size (MiB) of the parts in which gradients are summed while backward goes on"
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
    contributors: int = option(0, "Ranks whose gradients make an update in mode partial; 0: all")
    late: str = option(
        "drop",
        "Gradients that come after their update, in mode partial: drop, or carry into the next one",
        choices=("drop", "carry"),
    )
    timeout_s: float = option(
        300.0, "A rank that is silent or waited for so long (s) ends the job, by name; 0: never"
    )
    on_lost_rank: str = option(
        "abort",
        "When a rank is lost: abort the job, or (experimental) shrink to the others, which take over its walkers and"
        " go on from the newest checkpoint; needs Open MPI's mpiexec --with-ft ulfm, and mode synchronous",
        choices=("abort", "shrink"),
    )


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """Validation on a fixed set of seeded centres (see docs/algorithms.md)."""

    volume: str = option("", "Name of the volume; empty: the first one")
    box: str = option("", "Held-out part, z0:z1,y0:y1,x0:x1; empty: no validation")
    every: int = option(0, "Steps between two validations; 0: only at the end")
    centres: int = option(64, "Centres, balanced over the partition classes 1 to 13")
    seed: int = option(0, "Seed of the choice of centres")


@dataclass(frozen=True, kw_only=True)
class Config:
    """A whole configuration file."""

    run: RunConfig = RunConfig()
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    comm: CommConfig = CommConfig()
    validation: ValidationConfig = ValidationConfig()
    segment: SegmentOptions = SegmentOptions()


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file and apply `a.b=value` overrides.

    Raises:
        InvalidFileError: If the file is missing or not TOML.
        ConfigurationError: If a key is unknown or a value has the wrong type.
    """
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot read the configuration: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidFileError(f"{path}: not valid TOML: {error}") from None
    for override in overrides:
        _override(document, override)
    return from_dict(document, str(path))


def from_dict(document: Mapping[str, Any], where: str = "configuration") -> Config:
    """Build a configuration from nested dictionaries, as TOML gives them. Raises ConfigurationError."""
    return _build(Config, document, "", where)


def to_dict(config: Any) -> dict[str, Any]:
    """Nested dictionaries of plain values, the inverse of `from_dict`."""
    result: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Mapping):
            result.update(value)
        elif value is not None:
            result[field.name] = _plain(value)
    return result


def dumps(config: Config) -> str:
    """The resolved configuration as TOML text."""
    return tomli_w.dumps(to_dict(config))


def save(config: Config, path: str | Path) -> None:
    """Write the resolved configuration as TOML: beside the target, then renamed."""
    replace_text(Path(path), dumps(config))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _override(document: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigurationError(f"--set {override}: expected section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *parents, last = key.strip().split(".")
    node: Any = document
    for part in parents:
        if isinstance(node, list):
            if not part.isdigit() or int(part) >= len(node):
                raise ConfigurationError(
                    f"--set {override}: '{part}' is not one of the {len(node)} tables there, counted from 0"
                )
            node = node[int(part)]
        else:
            node = node.setdefault(part, {})
        if not isinstance(node, (dict, list)):
            raise ConfigurationError(f"--set {override}: '{part}' is a value, not a section")
    if isinstance(node, list):
        raise ConfigurationError(f"--set {override}: expected the number of a table before the key")
    node[last] = value


def _build(cls: type[T], table: Any, prefix: str, where: str) -> T:
    """An instance of the dataclass `cls` from a TOML table; a ConfigurationError names the key that is wrong."""
    if not isinstance(table, Mapping):
        raise ConfigurationError(
            f"{where}: [{prefix.rstrip('.')}] is {_type_name(table)}, expected a table"
        )
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if cls is OptimizerConfig:
        table = _split_optimizer(table, where)
    else:
        _refuse_unknown(table, fields, prefix, where)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        key = prefix + name
        if name in table:
            value = (
                table[name] if name == "values" else _convert(table[name], hints[name], key, where)
            )
            choices = field.metadata.get("choices", ())
            if choices and value not in choices:
                raise ConfigurationError(
                    f"{where}: {key} is '{value}', expected {_one_of(choices)}"
                )
            values[name] = _expand(value, key, where) if field.metadata.get("path") else value
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigurationError(
                f"{where}: {key} is missing, expected {_describe(hints[name])}"
            )
    return cls(**values)


def _split_optimizer(table: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Separates `name` and `lr` from the parameters of the optimizer's registry row."""
    rows = {row["name"]: row for row in _core.optimizer_rows()}
    name = table.get("name", OptimizerConfig.name)
    if name not in rows:
        raise ConfigurationError(
            f"{where}: optimizer.name is '{name}', expected {_one_of(list(rows))}"
        )
    known = {parameter["name"]: parameter for parameter in rows[name]["parameters"]}
    _refuse_unknown(table, ["name", "lr", *known], "optimizer.", where)
    values: dict[str, Any] = {}
    for key, parameter in known.items():
        if key in table:
            expected = bool if isinstance(parameter["default"], bool) else float
            values[key] = _convert(table[key], expected, f"optimizer.{key}", where)
    head = {key: table[key] for key in ("name", "lr") if key in table}
    return {**head, "values": types.MappingProxyType(values)}


def _refuse_unknown(table: Mapping[str, Any], known: Any, prefix: str, where: str) -> None:
    for key in table:
        if key not in known:
            nearest = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
            hint = (
                f", did you mean '{prefix}{nearest[0]}'?"
                if nearest
                else f", expected one of: {', '.join(known)}"
            )
            raise ConfigurationError(f"{where}: unknown key '{prefix}{key}'{hint}")


def _convert(value: Any, expected: Any, key: str, where: str) -> Any:
    origin = typing.get_origin(expected)
    if dataclasses.is_dataclass(expected):
        return _build(typing.cast(type, expected), value, f"{key}.", where)
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in typing.get_args(expected) if argument is not type(None)]
        return _convert(value, inner[0], key, where)
    wrong = ConfigurationError(
        f"{where}: {key} is {_type_name(value)}, expected {_describe(expected)}"
    )
    if origin is tuple:
        arguments = typing.get_args(expected)
        if not isinstance(value, (list, tuple)):
            raise wrong
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(
                _convert(item, arguments[0], f"{key}.{i}", where) for i, item in enumerate(value)
            )
        if len(value) != len(arguments):
            raise ConfigurationError(
                f"{where}: {key} has {len(value)} entries, expected {len(arguments)} (z, y, x)"
            )
        return tuple(
            _convert(item, kind, f"{key}.{i}", where)
            for i, (item, kind) in enumerate(zip(value, arguments, strict=True))
        )
    if expected is float and type(value) in (int, float):
        return float(value)
    if type(value) is not expected:
        raise wrong
    return value


def _expand(value: str, key: str, where: str) -> str:
    expanded = os.path.expandvars(os.path.expanduser(value))
    missing = re.search(r"\$\{?(\w+)", expanded)
    if missing:
        raise ConfigurationError(
            f"{where}: {key} is '{value}', but the environment variable {missing.group(1)} is not set"
        )
    return expanded


def _type_name(value: Any) -> str:
    names: dict[type, str] = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "a table",
    }
    return f"{names.get(type(value), type(value).__name__)} ({value!r})"


def _describe(expected: Any) -> str:
    if dataclasses.is_dataclass(expected):
        return "a table"
    if typing.get_origin(expected) is tuple:
        arguments = typing.get_args(expected)
        inner = _describe(arguments[0]).split(" ", 1)[1]
        return (
            f"a list of {inner}s"
            if arguments[-1] is Ellipsis
            else f"a list of {len(arguments)} {inner}s"
        )
    return {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}.get(
        expected, str(expected)
    )


def _one_of(names: Sequence[str]) -> str:
    return (
        ", ".join(f"'{name}'" for name in names[:-1])
        + (" or " if len(names) > 1 else "")
        + f"'{names[-1]}'"
    )
