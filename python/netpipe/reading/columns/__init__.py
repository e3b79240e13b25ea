# SPDX-License-Identifier: Apache-2.0
"""Points and sizes in columns: a run may have hundreds of thousands."""
