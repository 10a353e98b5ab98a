# SPDX-License-Identifier: Apache-2.0
"""The class of findings, and texts for numbers and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Facts = Mapping[str, Any]
Ranks = Sequence[Facts]

OK, ADVICE, PROBLEM = "ok", "advice", "problem"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result of the examination. `level` is "ok", "advice" or "problem"; `advice` says what to do if not ok."""

    check: str
    level: str
    text: str
    advice: str = ""


def names_of(ranks: Ranks) -> str:
    """Return a text that names ranks: "rank 3 (node7)" or "ranks 1, 2, 3, 4 and 5 more (node1, ...)"."""
    numbers = [str(facts["rank"]) for facts in ranks]
    hosts = list(dict.fromkeys(facts["host"] for facts in ranks))
    shown = ", ".join(hosts[:3]) + (", ..." if len(hosts) > 3 else "")
    if len(numbers) == 1:
        return f"rank {numbers[0]} ({shown})"
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"ranks {', '.join(numbers[:4])}{more} ({shown})"


def gib(count: float) -> str:
    """Return a number of bytes as text in GiB."""
    return f"{count / 2**30:.1f} GiB"
