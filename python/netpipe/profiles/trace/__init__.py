# SPDX-License-Identifier: Apache-2.0
"""What the trace of a profile says: the calls of each rank in their order, messages whole, and who waited for whom."""
