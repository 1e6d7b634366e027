# SPDX-License-Identifier: GPL-2.0-only
"""From the table of single values to what people read."""
