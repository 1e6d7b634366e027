# SPDX-License-Identifier: GPL-2.0-only
"""Makes the readable reports from the table of single values."""
