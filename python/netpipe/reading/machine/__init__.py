# SPDX-License-Identifier: Apache-2.0
"""What the machine did during a run: states, clocks, and processors for its ranks."""
