#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes the debugging kernel: WORK/vmlinux, WORK/linux (the tree to build modules
# against), WORK/release. Built by the guest root's compiler, which stays as it is;
# what its Debian has and the root lacks is unpacked beside the kernel.
#   make-kernel.sh ROOT WORK DEBS VERSION FRAGMENT
# Runs as root in namespaces of its own, so that nothing stays mounted when it is
# killed. Each stage leaves a stamp; a rerun goes on after the last one, make after
# the last file. Progress goes to fd 3, everything else to the caller's log.
set -eu
root=$1 work=$2 debs=$3 version=$4 fragment=$5
at=/run/vm-kernel
export LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset MAKEFLAGS MFLAGS CC CFLAGS LDFLAGS ARCH CROSS_COMPILE || true

say() { echo "$*" >&3; echo "== $*"; }
done_with() { touch "$work/done-$1"; }
todo() { [ ! -e "$work/done-$1" ]; }

mkdir -p $at
mount --bind "$root" $at
mount -o remount,bind,ro $at
mount -t proc proc $at/proc
mount --bind /dev $at/dev
mount -t tmpfs -o mode=1777 tmpfs $at/tmp
mount -t tmpfs tmpfs $at/run
mount --bind "$work" $at/mnt/share

# The package NAME in the version that VERSION matches: from the cache, or fetched
# with package lists of this run's own where the root's are too old.
package() { # NAME VERSION
	for deb in "$debs/$1"_$2*.deb; do
		[ ! -e "$deb" ] || { echo "$deb"; return; }
	done
	if ! mountpoint -q $at/var/cache/apt/archives; then
		mount --bind "$debs" $at/var/cache/apt/archives
		touch $at/run/resolv.conf
		cat /etc/resolv.conf >$at/run/resolv.conf 2>/dev/null || true
		mount --bind $at/run/resolv.conf $at/etc/resolv.conf
		mkdir $at/run/lists
		cp -a $at/var/lib/apt/lists/. $at/run/lists/
		mount --bind $at/run/lists $at/var/lib/apt/lists
	fi >&2
	for try in once again; do
		found=$(chroot $at apt-cache madison "$1" |
			awk -F ' *[|] *' -v v="$2" '{gsub(/ /, "", $2)} index($2, v) == 1 {print $2; exit}')
		if [ -n "$found" ] && chroot $at sh -c 'cd /var/cache/apt/archives &&
			apt-get -q -o APT::Sandbox::User=root download "$1"' sh "$1=$found" >&2; then
			# A colon of the version is written otherwise in the file's name.
			ls -t "$debs/$1"_*.deb | head -n 1
			return
		fi
		[ $try = again ] || chroot $at apt-get -q update >&2
	done
	echo "no package $1 of version ${2:-any} at Debian's mirror; a newer root" \
		"(remove $(dirname "$root")) has a newer kernel" >&2
	return 1
}

if todo tools; then
	say "tools: flex, bison, m4"
	rm -rf "$work/tools"
	mkdir "$work/tools"
	for name in flex bison m4 libsigsegv2; do
		deb=$(package $name '')
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/tools"
	done
	done_with tools
fi

if todo source; then
	say "source of Linux $version"
	deb=$(package "linux-source-${version%.*}" "$version-")
	rm -rf "$work/linux"
	mkdir "$work/linux"
	dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards '*.tar.xz' | xz -dc -T0 |
		tar -x -C "$work/linux" --strip-components=1
	# PVH's entry compares strings before KASAN has a shadow to look at.
	echo 'KASAN_SANITIZE_string.o := n' >>"$work/linux/lib/Makefile"
	done_with source
fi

tools=/mnt/share/tools/usr
inside() {
	nice -n 4 chroot $at env "PATH=$tools/bin:$PATH" "BISON_PKGDATADIR=$tools/share/bison" \
		"M4=$tools/bin/m4" "LD_LIBRARY_PATH=$tools/lib/x86_64-linux-gnu" \
		KBUILD_BUILD_USER=vm KBUILD_BUILD_HOST=vm KBUILD_BUILD_TIMESTAMP=2000-01-01 "$@"
}

if todo config; then
	say "configuration"
	cp "$fragment" "$work/fragment"
	inside make -C /mnt/share/linux KCONFIG_ALLCONFIG=/mnt/share/fragment allnoconfig
	# Kconfig leaves out in silence what something else forbids.
	missing=
	while read -r line; do
		case $line in
		CONFIG_*) grep -qxF -e "$line" "$work/linux/.config" || missing="$missing $line" ;;
		'# CONFIG_'*' is not set')
			name=${line#\# } name=${name%% *}
			! grep -q "^$name=" "$work/linux/.config" || missing="$missing no $name"
			;;
		esac
	done <"$fragment"
	[ -z "$missing" ] || { echo "not in the configuration:$missing" | tee /dev/fd/3; exit 1; }
	done_with config
fi

if todo build; then
	say "compiling"
	inside make -C /mnt/share/linux -j"$(nproc)" vmlinux modules &
	make=$!
	while kill -0 $make 2>/dev/null; do
		sleep 5
		n=$((${n:-0} + 1))
		[ $((n % 12)) -ne 0 ] || echo "$(find "$work/linux" -name '*.o' | wc -l) files of some 1500" >&3
	done
	wait $make
	inside make -s -C /mnt/share/linux kernelrelease >"$work/release.part"
	mv "$work/release.part" "$work/release"
	strip -o "$work/vmlinux" "$work/linux/vmlinux"
	done_with build
fi

# Modules need the headers and what make made of scripts/ and tools/.
if todo trim; then
	say "removing what modules do not need"
	(
		cd "$work/linux"
		find . \( -path ./scripts -o -path ./tools/objtool -o -path ./include -o -path ./arch/x86/include \) \
			-prune -o -type f \( -name '*.[oacS]' -o -name '.*.cmd' \) -exec rm -f {} +
		rm -rf Documentation sound
		find drivers -name '*.h' -delete
		rm -f vmlinux.o .tmp_vmlinux*
	)
	rm -rf "$work/tools"
	done_with trim
fi
