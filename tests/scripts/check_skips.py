# SPDX-License-Identifier: Apache-2.0
"""Fail if a test was skipped for anything but absent data or a processor without the instructions.

Usage: python tests/scripts/check_skips.py JUNIT.xml
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ALLOWED = re.compile(r"no real volumes|this processor")


def refused(report: Path) -> list[str]:
    """Skipped tests of a JUnit report whose reason is not allowed, as `test: reason`."""
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None:
            reason = skipped.get("message", "")
            if not ALLOWED.search(reason):
                found.append(f"{case.get('classname')}.{case.get('name')}: {reason}")
    return found


def main() -> int:
    """Print the refused skips of the report named on the command line."""
    found = refused(Path(sys.argv[1]))
    for line in found:
        print(f"skipped without a good reason: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
