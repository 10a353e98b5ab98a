# SPDX-License-Identifier: Apache-2.0
"""The report of the trainings of a sweep: which learning rate for how many walkers, and what more walkers bring.

Everything is read from run directories. `cells` sorts the trainings, `scores` names what compares them, `optimum` finds
the best rates, `targets` the training steps to a score. The `*_figure(s)` modules draw, and `page` writes the report.
`progress` draws scores against time, and the time to a score, from what trainings have measured.
"""
