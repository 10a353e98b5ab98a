# SPDX-License-Identifier: Apache-2.0
"""Damage that any file can take: to its bytes, to its text, or to the kind of thing that its name stands for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

ODD_NUMBERS = (
    "-1",
    "0",
    "1",
    "2",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967297",
    "4611686018427387904",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "1e18",
    "1e308",
    "-1e308",
    "1e400",
    "1e-320",
    "-0.0",
    "0.5",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "",
    " ",
    "x",
    "0x10",
    "1_000",
    "\u0661",
    "1,2",
    "--",
    "9" * 400,
    "9" * 5000,
)

_TOKENS = (
    b"\0",
    b"\xff\xfe",
    b"\xc3\x28",
    b"NaN",
    b"Infinity",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b"null",
    b"true",
    b'"',
    b"[" * 3000,
    b"{}",
    b"\n",
    b"$\\frac{$",
    b"<script>",
    b"\xe2\x80\xae",
)


def flip_bit(content: bytes, random: Random) -> tuple[bytes, str]:
    """One bit."""
    if not content:
        return b"\1", "one byte in an empty file"
    place, bit = random.randrange(len(content)), random.randrange(8)
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed), f"bit {bit} of byte {place} flipped"


def damage_bytes(content: bytes, random: Random) -> tuple[bytes, str]:
    """Some damage to a file's bytes, and its description."""
    size = len(content)
    what = random.randrange(13)
    if size < 2 or what < 3:
        return flip_bit(content, random)
    first = random.randrange(size)
    length = min(1 << random.randrange(12), size - first)
    end = first + length
    if what == 3:
        return content[:first], f"cut off at byte {first} of {size}"
    if what == 4:
        return content[:first] + bytes(length) + content[end:], f"bytes {first} to {end} zeroed"
    if what == 5:
        return content[:first] + b"\xff" * length + content[end:], f"bytes {first} to {end} set"
    if what == 6:
        noise = random.randbytes(length)
        return content[:first] + noise + content[end:], f"bytes {first} to {end} random"
    if what == 7:
        return content[:first] + content[end:], f"bytes {first} to {end} removed"
    if what == 8:
        other = random.randrange(size)
        piece = content[other : other + length]
        return content[:first] + piece + content[first:], f"{len(piece)} bytes repeated at {first}"
    if what == 9:
        return content + random.randbytes(length), f"{length} random bytes at the end"
    if what == 10:  # a number of 1 to 8 bytes somewhere
        width = random.choice((1, 2, 4, 8))
        value = random.choice(
            (0, 1, -1, 127, -128, 1 << 30, 1 << 40, 1 << 62, random.getrandbits(63))
        )
        piece = (value % (1 << 8 * width)).to_bytes(width, "little")
        first = random.randrange(max(size // width, 1)) * width
        return content[:first] + piece + content[first + width :], f"{piece.hex()} at byte {first}"
    if what == 11:  # two sections change places
        other = random.randrange(size)
        first, other = min(first, other), max(first, other)
        length = min(length, other - first, size - other)
        swapped = bytearray(content)
        swapped[first : first + length] = content[other : other + length]
        swapped[other : other + length] = content[first : first + length]
        return bytes(swapped), f"{length} bytes at {first} and at {other} swapped"
    changed, text = content, []
    for _ in range(random.randrange(2, 20)):
        changed, one = flip_bit(changed, random)
        text.append(one)
    return changed, f"{len(text)} bits flipped"


def damage_text(content: bytes, random: Random) -> tuple[bytes, str]:
    """Some damage to a text, mostly to one of its lines or values, and its description."""
    what = random.randrange(7)
    lines = content.split(b"\n")
    number = random.randrange(len(lines))
    if what == 0:
        return damage_bytes(content, random)
    if what == 1:
        token = random.choice(_TOKENS)
        place = random.randrange(len(content) + 1)
        return content[:place] + token + content[place:], f"{token[:20]!r} put in at byte {place}"
    if what == 2:
        lines[number] = random.choice(_TOKENS)
        return b"\n".join(lines), f"line {number + 1} is {lines[number][:20]!r}"
    if what == 3:
        del lines[number]
        return b"\n".join(lines), f"line {number + 1} removed"
    if what == 4:
        lines.insert(number, lines[random.randrange(len(lines))])
        return b"\n".join(lines), f"a line repeated as line {number + 1}"
    words = _numbers(content)
    if not words:
        return flip_bit(content, random)
    first, end = random.choice(words)
    token = random.choice(_TOKENS if what == 5 else [n.encode() for n in ODD_NUMBERS])
    return content[:first] + token + content[end:], (
        f"{content[first:end][:20]!r} at byte {first} becomes {token[:20]!r}"
    )


def _numbers(content: bytes) -> list[tuple[int, int]]:
    """Where numbers stand in a text."""
    import re

    return [m.span() for m in re.finditer(rb"-?\d[\d.]*(?:[eE][-+]?\d+)?", content)]


def damage_node(path: Path, random: Random) -> str:
    """Put something else in the place of a file: nothing, a folder, a FIFO, a link, a device."""
    what = random.randrange(9)
    folder = path.parent
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    if what == 0:
        return "missing"
    if what == 1:
        path.mkdir()
        return "a folder"
    if what == 2:
        os.mkfifo(path)
        return "a FIFO"
    if what == 3:
        path.symlink_to(path.name)
        return "a link to itself"
    if what == 4:
        path.symlink_to(folder / "nowhere")
        return "a dangling link"
    if what == 5:
        path.symlink_to("/dev/zero")
        return "a link to /dev/zero"
    if what == 6:
        path.symlink_to("/dev/null")
        return "a link to /dev/null"
    if what == 7:
        path.write_bytes(b"")
        return "an empty file"
    path.write_bytes(random.randbytes(1 << random.randrange(14)))
    return "random bytes"
