#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes the guest root: WORK/root, WORK/root.squashfs, WORK/kernels.
# Runs as root in its own mount and pid namespaces, so that no mount is left when it is killed. Each stage leaves a
# stamp file; a rerun continues after the last completed stage. Progress goes to fd 3, everything else to the caller's
# log.
set -eu
work=$1 debs=$2 packages=$3 kernels=$4
root=$work/root
suite=trixie
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

say() { echo "$*" >&3; echo "== $*"; }
done_with() { touch "$work/done-$1"; }
todo() { [ ! -e "$work/done-$1" ]; }
inside() { chroot "$root" "$@"; }

if todo debootstrap; then
	say "base system (debootstrap $suite)"
	rm -rf "$root"
	debootstrap --variant=minbase --cache-dir="$debs" "$suite" "$root"
	done_with debootstrap
fi

mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind "$debs" "$root/var/cache/apt/archives"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"

if todo sources; then
	# Take the other suites from the mirror that debootstrap used.
	mirror=$(awk '$1 == "deb" { print $2; exit }' "$root/etc/apt/sources.list")
	{
		echo "deb $mirror $suite-updates main"
		echo "deb $mirror-security $suite-security main"
		echo "deb $mirror $suite-backports main"
		echo "deb $mirror bookworm main"
		echo "deb $mirror-security bookworm-security main"
	} >"$root/etc/apt/sources.list.d/more.list"
	# Only the kernel comes from Debian 12.
	printf 'Package: *\nPin: release n=bookworm*\nPin-Priority: 100\n' \
		>"$root/etc/apt/preferences.d/bookworm"
	printf 'path-exclude=/usr/share/%s/*\n' doc locale man info lintian bug \
		>"$root/etc/dpkg/dpkg.cfg.d/vm"
	# Of Quantum ESPRESSO, 270 MB of programs, the tests run pw.x.
	printf 'path-exclude=/usr/bin/*.x\npath-include=/usr/bin/pw.x\n' >>"$root/etc/dpkg/dpkg.cfg.d/vm"
	echo force-unsafe-io >>"$root/etc/dpkg/dpkg.cfg.d/vm"
	printf 'APT::Install-Recommends "false";\nAcquire::Retries "3";\n' \
		>"$root/etc/apt/apt.conf.d/vm"
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod 755 "$root/usr/sbin/policy-rc.d"
	done_with sources
fi

if todo packages; then
	list=$(sed 's/#.*//' "$packages" | xargs)
	say "package lists"
	inside apt-get -q update
	say "$(echo "$list" | wc -w) packages and what they need"
	inside dpkg --configure -a
	# shellcheck disable=SC2086
	inside apt-get -q -y -f install
	# shellcheck disable=SC2086
	inside apt-get -q -y upgrade
	# shellcheck disable=SC2086
	inside apt-get -q -y install $list
	done_with packages
fi

# Kernels are unpacked, not installed: an installation would pull in an initramfs generator, firmware and thousands of
# drivers.
unpack_kernel() {
	name=$1 suites=$2
	version=$(inside apt-cache madison linux-image-amd64 |
		awk -F ' *[|] *' -v s="$suites/main" '$3 ~ (" " s " ") {gsub(/ /, "", $2); print $2}' |
		while read -r v; do
			if dpkg --compare-versions "$v" gt "${max:-0}"; then max=$v; fi
			echo "$max"
		done | tail -n 1)
	[ -n "$version" ] || { say "no linux-image-amd64 in $suites"; exit 1; }
	rel=$(inside apt-cache show "linux-image-amd64=$version" |
		sed -n 's/^Depends:.*linux-image-\([^ ,]*\) (=.*/\1/p')
	say "kernel $name: $rel"

	# The linux-* packages on which image and headers depend.
	want="linux-image-$rel linux-headers-$rel" all=
	while [ -n "$want" ]; do
		next=
		for p in $want; do
			case " $all " in *" $p "*) continue ;; esac
			all="$all $p"
			next="$next $(inside apt-cache show --no-all-versions "$p" |
				sed -n 's/^Depends: //p' | tr ',' '\n' | sed 's/|.*//; s/(.*//' |
				grep -E '^ *linux-(base-[0-9]|binary|modules|headers|kbuild|compiler)' | xargs)"
		done
		want=$(echo "$next" | xargs)
	done
	tmp=$root/tmp/kernel
	rm -rf "$tmp"
	mkdir -p "$tmp"
	# shellcheck disable=SC2086
	(cd "$debs" && inside sh -c "cd /var/cache/apt/archives && apt-get -q download $all")
	for p in $all; do
		deb=$(ls -t "$debs/${p}"_*.deb | head -n 1)
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tmp"
	done

	mods=$(ls -d "$tmp"/lib/modules/"$rel" "$tmp"/usr/lib/modules/"$rel" 2>/dev/null | tr '\n' ' ')
	for m in $mods; do
		mkdir -p "$root/usr/lib/modules/$rel"
		if [ -d "$m/kernel" ]; then
			(
				cd "$m/kernel"
				rm -rf sound drivers/gpu drivers/media
				find drivers -mindepth 1 -maxdepth 1 ! -name block ! -name char \
					! -name net ! -name virtio -exec rm -rf {} +
				find drivers/net -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} +
				find . -name '*.ko.xz' -exec xz -d {} +
				find . -name '*.ko.zst' -exec zstd -q --rm -d {} +
			)
		fi
		cp -a "$m/." "$root/usr/lib/modules/$rel/"
	done
	mkdir -p "$root/usr/lib/modules/$rel/updates" "$root/boot" "$root/usr/src"
	cp -a "$tmp"/usr/src/. "$root/usr/src/"
	cp -a "$tmp"/usr/lib/linux-* "$root/usr/lib/" # kbuild tools
	image=$(find "$tmp" -name "vmlinuz*" -type f | head -n 1)
	cp "$image" "$root/boot/vmlinuz-$rel"
	inside depmod "$rel"
	rm -rf "$tmp"
	echo "$name $rel" >>"$work/kernels.part"
}

