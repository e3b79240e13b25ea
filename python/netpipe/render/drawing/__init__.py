# SPDX-License-Identifier: Apache-2.0
"""What figures are made of: data that knows neither matplotlib nor plotly (picture), what to draw it from (scope), its
axes and ticks. The folder paper draws it for print.
"""
