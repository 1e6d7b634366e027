#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes what one kernel boots from: OUT/vmlinux and OUT/initramfs.cpio.
#   make-boot.sh ROOT RELEASE GUEST OUT [KERNEL]
# KERNEL: folder with a vmlinux that has all drivers built in (make-kernel.sh); without
# it the kernel and its modules are those of the root.
# Runs as root in namespaces of its own. Progress goes to fd 3.
set -eu
root=$1 rel=$2 guest=$3 out=$4 own=${5:-}
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

echo "boot files of $rel" >&3
mkdir -p "$out"

# An uncompressed kernel saves emulated decompression.
if [ -n "$own" ]; then
	cp "$own/vmlinux" "$out/vmlinux"
else
	sh "$guest/extract-vmlinux" "$root/boot/vmlinuz-$rel" >"$out/vmlinux"
fi

tree=$out/tree
rm -rf "$tree"
mkdir -p "$tree/bin" "$tree/m" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/new" \
	"$tree/lower" "$tree/extra" "$tree/rw" "$tree/vm"
cp "$(find "$root/usr/bin/busybox" "$root/bin/busybox" 2>/dev/null | head -n 1)" "$tree/bin/busybox"
ln -s busybox "$tree/bin/sh"
install -m 755 "$guest/init" "$tree/init"

# In the order of their dependencies; init loads them as they come.
needed() {
	[ -n "$own" ] || chroot "$root" modprobe -S "$rel" --show-depends "$1" |
		sed -n 's/^insmod \([^ ]*\).*/\1/p'
}
for m in virtio_pci virtio_blk virtio_console squashfs overlay 9pnet_virtio 9p; do
	needed "$m"
done | awk '!seen[$0]++' >"$out/modules"
needed virtio_net | grep -vxF -f "$out/modules" >"$out/modules.net" || true
for list in modules modules.net; do
	while read -r ko; do
		cp "$root/$ko" "$tree/m/"
		basename "$ko"
	done <"$out/$list" >"$tree/m/$list"
done

# PID 1 is static: it starts before the guest's libraries have been read.
# The root itself stays untouched: it is shared by other runs.
mount -t tmpfs tmpfs "$root/tmp"
cp "$guest/agent.c" "$root/tmp/"
chroot "$root" gcc -static -O2 -Wall -Wextra -o /tmp/agent /tmp/agent.c
strip -o "$tree/bin/agent" "$root/tmp/agent" 2>/dev/null || cp "$root/tmp/agent" "$tree/bin/agent"

(cd "$tree" && find . | "$tree/bin/busybox" cpio -o -H newc) >"$out/initramfs.cpio" 2>/dev/null
rm -rf "$tree"
