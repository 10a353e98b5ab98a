# SPDX-License-Identifier: Apache-2.0
"""Messages about names of volumes that are not read say what to do."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from floodtide import data, errors

IMAGE = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)


@pytest.mark.parametrize(
    ("name", "advised"),
    [
        ("precomputed://file:///p", "as in precomputed:///p"),
        ("file:///p.zarr", "as in /p.zarr"),
    ],
)
def test_a_file_url_is_refused_with_the_name_that_is_read(name: str, advised: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as refused:
        data.Volume(name)
    assert str(refused.value).startswith(f"volume '{name}': ")
    assert str(refused.value).endswith(f"without file://, {advised}")


def test_a_dataset_with_a_colon_is_refused_and_a_link_to_it_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["a:b"] = IMAGE
        file["link"] = h5py.SoftLink("/a:b")
    with h5py.File(tmp_path / "with:colon.h5", "w") as file:
        file["x"] = IMAGE
    with pytest.raises(errors.InvalidFileError, match=r"v\.h5:a: "):
        data.Volume(f"{tmp_path}/v.h5:a:b")
    for name in ("v.h5:link", "with:colon.h5:x"):
        np.testing.assert_array_equal(data.Volume(f"{tmp_path}/{name}").read(), IMAGE)
