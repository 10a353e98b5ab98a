# SPDX-License-Identifier: Apache-2.0
"""Numbers with a noun in singular or plural, for texts that a person reads."""

from __future__ import annotations


def count_of(number: float, what: str, form: str = "") -> str:
    """Return a number with a noun in singular or plural: "1 core", "2 cores".

    Args:
        number: How many.
        what: The noun in singular. Its plural ends in s.
        form: Format of the number, such as ",". Without: all digits of an integer, six of another number.
    """
    text = format(number, form or ("d" if isinstance(number, int) else "g"))
    return f"{text} {what}{'' if text == '1' else 's'}"
