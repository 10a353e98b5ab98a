# SPDX-License-Identifier: Apache-2.0
"""The example that hands subvolumes to daisy (daisy 2 needs Python 3.11)."""

import subprocess
import sys
from pathlib import Path

import bright_network
import numpy as np

from floodtide import config
from floodtide.data import Volume
from floodtide.segment import Flooding, Pieces, reconcile
from floodtide.segment.reconciling import read_reconciled

EXAMPLE = Path(__file__).parents[4] / "examples/segment_with_daisy.py"

if sys.version_info >= (3, 11):

    def test_daisy_makes_the_segmentation_that_ranks_make(tmp_path: Path) -> None:
        file = bright_network.configuration(tmp_path, subvolume=[24, 24, 24])
        bright_network.name_volume(file)
        out = tmp_path / "out.h5"
        command = [sys.executable, str(EXAMPLE), file, tmp_path / "pieces", f"{out}:labels", "2"]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
        assert ended.returncode == 0, ended.stderr
        work = Flooding.load(str(file), config.load(file))
        assert work.write_subvolumes(str(tmp_path / "own"))["segmented"] == 27
        pieces = Pieces.open(tmp_path / "own")
        expected = read_reconciled(pieces, reconcile(pieces), pieces.cut.box)
        np.testing.assert_array_equal(Volume(str(out), "labels").read(), expected)
        assert expected.max() > 1
