# SPDX-License-Identifier: Apache-2.0
"""Fail if a test was skipped for another reason than the machine's.

Reasons of the machine are absent data, a processor without the instructions, or a system without network namespaces.
Usage: python tests/scripts/check_skips.py JUNIT.xml
FLOODTIDE_ALLOW_SKIP names one more word that a reason may hold.
"""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ALLOWED = ["no real volumes", "this processor", "network namespaces"]
if os.environ.get("FLOODTIDE_ALLOW_SKIP"):
    ALLOWED.append(os.environ["FLOODTIDE_ALLOW_SKIP"])


def refused(report: Path) -> list[str]:
    """Skipped tests of a JUnit report whose reason is not allowed, as `test: reason`."""
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None:
            reason = skipped.get("message", "")
            if not any(word in reason for word in ALLOWED):
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
