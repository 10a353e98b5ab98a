# SPDX-License-Identifier: Apache-2.0
"""Configuration files: every key checked, every mistake named."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import floodtide as ft
from floodtide import _core, config
from floodtide.base.networks import NETWORKS
from floodtide.base.tasks import TASKS, Classes
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.train.learners import LEARNERS

EXAMPLE = """
[run]
dir = "runs/a"
[[data.volumes]]
name = "sample"
image = "raw.h5:raw"
mean = 120
[model]
fov = [33, 33, 17]
[optimizer]
name = "adam"
lr = 2e-3
beta1 = 0.8
"""


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.toml"
    path.write_text(EXAMPLE)
    return path


def test_values_and_defaults(example: Path) -> None:
    loaded = config.load(example)
    assert loaded.data.volumes[0].mean == 120.0
    assert loaded.model.fov == (33, 33, 17)
    assert loaded.optimizer.lr == 2e-3
    assert loaded.optimizer.values["beta1"] == 0.8
    assert loaded.training.clip == 0.7


def test_resolved_configuration_reads_back_equal(example: Path, tmp_path: Path) -> None:
    loaded = config.load(example)
    (tmp_path / "resolved.toml").write_text(str(loaded))
    assert config.load(tmp_path / "resolved.toml") == loaded


def test_overrides_reach_values_tables_and_lists(example: Path) -> None:
    loaded = config.load(
        example,
        [
            "training.steps=5",
            "data.volumes.0.name=other",
            "model.fov=[9, 9, 9]",
            "comm.algorithm=mpi",
        ],
    )
    assert loaded.training.steps == 5
    assert loaded.data.volumes[0].name == "other"
    assert loaded.model.fov == (9, 9, 9)
    assert loaded.comm.algorithm == "mpi"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.stepz=5", "unknown key 'training.stepz', did you mean 'training.steps'"),
        ("optimiser.lr=1.0", "unknown key 'optimiser', did you mean 'optimizer'"),
        ("optimizer.momentum=0.9", "unknown key 'optimizer.momentum'"),
        ("optimizer.name=lion", "optimizer.name is 'lion', expected"),
        ("training.steps=many", r"training.steps is a string \('many'\), expected an integer"),
        ("training.steps=1.5", "training.steps is a number"),
        ("training.steps=true", "training.steps is a boolean"),
        ("model.fov=[33, 33]", "model.fov has 2 entries, expected 3"),
        ("model.fov=33", "model.fov is an integer .33., expected a list of 3 integers"),
        (
            "schedule.scale=cubic",
            "schedule.scale is 'cubic', expected 'none', 'linear', 'sqrt',",
        ),
        ("data.volumes.1.name=x", "not a section, or the index of a table"),
        ("training", "expected section.key=value"),
        ("run=5", r"\[run\] is an integer"),
        ("run.dir=", "run.dir is empty, expected a name"),
        ("run.dir=$FLOODTIDE_NO_SUCH/x", "environment variable FLOODTIDE_NO_SUCH is not set"),
        ("run.dir=\udcff\udcfe", "run.dir is not valid UTF-8"),
    ],
)
def test_mistakes_are_named(example: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        config.load(example, [override])


def test_a_configuration_prints_as_its_text() -> None:
    made = config.from_dict({"training": {"steps": 3}})
    assert "steps = 3\n" in str(made)


def test_missing_required_key_is_named() -> None:
    with pytest.raises(
        ConfigurationError, match=r"data.volumes.0.image is missing, expected a string$"
    ):
        config.from_dict({"data": {"volumes": [{"name": "a"}]}})


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="No such file"):
        config.load(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("[run\n")
    with pytest.raises(InvalidFileError, match="is not TOML"):
        config.load(tmp_path / "broken.toml")


def test_paths_expand_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_DATA", "/data")
    document = {"data": {"volumes": [{"name": "a", "image": "$SOME_DATA/raw.h5:raw"}]}}
    assert config.from_dict(document).data.volumes[0].image == "/data/raw.h5:raw"


def test_an_environment_variable_that_is_no_text_is_refused(
    monkeypatch: pytest.MonkeyPatch, example: Path
) -> None:
    monkeypatch.setenv("FLOODTIDE_TEST_FOLDER", "\udcff")
    with pytest.raises(ConfigurationError, match=r"run\.dir is not valid UTF-8"):
        config.load(example, ["run.dir=$FLOODTIDE_TEST_FOLDER/run"])


def test_types_can_be_read_by_python_3_10() -> None:
    """typing.get_type_hints of Python 3.10 refuses the mark KW_ONLY of a dataclass."""
    sources = Path(config.__file__).parents[1].rglob("*.py")
    assert not [path for path in sources if "KW_ONLY" in path.read_text("utf-8")]


def test_every_field_has_help() -> None:
    def check(cls: type) -> None:
        for field in dataclasses.fields(cls):
            if not dataclasses.is_dataclass(field.default):
                assert field.metadata.get("help"), f"{cls.__name__}.{field.name}"
            else:
                check(type(field.default))

    check(config.Config)


@given(
    steps=st.integers(1, 10**9), lr=st.floats(1e-9, 10), fov=st.tuples(*[st.integers(1, 99)] * 3)
)
def test_any_values_survive_the_round_trip(
    steps: int, lr: float, fov: tuple[int, int, int]
) -> None:
    document = {"training": {"steps": steps}, "optimizer": {"lr": lr}, "model": {"fov": list(fov)}}
    built = config.from_dict(document)
    assert config.from_dict(config.to_dict(built)) == built
    assert (built.training.steps, built.optimizer.lr, built.model.fov) == (steps, lr, fov)


def test_scaling_rules_have_parameters_of_the_section(example: Path) -> None:
    document = config.to_dict(config.load(example))
    document["schedule"] = {"name": "cosine", "scale": "paper", "linear_workers": 4}
    loaded = config.from_dict(document)
    assert loaded.schedule.scale_values == {"linear_workers": 4, "anchor": "continuous"}
    assert config.from_dict(config.to_dict(loaded)) == loaded
    schedule = ft.optim.lr.Schedule("constant", scale="paper", base_lr=1.0, linear_workers=4)
    assert [schedule(0, workers) for workers in (4, 64)] == [4.0, 16.0]
    document["schedule"]["scale"] = "linear"
    with pytest.raises(ConfigurationError, match=r"schedule\.linear_workers"):
        config.from_dict(document)
    document["schedule"] |= {"scale": "paper", "linear_workers": 0}
    with pytest.raises(ConfigurationError, match="linear_workers is 0, expected 1 to"):
        config.from_dict(document)


def test_no_scaling_rule_has_a_parameter_of_a_schedule() -> None:
    schedules, rules = (
        {spec["name"] for row in rows for spec in row["parameters"]}
        for rows in (_core.schedule_rows(), _core.scale_rows())
    )
    assert not schedules & rules  # both are keys of one section


def test_every_task_and_every_network_has_a_learner() -> None:
    learnt = set(LEARNERS)
    assert {task.examples for task in TASKS} == learnt
    assert {network.examples for network in NETWORKS} == learnt


# tasks


OWN_KEYS: dict[str, dict[str, Any]] = {
    "flood": {},
    "classes": {
        "classes": {"0": "background", "7": "vesicle", "255": "mitochondria", "-3": "mitochondria"},
        "class_weights": {"vesicle": 5.0, "background": 1.0},
    },
    "affinities": {"offsets": [[-1, 0, 0], [0, 0, -9]], "zero_is_boundary": True, "balance": True},
    "lsd": {"window": [1.5, 4.0, 4.0], "zero_is_boundary": True},
    "distance": {"scale": 3.0},
}


def of_task(kind: str, **sections: dict[str, Any]) -> dict[str, Any]:
    """A configuration of a task; sections are laid over it."""
    document: dict[str, Any] = {"task": {"kind": kind}}
    document["model"] = {"kind": "ffn" if kind == "flood" else "unet"}
    for name, keys in sections.items():
        document[name] = {**document.get(name, {}), **keys}
    return document


@pytest.mark.parametrize("kind", [task.kind for task in TASKS])
def test_every_task_survives_the_round_trip(kind: str, tmp_path: Path) -> None:
    volume: dict[str, Any] = {"name": "v", "image": "a.h5:a", "labels": "a.h5:b"}
    if kind != "flood":
        channel = {"image": "a.h5:m", "mean": 1.0, "std": 2.0}
        volume |= {"labels_start": [1, 2, 3], "channels": [channel], "groups": "a.h5:g"}
    if kind == "classes":
        volume |= {"masks": {"mitochondria": "m.tif", "vesicle": "v.tif"}}
    made = config.from_dict(of_task(kind, task=OWN_KEYS[kind], data={"volumes": [volume]}))
    assert made.task.kind == kind
    assert config.from_dict(config.to_dict(made)) == made
    (tmp_path / "a.toml").write_text(str(made))
    assert config.load(tmp_path / "a.toml") == made


@pytest.mark.parametrize(
    ("key", "value", "other"),
    [
        ("comm.contributors", 3, "comm.mode 'synchronous', expected another mode"),
        ("comm.late", '"carry"', "comm.mode 'synchronous', expected another mode"),
        ("training.epochs", 2, "training.on_exhausted 'cycle', expected another on_exhausted"),
    ],
)
def test_keys_without_an_effect_are_refused_but_not_in_stored_configurations(
    key: str, value: object, other: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.toml"
    file.write_text("")
    with pytest.raises(ConfigurationError, match=f"{file}: {key} has no effect with {other}"):
        config.load(file, [f"{key}={value}"])
    section, name = key.split(".")
    made = config.from_dict({}, overrides=[f"{key}={value}"])
    assert getattr(getattr(made, section), name) != getattr(getattr(config.Config(), section), name)


@given(
    st.dictionaries(
        st.integers(-(2**63), 2**63 - 1), st.sampled_from(["a", "b", "c"]), min_size=2, max_size=6
    )
)
def test_tables_of_classes_are_ordered_by_value(table: dict[int, str]) -> None:
    """Keys of TOML are texts. The class of the lowest value is the background."""
    written = {"classes": {str(value): name for value, name in table.items()}}
    if len(set(table.values())) < 2:
        with pytest.raises(ConfigurationError, match=r"task\.classes has 1 classes, expected 2 to"):
            config.from_dict(of_task("classes", task=written))
        return
    made = config.from_dict(of_task("classes", task=written))
    task = typing.cast(Classes, made.task)
    assert task.classes == {str(value): table[value] for value in sorted(table)}
    lowest = {name: min(v for v, n in table.items() if n == name) for name in table.values()}
    assert task.channels == sorted(lowest, key=lowest.__getitem__)
    assert task.written == sorted(lowest.values())
    assert config.from_dict(config.to_dict(made)) == made


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (of_task("segmentation"), "task.kind is 'segmentation', expected 'flood', 'classes', "),
        (
            of_task("affinities", model={"kind": "unet3d"}),
            "model.kind is 'unet3d', expected 'ffn' or 'unet'",
        ),
        (
            of_task("classes", model={"kind": "ffn"}),
            "model.kind is 'ffn', which cannot learn the task 'classes'; expected 'unet', or another task.kind",
        ),
        (
            of_task("flood", model={"kind": "unet"}),
            "model.kind is 'unet', which cannot learn the task 'flood'; expected 'ffn', or another task.kind",
        ),
        ({"model": {"kind": "unet"}}, "model.kind is 'unet', which cannot learn the task 'flood'"),
        (of_task("distance", task={"balance": True}), "unknown key 'task.balance'"),
        (
            of_task("affinities", task={"classes": {"0": "a", "1": "b"}}),
            "unknown key 'task.classes'",
        ),
        (
            of_task("distance", training={"background": True}),
            "training.background has no meaning for task.kind 'distance', expected it only for 'classes'",
        ),
        (
            of_task("lsd", training={"seed_pad": 0.1}),
            "training.seed_pad has no meaning for task.kind 'lsd', expected it only for 'flood'",
        ),
        (
            of_task("flood", training={"batch": 2}),
            "training.batch has no meaning for task.kind 'flood', expected it only for 'classes', 'aff",
        ),
        (
            of_task("flood", data={"unlabelled": 2}),
            "data.unlabelled has no meaning for task.kind 'flood', expected it only for",
        ),
        (
            of_task("classes", segment={"image": "x", "grow": 1}),
            "segment.grow has no meaning for task.kind 'classes', expected it only for 'flood'",
        ),
        (
            of_task("classes", data={"patch": "all"}),
            "data.patch is 'all', expected 'whole' or numbers",
        ),
        (
            of_task("classes", data={"patch": [1, 2]}),
            r"data.patch has 2 entries, expected 3 \(z, y, x\)",
        ),
        (
            of_task("classes", task={"classes": ["a"]}),
            r"task.classes is a list \(\['a'\]\), expected a table",
        ),
        (
            of_task("classes", task={"classes": {"a": "b"}}),
            "task.classes has 'a' = 'b', expected a value, or a range as 128-255, and a name",
        ),
        (
            of_task("classes", task={"classes": {"1.5": "b"}}),
            "task.classes has '1.5' = 'b', expected a value, or a range",
        ),
        (
            of_task("classes", task={"classes": {"0": 1, "1": "b"}}),
            r"task.classes.0 is an integer \(1\), expected a string",
        ),
        (
            of_task("classes", task={"classes": {"0": "a", "99999999999999999999": "b"}}),
            "task.classes has '99999999999999999999' = 'b', expected a value",
        ),
        (
            of_task("classes", task={"classes": {str(n): f"c{n}" for n in range(33)}}),
            r"task.classes has 33 classes, expected 2 to 32 \(classes\)",
        ),
        (
            of_task("affinities", task={"offsets": []}),
            "task.offsets has 0 offsets, expected 1 to 32",
        ),
        (
            of_task("lsd", task={"offsets": [[-1, 0, 0]] * 23}),
            "task.offsets has 23 offsets, expected 1 to 22",
        ),
        (
            of_task("classes", task={"classes": {"0": "a", "1": "b"}, "class_weights": {"c": 1.0}}),
            "task.class_weights has 'c', expected names of classes: a, b",
        ),
    ],
)
def test_mistakes_of_tasks_are_one_line(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^a.toml: {message}") as caught:
        config.from_dict(document, "a.toml")
    assert "\n" not in str(caught.value)


def test_values_of_one_name_are_one_class() -> None:
    task = Classes(classes={0: "background", 1: "mitochondria", 5: "mitochondria", 9: "vesicle"})
    assert task.channels == ["background", "mitochondria", "vesicle"]
    assert task.written == [0, 1, 9]
    assert task.values() == ([(0, 0), (1, 1), (5, 1), (9, 2)], True)


def test_a_range_of_values_is_one_class() -> None:
    task = Classes(classes={"128-130": "mitochondria", "-2-1": "background", "200": "vesicle"})
    assert task.channels == ["background", "mitochondria", "vesicle"]
    assert task.written == [0, 130, 200]
    rows = [(-2, 0), (-1, 0), (0, 0), (1, 0), (128, 1), (129, 1), (130, 1), (200, 2)]
    assert task.values() == (rows, True)
    for wrong, message in (
        ({"0-9": "a", "9": "b"}, "classes has the value 9 of 'b' twice, expected it once"),
        ({"9-0": "a", "10": "b"}, "classes has 9-0, expected a range"),
        ({"0-9": "a", "10": ""}, "classes has '10' = '', expected a value, or a range"),
        ({"0": "a", str(2**63): "b"}, f"classes has {2**63}, expected a range"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            Classes(classes=wrong)


def test_keys_of_earlier_checkpoints_are_read_at_the_value_that_is_left() -> None:
    earlier = {"run": {"bind": "launcher"}, "training": {"smooth": 1.0}}
    assert config.from_dict(earlier) == config.from_dict({})
    with pytest.raises(ConfigurationError, match=r"unknown key 'run\.bind'"):
        config.from_dict({"run": {"bind": "ranks"}})
