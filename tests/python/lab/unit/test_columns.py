# SPDX-License-Identifier: Apache-2.0
"""Tables of columns in their own formats."""

from __future__ import annotations

import json

import pytest

from floodtide.lab.cli.columns import print_columns


def test_columns_have_their_formats_and_widths(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"name": "a", "wait_share": 0.25, "ranks": 2, "losses": [1.0]},
        {"name": "b", "wait_share": None, "ranks": 4, "losses": [2.0]},
    ]
    print_columns(rows, False, {"name": "24", "wait_share": ".0%", "ranks": ""})
    assert capsys.readouterr().out.splitlines() == [
        f"{'name':<24}  wait_share      ranks",
        f"{'a':<24}         25%          2",
        f"{'b':<24}           -          4",
    ]
    print_columns(rows, True, {})
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows
