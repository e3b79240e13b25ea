# SPDX-License-Identifier: Apache-2.0
"""Curves of which it is known what is wrong with them: measured here, with the cause provoked or kept away."""
