# SPDX-License-Identifier: Apache-2.0
"""Configuration files: every key checked, every mistake named."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import floodtide as ft
from floodtide import _core, config
from floodtide.config.sections import ModelConfig
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.train.kinds import KINDS

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
        ("data.volumes.1.name=x", "not the index of one of the 1 tables"),
        ("training", "expected section.key=value"),
        ("run=5", r"\[run\] is an integer"),
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
    with pytest.raises(ConfigurationError, match=r"data.volumes.0.image is missing"):
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


def test_every_section_of_a_network_has_a_kind_of_training() -> None:
    assert {kind.section for kind in KINDS} == set(typing.get_args(ModelConfig))
