# SPDX-License-Identifier: Apache-2.0
"""What to try, and what to measure next. This room is pure: it starts nothing and looks at no clock.

variants   a variant as a start and changes to it
space      which settings are worth trying, with which values
goals      what counts, and how much
halving    the search: told how fast settings are, it says what to measure next
"""
