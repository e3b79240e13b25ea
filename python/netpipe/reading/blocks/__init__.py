# SPDX-License-Identifier: Apache-2.0
"""What was measured back to back: the visits of a run, and comparisons within its blocks."""
