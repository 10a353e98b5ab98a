# SPDX-License-Identifier: Apache-2.0
"""Print the absolute path of the first file of an installed wheel that ends in a given suffix.

Usage: wheel_file.py DISTRIBUTION SUFFIX. Prints nothing when either is missing.
"""

import sys
from importlib import metadata

distribution, suffix = sys.argv[1:]
try:
    files = metadata.files(distribution) or []
except metadata.PackageNotFoundError:
    files = []
for file in files:
    if str(file).endswith(suffix):
        print(file.locate().resolve())
        break
