# SPDX-License-Identifier: Apache-2.0
"""How fast settings are. This room measures what it is told and decides nothing but what is a gain.

guard    Ctrl-C and deadlines between and within sessions
bench    rounds of candidates, in blocks beside what they are compared with
turns    what cannot be in one block: launches take turns
ratios   from a run to ratios with intervals, and whether a ratio is a gain
"""
