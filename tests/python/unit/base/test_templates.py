# SPDX-License-Identifier: Apache-2.0
"""Texts from templates: what is missing is an error, and a page escapes its values."""

from __future__ import annotations

import jinja2
import pytest

from floodtide.base.templates import render


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'wish' is undefined"):
        render(
            "plan.toml",
            "plan/templates",
            filters=dict.fromkeys(("toml", "box", "boxes", "size", "line"), str),
        )


def test_only_a_page_escapes_its_values() -> None:
    values = {"version": "1", "title": "<script>"}
    assert "<title>floodtide: &lt;script&gt;</title>" in render(
        "base.html", "report/templates", html=True, **values
    )
    assert "<title>floodtide: <script></title>" in render("base.html", "report/templates", **values)
