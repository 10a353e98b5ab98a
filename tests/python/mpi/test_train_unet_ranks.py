# SPDX-License-Identifier: Apache-2.0
"""U-Nets trained by ranks: the number of ranks changes nothing but the speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
from launch import shared
from training_patches import KINDS, text, write_patches
from training_slices import document, write_slices

from floodtide import nn
from floodtide.segment.trained import newest_checkpoint
from floodtide.train import read_log

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]


def trained(folder: Path, ranks: int, **sections: dict[str, Any]) -> dict[str, np.ndarray]:
    """The network after six steps of two walkers on that many ranks, by the command line."""
    run = folder / f"{ranks}"
    sections["run"] = {"dir": str(run)}
    file = folder / f"{ranks}.toml"
    file.write_text(tomli_w.dumps(document(folder, **sections)))
    return parameters(ranks, file, run)


def parameters(ranks: int, file: Path, run: Path, *overrides: str) -> dict[str, np.ndarray]:
    """The last parameters of a training on that many ranks."""
    more = [word for override in overrides for word in ("--set", override)]
    result = shared(ranks, ["-m", "floodtide", "train", str(file), *more], timeout_s=120)
    assert result.status == 0, result.stderr
    return nn.load(newest_checkpoint(run)).state_dict()


def scores(run: Path) -> list[Any]:
    records = [record for record in read_log(run / "log.jsonl") if record["kind"] == "validation"]
    return [{key: value for key, value in r.items() if key != "time_s"} for r in records]


def test_walkers_give_the_same_bits_and_scores_on_one_and_on_two_ranks(tmp_path: Path) -> None:
    write_slices(tmp_path)
    one, two = (trained(tmp_path, ranks, comm={"exactness": "workers"}) for ranks in (1, 2))
    for name, array in one.items():
        np.testing.assert_array_equal(two[name], array, err_msg=name)
    assert len(scores(tmp_path / "1")) == 2
    assert scores(tmp_path / "2") == scores(tmp_path / "1")


@pytest.fixture(scope="module")
def patches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("patches")
    write_patches(path)
    return path


EXACT = ("comm.exactness=workers", "augmentation.elastic=1", "augmentation.bad_sections=0.3")


@pytest.mark.parametrize("kind", KINDS)
def test_every_task_has_the_same_bits_and_scores_on_one_to_four_ranks(
    patches: Path, kind: str
) -> None:
    expected: dict[str, np.ndarray] = {}
    for ranks in (1, 2, 3, 4):
        name = f"{kind} {ranks}"
        file = patches / f"{name}.toml"
        file.write_text(text(patches, kind, name))
        found = parameters(ranks, file, patches / name, *EXACT)
        expected = expected or found
        for array, values in expected.items():
            np.testing.assert_array_equal(found[array], values, err_msg=f"{ranks} ranks: {array}")
        assert scores(patches / name) == scores(patches / f"{kind} 1")


def test_a_dice_over_the_batch_does_not_depend_on_how_it_is_split(tmp_path: Path) -> None:
    write_slices(tmp_path)
    sections = {
        "training": {"dice": "batch", "loss": "dice"},
        "model": {"synchronised": True},
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
    one, two = (trained(tmp_path, ranks, **sections) for ranks in (1, 2))
    for name, array in one.items():
        scale = max(float(np.linalg.norm(array)), 1e-3)
        assert np.linalg.norm(two[name] - array) < 1e-4 * scale, name


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_dice_and_its_gradient_of_eight_images_on_any_number_of_ranks(ranks: int) -> None:
    """The value and the gradient of the whole batch, computed by each rank without the others, are the yardstick."""
    program = """
import numpy as np
import floodtide as ft
from floodtide import _core, nn
ft.init()
random = np.random.default_rng(7)
logits = random.standard_normal((8, 1, 9, 11, 3)).astype(np.float32)
truth = random.integers(0, 3, (8, 1, 9, 11)).astype(np.uint8)
loss = nn.SegmentationLoss(dice=1.0, cross_entropy=0.0, over_batch=True)
whole, _, expected = _core.segmentation_loss(loss.core(), "softmax", logits, truth, None, None, None)
own = slice(ft.rank() * 8 // ft.size(), (ft.rank() + 1) * 8 // ft.size())
sums = lambda values: ft.allreduce(np.array(values), op=ft.Sum).tolist()
report, _, gradient = _core.segmentation_loss(
    loss.core(), "softmax", logits[own], truth[own], None, None, sums
)
total = ft.allreduce([report["loss"]], op=ft.Sum)[0]
gathered = ft.allgather(gradient).reshape(expected.shape)
assert abs(total / whole["loss"] - 1) < 1e-12, (total, whole["loss"])
assert np.abs(gathered - expected).max() < 1e-6 * np.abs(expected).max()
"""
    result = shared(ranks, ["-c", program])
    assert result.status == 0, result.stderr


def test_a_wrong_mask_that_one_rank_sees_ends_all_with_its_words(tmp_path: Path) -> None:
    with h5py.File(write_slices(tmp_path), "a") as file:
        file["mask"][11, 0, 0] = 9  # in the last rank's share
    path = tmp_path / "run.toml"
    table = {"classes": {"0": "background", "1": "disk"}}
    sections: dict[str, Any] = {"validation": {"share": 0.0, "every": 0}, "task": table}
    path.write_text(tomli_w.dumps(document(tmp_path, **sections)))
    result = shared(2, ["-m", "floodtide", "train", str(path)], status=2)
    assert result.status == 2, result.stderr
    ours = [line for line in result.stderr.splitlines() if "floodtide" in line]
    assert len(ours) == 1
    assert "value 9 at (11, 0, 0)" in ours[0]
