# SPDX-License-Identifier: Apache-2.0
"""What several commands of netpipe.cli have in common: options and the words that complete them, the file with their
defaults, and how those that measure do it.
"""
