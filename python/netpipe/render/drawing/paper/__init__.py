# SPDX-License-Identifier: Apache-2.0
"""Figures for print: panels as data, drawn with matplotlib."""
