# SPDX-License-Identifier: Apache-2.0
"""The best number of ranks and threads on a machine, by measurement (section 4.4 of the paper).

`settings` lists what is tried, `measuring` measures a setting in new processes, `search` chooses, and `tuned_file` is
the file that `floodtide train` and `floodtide job` take up.
"""

from floodtide.tune.measuring import Measurement, Network, measure
from floodtide.tune.search import Choice, search
from floodtide.tune.settings import Setting, candidates, default_setting
from floodtide.tune.tuned_file import Tuned, read_tuned, write_tuned

__all__ = [
    "Choice",
    "Measurement",
    "Network",
    "Setting",
    "Tuned",
    "candidates",
    "default_setting",
    "measure",
    "read_tuned",
    "search",
    "write_tuned",
]
