# SPDX-License-Identifier: Apache-2.0
"""Every number that a user can give has a range: whatever is given is accepted, or refused with one line."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
import numpy as np
import pytest
from flat_unet import flat_unet

import floodtide as ft
from floodtide import _core, cli, config
from floodtide.base import limits
from floodtide.base.data_options import DataOptions
from floodtide.base.networks import NETWORKS
from floodtide.base.options import Range, range_of, shown
from floodtide.base.tasks import TASKS, Affinities, Task
from floodtide.errors import ConfigurationError, InvalidArgumentError, InvalidFileError

NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 2**31, -(2**31) - 1, 2**32 + 4, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63),
    *(2**64, 10**400, -(10**400), 16**6000),
    *(0.0, -0.0, 0.5, 1.0, -1.0, 1e-308, 1e308, -1e308, math.nan, math.inf, -math.inf),
)
OTHERS: tuple[Any, ...] = ("", "1", "x" * 5000, True, [], [1], [[2**64]], {}, {"a": 1}, None)

Leaf = tuple[str, dataclasses.Field[Any], Any, str]  # key, field, type, kind of the task


def leaves(cls: Any, prefix: str, tasks: Sequence[type[Task]]) -> Iterator[Leaf]:
    """The keys that tables of a dataclass have for some of these tasks, with those of inner tables and alternatives."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        own = [task for task in tasks if task.has(field)]
        arguments = field.metadata.get("alternatives") or (hint, *typing.get_args(hint))
        tables = [a for a in arguments if dataclasses.is_dataclass(a)]
        for table in tables:
            index = ".0" if typing.get_origin(hint) is tuple else ""
            yield from leaves(table, f"{prefix}{field.name}{index}.", within(table, own))
        if own and not tables and "rows" not in field.metadata:
            yield f"{prefix}{field.name}", field, hint, own[0].kind


def within(table: Any, tasks: Sequence[type[Task]]) -> Sequence[type[Task]]:
    """The tasks of configurations that have a section: the section itself, or those that a network learns."""
    if table in TASKS:
        return [table]
    return [task for task in tasks if getattr(table, "examples", task.examples) == task.examples]


# Rows of corrections belong together: unit/train/test_pace.py.
LEAVES = [leaf for leaf in leaves(config.Config, "", TASKS) if leaf[0] != "training.corrections"]
IMAGE = {"image": "a.h5:a"}


