#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# run.sh OUT PROBE.c... -- COMPILER FLAGS...
# Write OUT: a #define CR_HAVE_<NAME> for every probe <name>.c that compiles.
set -eu
out=$1
shift
probes=
while [ "$1" != -- ]; do
	probes="$probes $1"
	shift
done
shift
mkdir -p "$(dirname "$out")"
tmp=$out.tmp.$$
trap 'rm -f "$tmp" "$tmp.o"' EXIT
echo "/* made by kmod/probe/run.sh */" >"$tmp"
for probe in $probes; do
	name=$(basename "$probe" .c | tr '[:lower:]' '[:upper:]')
	if "$@" -Werror=implicit-function-declaration -Werror=incompatible-pointer-types \
		-c -o "$tmp.o" "$probe" 2>/dev/null; then
		echo "#define CR_HAVE_$name 1" >>"$tmp"
	fi
done
mv "$tmp" "$out"