if todo kernels; then
	: >"$work/kernels.part"
	sed 's/#.*//' "$kernels" | while read -r name suites; do
		[ -z "$name" ] || unpack_kernel "$name" "$suites"
	done
	mv "$work/kernels.part" "$work/kernels"
	done_with kernels
fi

# Debian's headers do not contain checkpatch.pl; its source package does.
if todo checkpatch; then
	source=$(inside apt-cache show --no-all-versions linux-source |
		sed -n 's/^Depends:.*\(linux-source-[0-9.]*\).*/\1/p')
	say "checkpatch.pl, of $source"
	inside sh -c "cd /var/cache/apt/archives && apt-get -q download $source"
	deb=$(ls -t "$debs/${source}"_*.deb | head -n 1)
	mkdir -p "$root/usr/local/lib/kernel-scripts"
	dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards '*.tar.xz' | xz -dc -T0 |
		tar -x -C "$root/usr/local/lib/kernel-scripts" --strip-components=2 --wildcards \
			'*/scripts/checkpatch.pl' '*/scripts/spelling.txt' '*/scripts/const_structs.checkpatch'
	done_with checkpatch
fi

if todo config; then
	mkdir -p "$root/mnt/project" "$root/mnt/share" "$root/etc/dropbear"
	inside sh -c 'id user >/dev/null 2>&1 || useradd -m -u 1000 -s /bin/bash user'
	{
		echo 127.0.0.1 localhost
		echo 10.77.0.254 head
		for i in $(seq 1 64); do echo "10.77.0.$i node$i"; done
	} >"$root/etc/hosts"
	# One key pair for the nodes and the host, generated here and kept only in the cache. OpenSSH's own server
	# would take eight times as long to log in.
	rm -f "$work/id_ed25519" "$work/id_ed25519.pub" "$root/etc/dropbear/host"
	inside dropbearkey -t ed25519 -f /etc/dropbear/host >/dev/null
	inside ssh-keygen -q -t ed25519 -N '' -C vm -f /tmp/id_ed25519 </dev/null
	mv "$root/tmp/id_ed25519" "$root/tmp/id_ed25519.pub" "$work/"
	for home in root home/user; do
		mkdir -p "$root/$home/.ssh"
		cp "$work/id_ed25519" "$root/$home/.ssh/"
		cp "$work/id_ed25519.pub" "$root/$home/.ssh/authorized_keys"
		cat >"$root/$home/.ssh/config" <<-CONFIG
			Host *
			  StrictHostKeyChecking no
			  UserKnownHostsFile /dev/null
			  LogLevel ERROR
			  KexAlgorithms curve25519-sha256
			  Ciphers aes128-gcm@openssh.com,aes128-ctr
		CONFIG
		chmod -R go= "$root/$home/.ssh"
	done
	inside chown -R user:user /home/user
	rm -f "$root/usr/sbin/policy-rc.d"
	done_with config
fi

if todo squashfs; then
	say "packing the root"
	umount "$root/var/cache/apt/archives" "$root/dev" "$root/proc"
	: >"$root/etc/resolv.conf"
	rm -f "$work/root.squashfs"
	# Headers and QEMU are needed only on the host. lz4, because decompression is emulated and lz4 is the
	# cheapest.
	mksquashfs "$root" "$work/root.squashfs" -comp lz4 -noappend -no-progress -quiet \
		-wildcards -e 'usr/src/*' 'usr/lib/linux-kbuild*' 'boot/*' 'var/cache/*/*' \
		'var/lib/apt/lists/*' 'usr/share/doc/*' 'usr/share/locale/*' 'tmp/*' \
		'usr/bin/qemu-*' 'usr/share/qemu' 'usr/share/seabios' 'usr/lib/ipxe' \
		'usr/lib/x86_64-linux-gnu/qemu'
	done_with squashfs
fi
