# SPDX-License-Identifier: Apache-2.0
"""Texts that HDF5 files carry: those in UTF-8 are read as Python reads them, others are refused in one line."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from floodtide import data, errors

WRONG = st.sampled_from(
    [
        b"\xff",
        "µm".encode("latin-1"),
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
    ]
)
BYTES = st.binary(min_size=1, max_size=8) | WRONG | st.text(min_size=1, max_size=4).map(str.encode)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(stored=BYTES.filter(lambda text: b"\0" not in text))
def test_texts_are_decoded_as_python_does(tmp_path: Path, stored: bytes) -> None:
    path = tmp_path / f"{stored.hex()}.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("raw", data=np.zeros((2, 2, 2), np.uint8))
        made.attrs["written_by"] = np.bytes_(stored)
    volume = data.Volume(f"{path}:raw")
    try:
        expected = stored.decode()
    except UnicodeDecodeError:
        with pytest.raises(errors.InvalidFileError, match="written_by is not a text in UTF-8"):
            volume.text("written_by")
        return
    assert volume.text("written_by") == expected


def test_a_unit_in_another_encoding_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        made = file.create_dataset("raw", data=np.zeros((2, 2, 2), np.uint8))
        made.attrs["resolution"] = [8.0, 8.0, 8.0]
        made.attrs["units"] = np.bytes_("µm".encode("latin-1"))
    assert data.Volume(f"{tmp_path}/v.h5:raw").geometry.voxel_size_nm is None
    assert "units is not a text in UTF-8" in capsys.readouterr().err
