# SPDX-License-Identifier: Apache-2.0
"""Texts from templates: pages, batch scripts and plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]


def render(
    template: str,
    *folders: str,
    filters: Mapping[str, Callable[..., Any]] | None = None,
    html: bool = False,
    **values: Any,
) -> str:
    """Return the text of a template. A value that is missing is an error.

    Args:
        folders: Folders of the package, such as "report/templates", in which templates are looked for, in this order.
        filters: Further filters of Jinja by name.
        html: True: the text is HTML, and values are escaped.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([_PACKAGE / folder for folder in folders]),
        undefined=StrictUndefined,
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(filters or {})
    return environment.get_template(template).render(**values)
