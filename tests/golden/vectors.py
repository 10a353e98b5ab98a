# SPDX-License-Identifier: Apache-2.0
"""All cases."""

from __future__ import annotations

from golden import optimizers, unets
from golden.case import Case

CASES: dict[str, Case] = {case.name: case for case in optimizers.CASES + unets.CASES}
