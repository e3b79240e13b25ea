# SPDX-License-Identifier: Apache-2.0
"""Finds the settings of a layer that are faster than those it has, proves each gain, and writes them in the library's
own format: `netpipe tune`. docs/decisions/0023-tuning.md says how.
"""
