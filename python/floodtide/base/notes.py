# SPDX-License-Identifier: Apache-2.0
"""Notes for the user about things that are not errors, and numbers with a noun for such texts.

A note is one line on standard error, on rank 0, once per process. This module does not know ranks. When `floodtide` is
imported, it sets the function that asks for rank 0.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_shown: set[str] = set()
_warns = True
_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


_speaks: Callable[[], bool] | None = None


def speak_if(speaks: Callable[[], bool]) -> None:
    """Set a function: notes and progress are printed only while `speaks()` is True, which means on rank 0."""
    global _speaks
    _speaks = speaks


def speaks() -> bool:
    """Return True if this process prints notes and progress: rank 0 of a job, if its standard error is open."""
    return sys.stderr is not None and (_speaks is None or _speaks())


def show(text: str) -> None:
    """Print `floodtide: note: <text>`, unless this process has printed it before."""
    texts = _collected.get()
    if texts is not None:
        texts.append(text)
    else:
        _print_once("note", text)


def warn(text: str) -> None:
    """Print `floodtide: warning: <text>`, unless this process has printed it before."""
    if _warns:
        _print_once("warning", text)


def _print_once(kind: str, text: str) -> None:
    if text not in _shown and speaks():
        _shown.add(text)
        line(f"floodtide: {kind}: {text}")


def line(text: str) -> None:
    """Print a line on standard error, above the progress bar if there is one. The bar leaves nothing in the line.

    Work does not end because standard error is closed, or is a file on a full disk.
    """
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        if "tqdm" not in sys.modules:  # no bar has been shown
            print(text, file=sys.stderr, flush=True)
            return
        from tqdm import tqdm

        tqdm.write(text, file=sys.stderr)
        sys.stderr.flush()


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Print no warnings inside the block: for benchmarks, which train on data that they make themselves."""
    global _warns
    before, _warns = _warns, False
    try:
        yield
    finally:
        _warns = before


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    """Collect the notes of this thread inside the block in a list, and print none: the caller chooses which to show."""
    texts: list[str] = []
    token = _collected.set(texts)
    try:
        yield texts
    finally:
        _collected.reset(token)


def count_of(number: float, what: str) -> str:
    """Return a number with a noun in singular or plural, which ends in s: "1 core", "2 cores"."""
    text = format(number, "d" if isinstance(number, int) else "g")
    return f"{text} {what}{'' if text == '1' else 's'}"
