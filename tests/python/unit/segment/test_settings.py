# SPDX-License-Identifier: Apache-2.0
"""The [segment] options with keys from elsewhere."""

from pathlib import Path

import bright_network
import pytest

from floodtide import config
from floodtide.errors import ConfigurationError
from floodtide.segment.commands import resolved


def test_options_of_a_named_volume_are_those_of_its_file(tmp_path: Path) -> None:
    file = bright_network.configuration(tmp_path)
    expected = config.load(file).segment
    bright_network.name_volume(file)
    assert config.load(file).segment != expected
    assert resolved(str(file), config.load(file)) == expected


def test_overrides_and_missing_keys(tmp_path: Path) -> None:
    file = bright_network.configuration(tmp_path)
    overridden = config.load(file, ["segment.min_segment_size=7"])
    assert resolved(str(file), overridden).min_segment_size == 7
    file.write_text(file.read_text().replace("mean = 128.0\n", ""))
    with pytest.raises(ConfigurationError, match=r"segment\.mean is missing"):
        resolved(str(file), config.load(file))
