# SPDX-License-Identifier: Apache-2.0
"""The best number of ranks and threads on a machine, by measurement (section 4.4 of the paper).

`settings` lists what is tried, `measuring` measures a setting in new processes, and `search` chooses.
"""
