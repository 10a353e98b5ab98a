# SPDX-License-Identifier: Apache-2.0
"""Skips for a missing package fail the run; skips for absent data do not."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]

REPORT = """<testsuites><testsuite>
<testcase classname="a" name="passes"/>
<testcase classname="a" name="data"><skipped message="no real volumes in /x"/></testcase>
<testcase classname="a" name="package"><skipped message="could not import 'torch'"/></testcase>
</testsuite></testsuites>"""


def test_only_the_skip_for_a_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(REPORT)
    script = runpy.run_path(str(ROOT / "tests/scripts/check_skips.py"))
    assert script["refused"](tmp_path / "junit.xml") == ["a.package: could not import 'torch'"]
