# SPDX-License-Identifier: GPL-2.0-only
"""The measurements of the process level, made inside a guest."""
