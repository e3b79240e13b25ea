# SPDX-License-Identifier: Apache-2.0
"""Rules about waiting: how a rank waits, and what makes it wait without need."""
