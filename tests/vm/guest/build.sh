#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the project with the guest's compiler, against the guest's libraries:
#   build.sh ROOT PROJECT module RELEASE DIR [KERNEL]  cr.ko, from the sources in DIR; KERNEL: directory of
#                                                a kernel outside of the root (make-kernel.sh)
#   build.sh ROOT PROJECT user                   commands, library, headers, tests
#   build.sh ROOT PROJECT programs               the same without tests and benchmarks; old ones of these stay
#   build.sh ROOT PROJECT native COMMAND…        any command, in /mnt/project
#   build.sh ROOT PROJECT head STATE SHARE COMMAND…  the same, with the built project installed, and the
#                                                directories STATE/root, STATE/tmp, STATE/run, STATE/var/tmp and SHARE
# DIR is relative to PROJECT. Runs as root in its own namespaces, so that the mounts vanish at its end.
# The root is mounted read-only: a build must not change it.
set -eu
root=$1 project=$2 what=$3
at=/run/vm-build
mkdir -p $at
over=/run/vm-overlay
# Mount at $2: the root, with the tree $1 of the built project laid over it.
overlay() {
	mkdir -p $over "$2"
	mount -t tmpfs tmpfs $over && mkdir $over/up $over/work &&
		mount -t overlay -o "lowerdir=$1:$root,upperdir=$over/up,workdir=$over/work" overlay "$2"
}
if [ "$what" = head ]; then
	overlay "$project/build/vm/user.tree" $at
else
	mount --bind "$root" $at
	mount -o remount,bind,ro $at
fi
mount -t proc proc $at/proc
mount --bind /sys $at/sys
mount --bind /dev $at/dev
mount --bind /dev/pts $at/dev/pts
for d in tmp run var/tmp root; do
	if [ "$what" = head ] && [ -d "$4/$d" ]; then
		mount --bind "$4/$d" $at/$d
	else
		mount -t tmpfs -o mode=1777 tmpfs $at/$d
	fi
done
mount --bind "$project" $at/mnt/project
export LC_ALL=C.UTF-8 HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset MAKEFLAGS MFLAGS CC CXX CFLAGS CXXFLAGS LDFLAGS DESTDIR || true
jobs=$(nproc)

case $what in
native)
	shift 3
	exec chroot $at sh -c 'cd /mnt/project && exec "$@"' sh "$@"
	;;
head)
	mount -t tmpfs -o mode=1777 tmpfs $at/dev/shm
	[ -z "$5" ] || mount --bind "$5" $at/mnt/share
	hostname head
	shift 5
	exec chroot $at sh -c 'cd /mnt/project && exec "$@"' sh "$@"
	;;
module)
	rel=$4 dir=/mnt/project/$5 kernel=/lib/modules/$4/build
	if [ -n "${6:-}" ]; then
		mount --bind "$6" $at/mnt/share
		mount -t tmpfs tmpfs $at/usr/lib/modules
		mkdir -p "$at/usr/lib/modules/$rel/updates"
		cp "$6"/linux/modules.builtin* "$6"/linux/modules.order "$at/usr/lib/modules/$rel/"
		kernel=/mnt/share/linux
	fi
	chroot $at make -C "$kernel" "M=$dir" W=1 -j"$jobs" ${CR_GCOV:+"CR_GCOV=$CR_GCOV"} modules
	# The tree that is laid over the root: the module, with a module index.
	tree=$dir.tree
	if ! cmp -s "$project/$5/cr.ko" "$project/$5.tree/usr/lib/modules/$rel/updates/cr.ko"; then
		mount -t tmpfs tmpfs "$at/usr/lib/modules/$rel/updates"
		cp "$project/$5/cr.ko" "$at/usr/lib/modules/$rel/updates/"
		rm -rf "$project/$5.tree" && mkdir "$project/$5.tree"
		# depmod -o writes the index below lib/modules of that directory.
		chroot $at depmod -o "$tree" "$rel"
		mkdir -p "$project/$5.tree/usr"
		[ -d "$project/$5.tree/usr/lib" ] || mv "$project/$5.tree/lib" "$project/$5.tree/usr/lib"
		mkdir -p "$project/$5.tree/usr/lib/modules/$rel/updates"
		cp "$project/$5/cr.ko" "$project/$5.tree/usr/lib/modules/$rel/updates/cr.ko"
	fi
	;;
user | programs)
	build=/mnt/project/build/vm/user target=all component=
	[ "$what" = user ] || target=programs component='--component Unspecified'
	# Minimal debugging information (lines and functions): full information would take a third of the compile
	# time.
	grep -qs '^CMAKE_CXX_FLAGS_RELWITHDEBINFO:STRING=-O2 -g1' "$project/build/vm/user/CMakeCache.txt" ||
		chroot $at cmake -S /mnt/project -B $build -G Ninja -DREPRISE_FAULTS=ON \
			-DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG" \
			-DCMAKE_INSTALL_PREFIX=/usr
	chroot $at cmake --build $build -j "$jobs" --target $target
	rm -rf "$project/build/vm/user.tree.part"
	if [ "$what" = programs ] && [ -d "$project/build/vm/user.tree" ]; then
		cp -a "$project/build/vm/user.tree" "$project/build/vm/user.tree.part"
	fi
	# shellcheck disable=SC2086
	chroot $at env DESTDIR=/mnt/project/build/vm/user.tree.part cmake --install $build $component
	# Give users access to /dev/cr; the guest has no udev, so modprobe does it.
	mkdir -p "$project/build/vm/user.tree.part/etc/modprobe.d"
	echo 'install cr /sbin/modprobe --ignore-install cr $CMDLINE_OPTS && chmod 666 /dev/cr' \
		>"$project/build/vm/user.tree.part/etc/modprobe.d/reprise.conf"
	# Make the linker's cache as if the tree were installed. Hosts without overlayfs go without it; the default
	# directories are searched anyway.
	if overlay "$project/build/vm/user.tree.part" /run/vm-all 2>/dev/null; then
		chroot /run/vm-all ldconfig
		mkdir -p "$project/build/vm/user.tree.part/etc"
		cp /run/vm-all/etc/ld.so.cache "$project/build/vm/user.tree.part/etc/"
	fi
	;;
esac
