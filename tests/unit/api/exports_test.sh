#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# libcr.so exports exactly the functions that libcr.h declares, each with a symbol version.
# $1: libcr.so, $2: libcr.h
set -eu
for tool in nm grep sort; do
  command -v $tool >/dev/null || { echo "no $tool here"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -nE 's/^extern [a-z0-9_ ]+[ *](cri?_[a-z_]+)\(.*/\1/p' "$2" | sort >"$work/declared"
nm -D --defined-only --with-symbol-versions "$1" >"$work/symbols"
grep -E ' T ' "$work/symbols" | sed 's/.* T //' | sort >"$work/exported"
sed 's/@.*//' "$work/exported" | sort >"$work/names"
[ "$(wc -l <"$work/declared")" -gt 40 ] || { echo "$2 declares too little:"; cat "$work/declared"; exit 1; }
bad=0
diff "$work/declared" "$work/names" || { echo 'libcr.h (<) and what libcr.so exports (>) differ'; bad=1; }
if grep -vE '@@LIBCR_[0-9.]+$' "$work/exported"; then echo 'these have no version'; bad=1; fi
if grep -vE ' [TA] ' "$work/symbols"; then echo 'these are no functions'; bad=1; fi
[ $bad = 0 ] && echo "libcr.so exports what libcr.h declares: $(wc -l <"$work/names") functions"
exit $bad
