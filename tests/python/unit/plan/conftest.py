# SPDX-License-Identifier: Apache-2.0
"""A small stack with labels, a network that counts as published, and plans that measure nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import bright_network
import numpy as np
import pytest
import tifffile
from plans import measure_nothing

from floodtide import data
from floodtide.data.look import FIB25
from floodtide.plan import networks


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stack.tif and labels.tif."""
    folder = tmp_path_factory.mktemp("stack")
    image, labels = data.synth((40, 64, 100), seed=3)
    tifffile.imwrite(folder / "stack.tif", image)
    tifffile.imwrite(folder / "labels.tif", labels.astype(np.int32))
    return folder


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A published network for voxels of 8 nm that floods bright voxels."""
    bright_network.save(tmp_path / "bright.h5")
    images = dataclasses.replace(FIB25, voxel_size_nm=(8.0, 8.0, 8.0))
    monkeypatch.setattr(networks, "published", lambda _: (images, str(tmp_path / "bright.h5")))
    return "fib25"


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take fixed rates instead of measuring this machine."""
    measure_nothing(monkeypatch)
