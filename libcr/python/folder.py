# SPDX-License-Identifier: LGPL-2.1-or-later
"""folder.py PREFIX: prints the first folder below PREFIX, relative to it, in which this interpreter looks for modules; nothing
if there is none."""

import os
import site
import sys

prefix = os.path.normpath(sys.argv[1])
for folder in site.getsitepackages():
    below = os.path.relpath(folder, prefix)
    # /usr/local is below /usr, but belongs to what is installed there.
    if not below.startswith(("../", "local/")):
        print(below)
        break
