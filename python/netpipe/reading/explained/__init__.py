# SPDX-License-Identifier: Apache-2.0
"""Curves whose times come in states of the machine, because a yardstick explains them."""