def numbers_in(hint: Any) -> set[type]:
    """int and float, as far as a value of that type has them."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is Mapping:
        arguments = arguments[1:]
    return {hint} & {int, float} | {n for a in arguments for n in numbers_in(a)}


def document(key: str, kind: str, value: Any) -> dict[str, Any]:
    """A configuration of that task with one key set."""
    examples = next(task.examples for task in TASKS if task.kind == kind)
    model = next(network.kind for network in NETWORKS if network.examples == examples)
    result: dict[str, Any] = {"run": {"dir": "r"}, "task": {"kind": kind}, "model": {"kind": model}}
    result["data"] = {"volumes": [dict(IMAGE)]}
    *parents, last = key.split(".")
    node: Any = result
    for part, following in zip(parents, [*parents[1:], last], strict=True):
        fresh = [{} if key.startswith("segment") else dict(IMAGE)] if following.isdigit() else {}
        node = node[0] if part.isdigit() else node.setdefault(part, fresh)
    node[last] = value
    return result


def filled(hint: Any, number: Any) -> Any:
    """A value of that type, with the number wherever one is."""
    arguments = [a for a in typing.get_args(hint) if a is not type(None)]
    if typing.get_origin(hint) is Mapping:
        return {"a": filled(arguments[1], number)}
    if typing.get_origin(hint) is not tuple:
        return filled(arguments[0], number) if arguments else number
    items = arguments[:1] if arguments[-1] is Ellipsis else arguments
    return [filled(item, number) for item in items]


def test_every_number_of_the_configuration_has_a_range() -> None:
    without = [
        key for key, field, hint, _ in LEAVES if numbers_in(hint) and not field.metadata["range"]
    ]
    assert not without
    assert len([1 for _, field, _, _ in LEAVES if field.metadata["range"]]) > 50


def test_defaults_are_inside_their_ranges() -> None:
    for key, field, _, _ in LEAVES:
        if field.metadata["range"] and field.default not in (None, dataclasses.MISSING):
            field.metadata["range"].check(field.default, key)


@pytest.mark.parametrize(
    ("key", "field", "hint", "kind"), LEAVES, ids=[f"{leaf[0]}-{leaf[3]}" for leaf in LEAVES]
)
def test_every_key_accepts_or_refuses_with_one_line(
    key: str, field: dataclasses.Field[Any], hint: Any, kind: str
) -> None:
    inside: Range | None = field.metadata["range"]
    odd = [below(inside), above(inside)] if inside else []
    for number in (*NUMBERS, *odd):
        of_type = (numbers_in(hint) == {int} and type(number) is int) or float in numbers_in(hint)
        error = refusal(document(key, kind, filled(hint, number)), key)
        if inside is None:
            assert error
        else:
            assert (not error) == (of_type and number in inside), (number, error)
    for other in OTHERS:
        refusal(document(key, kind, other), key)


def refusal(table: dict[str, Any], key: str) -> str:
    """The line with which a configuration is refused; empty if it is accepted."""
    try:
        config.from_dict(table, "a.toml")
    except ConfigurationError as error:
        text = str(error)
        assert "\n" not in text
        assert len(text) < 6000
        assert key.rsplit(".", 1)[-1] in text
        assert "expected" in text
        return text
    return ""


def below(limits: Range) -> float:
    step = 1 if limits.whole else abs(limits.minimum) * 1e-6 + 1e-6
    return limits.minimum - (0 if limits.above else step)


def above(limits: Range) -> float:
    step = 1 if limits.whole else abs(limits.maximum) * 1e-6
    return limits.maximum + (0 if limits.below else step)


@pytest.mark.parametrize("row", _core.optimizer_rows(), ids=lambda row: row["name"])
def test_every_parameter_of_a_registered_optimizer_has_a_range(row: dict[str, Any]) -> None:
    for spec in row["parameters"]:
        if spec["type"] not in ("real", "integer"):
            continue
        inside = Range.of_core(spec["limits"])
        assert inside.minimum >= 0
        assert inside.maximum <= 1e12
        for number in (*NUMBERS, below(inside), above(inside)):
            table = {"optimizer": {"name": row["name"], spec["name"]: number}}
            assert (not refusal(table, spec["name"])) == (number in inside), number


def test_schedules_refuse_what_their_rows_exclude() -> None:
    elsewhere = ("base_lr", "total_steps")  # keys of other sections
    for row in _core.schedule_rows():
        for spec in row["parameters"]:
            if spec["type"] not in ("real", "integer") or spec["name"] in elsewhere:
                continue
            inside = range_of(spec)
            for number in (*NUMBERS, below(inside), above(inside)):
                table = {"schedule": {"name": row["name"], spec["name"]: number}}
                accepted = number in inside
                assert (not refusal(table, spec["name"])) == accepted, (row["name"], number)


def test_schedules_rows_have_ranges() -> None:
    for row in _core.schedule_rows():
        for spec in row["parameters"]:
            if spec["type"] in ("real", "integer"):
                assert spec["limits"]["maximum"] <= 1e12, spec["name"]


def test_messages_name_value_range_and_unit() -> None:
    with pytest.raises(ConfigurationError) as caught:
        config.from_dict({"data": {"prefetch": 2**62}}, "fib25.toml")
    assert (
        str(caught.value)
        == "fib25.toml: data.prefetch is 4611686018427387904, expected 0 to 1024 (examples)"
    )


@pytest.mark.parametrize(
    "text", ["9" * 5000, "0x" + "f" * 5000, "[" * 5000, "1e400", "nan", "-inf"]
)
def test_odd_toml_is_one_line(tmp_path: Any, text: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f"[data]\nprefetch = {text}\n")
    for load in (
        lambda: config.load(path),
        lambda: config.from_dict({}) and config.load(empty(tmp_path), [f"data.prefetch={text}"]),
        lambda: config.load(empty(tmp_path), [f"data.volumes.{text}.name=x"]),
    ):
        with pytest.raises((ConfigurationError, InvalidFileError)) as caught:
            load()
        assert "\n" not in str(caught.value)


def empty(folder: Any) -> Any:
    path = folder / "empty.toml"
    path.write_text('[[data.volumes]]\nname = "a"\nimage = "a.h5:a"\n')
    return path


def test_choices_are_checked_in_scripts_as_in_files() -> None:
    with pytest.raises(ConfigurationError, match=r"^RunConfig: compute is 'x', expected 'fp32',"):
        config.RunConfig(compute="x")
    with pytest.raises(ConfigurationError, match=r"^a\.toml: run\.compute is 'x', expected 'fp32'"):
        config.from_dict({"run": {"compute": "x"}}, "a.toml")


@pytest.mark.parametrize("section", [config.RunConfig, DataOptions, config.SegmentOptions])
def test_dataclasses_made_in_scripts_are_checked(section: Any) -> None:
    for field in dataclasses.fields(section):
        if field.metadata.get("range") is None:
            continue
        for number in (10**400, math.nan, -math.inf):
            with pytest.raises(ConfigurationError, match=f"{section.__name__}: {field.name}"):
                section(**{field.name: filled(typing.get_type_hints(section)[field.name], number)})


CALLS: dict[str, tuple[Callable[[Any], Any], Range]] = {
    "FFN depth": (
        lambda n: ft.nn.FFN(depth=n, features=1, fov=(3, 3, 3), deltas=(1, 1, 1)),
        limits.FFN_DEPTH,
    ),
    "FFN features": (
        lambda n: ft.nn.FFN(depth=1, features=n, fov=(3, 3, 3), deltas=(1, 1, 1)),
        limits.FFN_FEATURES,
    ),
    "FFN fov": (
        lambda n: ft.nn.FFN(depth=1, features=1, fov=(n, n, n), deltas=(0, 0, 0)),
        limits.FIELD_OF_VIEW,
    ),
    "FFN deltas": (lambda n: ft.nn.FFN(depth=1, features=1, deltas=(n, n, n)), limits.DELTA),
    "FFN seed": (lambda n: ft.nn.FFN(depth=1, features=1, seed=n), limits.SEED),
    "UNet depth": (flat_unet, Range(1, 2)),
    "UNet features": (
        lambda n: flat_unet(1, features=n),
        limits.UNET_FEATURES,
    ),
    "UNet classes": (
        lambda n: flat_unet(1, classes=n),
        limits.CLASSES,
    ),
    "UNet dropout": (
        lambda n: flat_unet(1, dropout=n),
        limits.DROPOUT,
    ),
    "UNet kernels": (
        lambda n: ft.nn.UNet(ft.nn.UNetOptions(depth=1, kernels=((n, 3, 3),), pools=())),
        limits.KERNEL,
    ),
    "UNet pools": (
        lambda n: ft.nn.UNet(ft.nn.UNetOptions(depth=2, kernels=((1, 1, 1),), pools=((n, 1, 1),))),
        limits.POOL,
    ),
    "loss smooth": (lambda n: ft.nn.SegmentationLoss(smooth=n).core(), limits.WEIGHT),
    "Shards walkers": (
        lambda n: ft.data.Shards([], patch_size=(3, 3, 3), walkers=n),
        limits.WALKERS,
    ),
    "Shards patch": (
        lambda n: ft.data.Shards([], patch_size=(n, 3, 3)),
        limits.PATCH,
    ),
    "Patches batch": (
        lambda n: ft.data.Patches(ft.data.TrainingVolume("a:b", "a:c"), task=Affinities(), batch=n),
        limits.BATCH,
    ),
    "patches": (
        lambda n: ft.data.DataOptions(patches=n),
        limits.COUNT_OR_NONE,
    ),
    "partition radius": (
        lambda n: ft.data.partition("a:b", "c:d", lom_radius=(n, 1, 1)),
        limits.RADIUS,
    ),
    "partition thresholds": (
        lambda n: ft.data.partition("a:b", "c:d", thresholds=[n]),
        limits.FRACTION,
    ),
    "synth shape": (lambda n: ft.data.synth((n, 8, 8)), Range(8, 16)),
    "optimizer eps": (lambda n: ft.optim.Adam(eps=n), Range(0.0, 1.0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_given_in_python_are_refused_with_one_line(name: str) -> None:
    call, inside = CALLS[name]
    refused = []
    for number in NUMBERS:
        if number in inside and number > 2**20:
            continue  # accepted, and a large network
        try:
            call(number)
        except ft.errors.Error as error:
            refused.append(str(error))
    assert refused
    assert not [text for text in refused if "\n" in text or len(text) > 500]


@pytest.mark.parametrize(
    "call",
    [
        lambda n: _core.FfnOptions(depth=n, features=1),
        lambda n: _core.FfnOptions(depth=1, features=1, fov=[n, 3, 3]),
        lambda n: _core.set_num_threads(n),
        lambda n: _core.scale_factor("none", {}, n),
    ],
)
def test_the_border_to_the_core_refuses_what_its_types_cannot_hold(
    call: Callable[[Any], Any],
) -> None:
    for number in (2**63, 2**64, -(2**63) - 1, 10**400, 16**6000):
        with pytest.raises(InvalidArgumentError) as caught:
            call(number)
        assert "\n" not in str(caught.value)
        assert "expected" in str(caught.value)


def test_the_border_takes_numpys_numbers() -> None:
    network = ft.nn.FFN(
        depth=np.int32(2), features=np.uint8(3), fov=np.array([5, 5, 5]), deltas=(np.int64(1),) * 3
    )
    assert (network.depth, network.features, network.fov) == (2, 3, (5, 5, 5))


def commands(group: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(group, click.Group):
        context = click.Context(group)
        for word in group.list_commands(context):
            command = group.get_command(context, word)
            assert command is not None
            yield from commands(command, f"{name} {word}")
    else:
        yield name, group


COMMANDS = dict(commands(cli.group))


def test_every_number_of_every_command_has_a_range() -> None:
    assert len(COMMANDS) >= 30
    odd = [
        f"{name} {parameter.opts[0]}: {parameter.type}"
        for name, command in COMMANDS.items()
        for parameter in command.params
        if isinstance(parameter.type, (type(click.INT), type(click.FLOAT)))
    ]
    assert not odd


@pytest.mark.parametrize("name", COMMANDS)
def test_numbers_on_command_lines_are_refused_with_one_line(name: str) -> None:
    for parameter in COMMANDS[name].params:
        kind = parameter.type
        if not kind.name.startswith(("N", "integer", "float")):  # one number, or several
            continue
        for text in (
            "nan",
            "inf",
            "-1e400",
            "1e309",
            "9" * 5000,
            "-1" * 30,
            "x",
            "",
            " ",
            "0x10",
            "²",
        ):
            with pytest.raises(click.BadParameter) as caught:
                kind.convert(text, parameter, None)
            assert "\n" not in caught.value.format_message()
            assert "expected" in caught.value.format_message()


@pytest.mark.parametrize(
    "arguments",
    [
        ["partition", "a.h5:a", "b.h5:b", "--thresholds", "nan"],
        ["partition", "a.h5:a", "b.h5:b", "--lom-radius", "9" * 50 + ",1,1"],
        ["partition", "a.h5:a", "b.h5:b", "--box", "0:" + "9" * 5000 + ",0:1,0:1"],
        ["predict", "a.h5", "b.h5:b", "c.h5:c", "--mean", "nan"],
        ["lab", "simulate", "--compute-s", "1", "--ranks", "0"],
        ["lab", "simulate", "--compute-s", "1", "--ranks", "1048576", "--steps", "1000000"],
        ["demo", "--steps", "-1"],
        ["lab", "synth", "a.h5", "--shape", "4097,8,8"],
        ["convert", "a", "b.h5", "--fov", "1," + "9" * 5000 + ",1"],
    ],
)
def test_commands_end_with_one_line_and_status_2(
    arguments: list[str],
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(arguments) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert "expected" in said
    assert not list(tmp_path.iterdir())


def test_ranges_are_shown_as_people_write_them() -> None:
    assert str(Range(0, 1024, "examples")) == "0 to 1024 (examples)"
    assert str(Range(0.0, 1.0, above=True)) == "above 0 and at most 1"
    assert str(Range(0.0, 1.0, below=True)) == "at least 0 and below 1"
    assert shown(16**6000) == "a number of thousands of digits"
    assert shown(10**100) == "1" + "0" * 59 + "..."
