# SPDX-License-Identifier: Apache-2.0
"""The gradient noise scale at fixed weights: gradients against single passes, the estimate against known answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_patches
import training_volume
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import cli, config, data, nn
from floodtide.errors import ConfigurationError
from floodtide.lab import noise
from floodtide.train import Trainer, gradient_products

GROUPS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("noise")
    training_volume.write_volume(path)
    return path


def flat(gradients: dict[str, Any]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in gradients.values()]).astype(np.float64)


def file_of(configuration: config.Config, folder: Path) -> str:
    path = folder / "train.toml"
    path.write_text(str(configuration))
    return str(path)


def test_products_are_those_of_single_first_passes(folder: Path, tmp_path: Path) -> None:
    configuration = config.from_dict(training_volume.document(folder))
    measured = gradient_products(file_of(configuration, tmp_path), (), GROUPS)
    measured.add_pass()
    model = nn.FFN(depth=2, features=4, fov=(7, 7, 7), deltas=(2, 2, 2), seed=4)
    shards = data.Shards(
        configuration.data.volumes,
        configuration.data,
        configuration.augmentation,
        patch_size=model.patch_size,
        walkers=GROUPS,
        seed=4,
    )
    terms = []
    logits = np.full((7, 7, 7), np.log(0.05 / 0.95), np.float32)
    logits[3, 3, 3] = np.log(0.95 / 0.05)
    for walker in range(GROUPS):
        image, labels = (array[2:9, 2:9, 2:9].copy() for array in shards.load(walker, 0))
        terms.append(flat(model.loss_and_gradients(image, logits, labels)[1]))
    expected = np.array(terms) @ np.array(terms).T
    np.testing.assert_allclose(measured.products(), expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(measured.squares(), np.diag(expected), rtol=1e-4)
    assert (measured.passes, measured.batch) == (1, 1)


def test_further_passes_change_no_weight_and_add_up(folder: Path, tmp_path: Path) -> None:
    file = file_of(config.from_dict(training_volume.document(folder)), tmp_path)
    one, two = gradient_products(file, (), 3), gradient_products(file, (), 3)
    squares = []
    for _ in range(4):
        before = one.squares() if one.passes else np.zeros(3)
        one.add_pass()
        squares.append(one.squares() - before)
        two.add_pass()
    np.testing.assert_array_equal(one.products(), two.products())
    assert np.linalg.eigvalsh(one.products()).min() > -1e-9
    assert (np.trace(one.products()) <= 4 * np.sum(squares) + 1e-9).all()  # Cauchy and Schwarz


def test_patches_of_any_task_have_a_noise_scale(tmp_path: Path) -> None:
    training_patches.write_patches(tmp_path)
    path = tmp_path / "train.toml"
    path.write_text(training_patches.text(tmp_path, "lsd"))
    measured = gradient_products(str(path), ("training.batch=2",), 3)
    for _ in range(2):
        measured.add_pass()
    assert measured.batch == 2
    found = noise.estimate(measured.products(), measured.squares(), 2, measured.batch)
    assert found.examples > 0


@settings(max_examples=30, deadline=None)
@given(
    groups=st.integers(2, 12),
    terms=st.integers(1, 6),
    batch=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_estimate_equals_sums_over_pairs(
    groups: int, terms: int, batch: int, seed: int
) -> None:
    values = np.random.default_rng(seed).normal(0.3, 1.0, (groups, terms, 7))
    sums = values.sum(axis=1)
    found = noise.estimate(sums @ sums.T, (values**2).sum(axis=(1, 2)), terms, batch)
    pairs = [sums[a] @ sums[b] for a in range(groups) for b in range(groups) if a != b]
    square = np.mean(pairs) / terms**2
    trace = batch * ((values**2).sum(axis=2).mean() - square)
    assert found.square == pytest.approx(square)
    assert found.examples == pytest.approx(trace / square if square > 0 else np.inf)


@pytest.mark.parametrize("truth", [3.0, 30.0, 300.0])
def test_intervals_hold_the_truth_as_often_as_they_say(truth: float) -> None:
    """Terms of a group share a patch, so they are not independent of each other."""
    draw, size, groups, patches, hits = np.random.default_rng(1), 200, 32, 40, 0
    for _ in range(100):
        own = draw.normal(0.0, np.sqrt(truth / size / 2), (groups, patches, 1, size))
        terms = draw.normal(0.0, np.sqrt(truth / size / 2), (groups, patches, 3, size)) + own
        terms[..., 0] += 1.0
        sums, squares = terms.sum(axis=(1, 2)), (terms**2).sum(axis=(1, 2, 3))
        found = noise.estimate(sums @ sums.T, squares, patches * 3)
        hits += found.low <= truth <= found.high
    assert hits >= 87


def test_without_a_gradient_there_is_no_upper_bound() -> None:
    values = np.random.default_rng(0).normal(0.0, 1.0, (16, 50))
    found = noise.estimate(values @ values.T, (values**2).sum(axis=1), 1)
    assert found.high == np.inf


def test_json_has_no_infinity_and_few_groups_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = noise.NoiseScale(examples=7.0, low=2.0, high=np.inf, square=0.1)
    monkeypatch.setattr("floodtide.lab.cli.noise.measure", lambda *_: (found, 64))
    assert cli.run(["lab", "noise", "network.h5", "--json"]) == 0
    row = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert row == {"noise_scale": 7.0, "low": 2.0, "high": None, "examples": 64}
    assert cli.run(["lab", "noise", "network.h5", "--groups", "2"]) == 2


def test_the_command_takes_a_checkpoint_or_a_configuration(folder: Path, tmp_path: Path) -> None:
    document = training_volume.document(
        folder, run={"dir": str(tmp_path / "run")}, training={"steps": 3, "walkers": 2}
    )
    with Trainer.from_config(config.from_dict(document)) as trainer:
        trainer.run()
    checkpoint = str(tmp_path / "run" / "checkpoints" / "step-3.h5")
    line = [sys.executable, "-m", "floodtide", "lab", "noise", checkpoint, "--minutes", "0.01"]
    done = subprocess.run([*line, "--json"], capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)
    assert row["low"] <= row["noise_scale"] <= row["high"]
    assert row["examples"] % 32 == 0
    network = tmp_path / "network.h5"
    nn.load(checkpoint).save(network)
    with pytest.raises(ConfigurationError, match="stores no training"):
        gradient_products(str(network), (), 2)


def test_the_rule_auto_takes_a_measured_noise_scale(folder: Path, tmp_path: Path) -> None:
    document = training_volume.document(
        folder,
        run={"dir": str(tmp_path / "run")},
        training={"steps": 2, "walkers": 4},
        optimizer={"name": "sgd", "lr": 0.01},
        schedule={"scale": "auto", "noise_scale": 3.0},
    )
    with Trainer.from_config(config.from_dict(document)) as trainer:
        assert trainer.step().lr == pytest.approx(0.01 * 4 / 1.75)
