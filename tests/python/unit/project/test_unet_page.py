# SPDX-License-Identifier: Apache-2.0
"""The configurations of docs/unet.md are short, and each of them trains, predicts and segments."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import h5py
import imageio.v3
import numpy as np
import pytest

from floodtide import config
from floodtide.base.networks import UNetConfig
from floodtide.base.tasks import Classes
from floodtide.cli import run as command_line
from floodtide.data import synth

PAGE = Path(__file__).resolve().parents[4] / "docs/unet.md"
_LONGEST = 25
_EXTENT = 64  # voxels along y and x of the small data, instead of 512 and 256
TEXTS = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
CHANNEL, DISTANCE = (text for text in TEXTS if "dir = " not in text)
BLOCKS = {re.findall(r'dir = "runs/(\w+)"', text)[0]: text for text in TEXTS if "dir = " in text}
BLOCKS["channels"] = (
    BLOCKS["organelles"]
    .replace("[data]\n", CHANNEL + "[data]\n")
    .replace("runs/organelles", "runs/channels")
)
BLOCKS["distance"] = re.sub(
    r"\[task\]\n.*?(?=\[model\])", DISTANCE, BLOCKS["neurons"], flags=re.DOTALL
).replace("runs/neurons", "runs/distance")
TASKS = {
    "mito": "classes",
    "organelles": "classes",
    "sections": "affinities",
    "neurons": "lsd",
    "channels": "classes",
    "distance": "distance",
}
OUTPUTS = {"sections": 4, "neurons": 3, "distance": 1}


def test_the_page_has_a_configuration_of_each_task() -> None:
    assert list(BLOCKS) == list(TASKS)
    for name, text in BLOCKS.items():
        assert len(text.splitlines()) <= _LONGEST, name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with small data under the names of the page."""
    monkeypatch.chdir(tmp_path)
    image, labels = synth((64, _EXTENT, _EXTENT), seed=1)
    with h5py.File("volume.h5", "w") as file:
        file["raw"] = image
        file["labels"] = labels
        file["mitochondria"] = np.where(labels % 3 == 1, 255, 0).astype(np.uint8)
        file["vesicles"] = (labels % 3 == 2).astype(np.uint8)
        file["membranes"] = np.where(labels == 0, 200, 0).astype(np.uint8)
    for place in ("em", "mitochondria"):
        (tmp_path / place).mkdir()
    for z in range(12):
        mask = np.where(labels[z] % 3 == 1, 255, 0).astype(np.uint8)
        imageio.v3.imwrite(f"em/{z:02}.png", image[z])
        imageio.v3.imwrite(f"mitochondria/{z:02}.png", mask)
    return tmp_path


@pytest.mark.parametrize("name", TASKS)
def test_each_configuration_trains_and_predicts(name: str, folder: Path) -> None:
    text = re.sub(r":(?:512|256)\b", f":{_EXTENT}", BLOCKS[name])
    (folder / f"{name}.toml").write_text(text)
    settings = config.load(f"{name}.toml")
    assert settings.task.kind == TASKS[name]
    flat = settings.data.patch[0] == 1
    small = f"data.patch={'[1, 32, 32]' if flat else '[8, 32, 32]'}"
    train = ["train", f"{name}.toml", "--set", small, "--set", "training.steps=2"]
    if name == "neurons":
        train += ["--set", "task.window=[1.0, 2.0, 2.0]"]
    assert command_line([*train, "--set", "model.depth=2", *_levels(settings)]) == 0
    further = ["--channel", "volume.h5:membranes"] if name == "channels" else []
    image = "em/*.png" if name == "mito" else "volume.h5:raw"
    assert command_line(["predict", f"runs/{name}", image, "predicted.h5:predicted", *further]) == 0
    with h5py.File("predicted.h5") as file:
        shape = file["predicted"].shape
        assert len(file["predicted"].attrs.get("classes", "")) > 0 or name in OUTPUTS
    assert shape[-2:] == (_EXTENT, _EXTENT)
    assert len(shape) == 3 if name not in OUTPUTS else shape[0] == OUTPUTS[name]
    if isinstance(settings.task, Classes) or find_spec("waterz"):
        assert command_line(["segment", f"{name}.toml", "--out", "objects.h5:segments"]) == 0


def _levels(settings: config.Config) -> list[str]:
    """Return overrides of kernels and pools for two levels."""
    network = settings.model
    assert isinstance(network, UNetConfig)
    kernels = [list(one) for one in network.kernels[:2]]
    return ["--set", f"model.kernels={kernels}", "--set", f"model.pools={[list(network.pools[0])]}"]
