# SPDX-License-Identifier: GPL-2.0-only
"""The kinds of faults. Each is a function of a round and a fault: it does it, and returns words on what it did.

A fault has `node`, which was chosen because it has what the kind needs, and the numbers `seconds` (1 to 20) and `variant` (0
to 1), by which a kind may vary. Faults that end by themselves do so by a process on the node, since the node may not be
reachable then; Round.disturbed() notes when.
"""

import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Callable

from lib.cluster import Failure, at_once
from lib.faults import cut_connections, kill_daemon

SLOW = "/mnt/project/build/vm/user/tests/job/crd/libslow_fsync.so"


@dataclass
class Kind:
    name: str
    needs: str  # "node": a living one; "daemon", "rank": one with that; "job": ranks that run; "": nothing
    text: str
    takes_node: bool  # the job may lose the node by it
    act: Callable
    prepare: Callable = None  # before the job starts
    always: bool = False  # it lasts from the job's start on


KINDS = {}


def kind(name, needs, takes_node=False, prepare=None, always=False):
    def add(function):
        KINDS[name] = Kind(name, needs, function.__doc__, takes_node, function, prepare, always)
        return function
    return add


def background(round_, node, command, seconds):
    """Run a command on a node without waiting for it."""
    round_.ssh(node, f"setsid sh -c '{command}' </dev/null >/dev/null 2>&1 &")
    round_.disturbed(node, seconds)


@kind("node-killed", "node", takes_node=True)
def node_killed(round_, fault):
    """power failure; sometimes the node is switched on again"""
    round_.kill_node(fault.node)
    if fault.variant > 0.7:
        def again():
            time.sleep(fault.seconds / 4)
            round_.cluster.start(fault.node)
            round_.dead.discard(fault.node)
        round_.in_background(threading.Thread(target=again))
        return f"and started again after {fault.seconds / 4:.1f} s"
    return ""


@kind("rank-killed", "rank")
def rank_killed(round_, fault):
    """SIGKILL for a rank"""
    pid = round_.rank_on(fault)
    round_.ssh(fault.node, f"kill -KILL {pid}")
    return f"process {pid}"


@kind("daemon-killed", "daemon", takes_node=True)
def daemon_killed(round_, fault):
    """SIGKILL for a daemon"""
    kill_daemon(round_.cluster, fault.node)
    return ""


@kind("daemon-stopped", "daemon", takes_node=True)
def daemon_stopped(round_, fault):
    """a daemon is stopped and continues later"""
    background(round_, fault.node, f'pids=$(pgrep -f "^crd --job"); kill -STOP $pids; sleep {fault.seconds}; kill -CONT $pids',
               fault.seconds)
    return f"for {fault.seconds} s"


@kind("crrun-killed", "job")
def crrun_killed(round_, fault):
    """SIGKILL for crrun; a crrun --attach takes the job over later"""
    later = fault.seconds * 0.4
    round_.replace_launcher(later)
    return f"and replaced after {later:.1f} s"


@kind("connections-cut", "rank")
def connections_cut(round_, fault):
    """the kernel resets the connections of a rank"""
    pid = round_.rank_on(fault)
    cut = cut_connections(round_.cluster, fault.node, pid)
    return f"{len([line for line in cut.splitlines() if '10.77' in line])} of process {pid}"


HEAD = "10.77.0.254/32"
PARTITIONS = {
    "the host of crrun": lambda drop: [(10, HEAD, drop)],
    "the other nodes": lambda drop: [(10, HEAD, "ok"), (11, "10.77.0.0/24", drop)],
    "all": lambda drop: [(10, "10.77.0.0/24", drop)],
}


@kind("partition", "node", takes_node=True)
def partition(round_, fault):
    """packets between a node and crrun's host, or the other nodes, or both, are dropped, in one direction or both"""
    number = int(fault.variant * 9)
    side, directions = list(PARTITIONS)[number % 3], (("in",), ("out",), ("in", "out"))[number // 3]
    base = fault.number * 100
    # Filters of a lower number count first, so those of an earlier fault may keep the host reachable a little longer.
    add, remove = [], []
    for way in directions:
        hook, end = ("ingress", "src") if way == "in" else ("egress", "dst")
        for pref, network, action in PARTITIONS[side]("drop"):
            add.append(f"tc filter add dev eth0 {hook} protocol ip pref {base + pref} u32 match ip {end} {network} "
                       f"action {action}")
            remove.append(f"tc filter del dev eth0 {hook} pref {base + pref}")
    background(round_, fault.node, f'tc qdisc add dev eth0 clsact; {"; ".join(add)}; sleep {fault.seconds}; '
                                   f'{"; ".join(remove)}', fault.seconds)
    return f"from {side}, {' and '.join(directions)}, for {fault.seconds} s"


def preload_slow_fsync(round_, fault):
    round_.environment = ["env", f"LD_PRELOAD={SLOW}", f"SLOW_FSYNC={1 + int(fault.variant * 3)}"]


@kind("slow-fsync", "", prepare=preload_slow_fsync, always=True)
def slow_fsync(_round, fault):
    """every fsync of crrun takes one to three seconds, all the time"""
    return f"{1 + int(fault.variant * 3)} s"


DISK_MB = 200


def mount_local_disks(round_, _fault):
    """A file system of its own for the images of each node, which can be filled and frozen."""
    image = round_.cluster.share / "local-disk.gz"
    if not image.exists():
        plain = round_.cluster.logs / "local-disk"
        subprocess.run(["truncate", "-s", f"{DISK_MB}M", plain], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", plain], check=True)
        with open(image, "wb") as out:
            subprocess.run(["gzip", "-1c", plain], check=True, stdout=out)
        plain.unlink()

    def one(node):
        round_.ssh(node, "mountpoint -q /var/tmp/disk && exit; modprobe loop; modprobe ext4; mkdir -p /var/tmp/disk; "
                         "gzip -dc /mnt/share/local-disk.gz | dd of=/var/tmp/image conv=sparse bs=64k 2>/dev/null; "
                         "mount -o loop,noatime /var/tmp/image /var/tmp/disk")
    at_once(one, round_.nodes)
    round_.local = "/var/tmp/disk/cr"


def on_disk(round_, node):
    if not round_.ssh(node, "mountpoint -q /var/tmp/disk && echo yes; true"):
        raise Failure(f"{node} was started again and has no disk of its own any more")


@kind("local-disk-slow", "node", prepare=mount_local_disks)
def local_disk_slow(round_, fault):
    """a node's own disk hangs, or hangs again and again for a second"""
    on_disk(round_, fault.node)
    once, times = (fault.seconds, 1) if fault.variant < 0.3 else (1, max(1, round(fault.seconds / 1.3)))
    background(round_, fault.node, f"for i in $(seq {times}); do fsfreeze -f /var/tmp/disk; sleep {once}; "
                                   "fsfreeze -u /var/tmp/disk; sleep 0.3; done", fault.seconds + times / 3)
    return f"{times} x {once} s"


@kind("local-disk-full", "node", prepare=mount_local_disks)
def local_disk_full(round_, fault):
    """a node's own disk is full for a time"""
    on_disk(round_, fault.node)
    # An allocation that fails for lack of space leaves what it got; dd takes the rest.
    background(round_, fault.node, f"f=/var/tmp/disk/filler; fallocate -l {DISK_MB}M $f || dd if=/dev/zero of=$f bs=64k "
                                   f"oflag=append conv=notrunc; sleep {fault.seconds}; rm -f $f", fault.seconds)
    return f"for {fault.seconds} s"


@kind("shared-storage-hangs", "")
def shared_storage_hangs(round_, fault):
    """whoever writes to shared storage waits: crrun, daemons and ranks"""
    if not round_.cluster.disk:
        raise Failure("this host cannot mount a file system of its own for it")
    if round_.frozen_until > time.monotonic():
        raise Failure("it hangs already")
    round_.cluster.hang(fault.seconds)
    round_.frozen_until = time.monotonic() + fault.seconds + 1
    return f"for {fault.seconds} s"


@kind("clock-step", "node")
def clock_step(round_, fault):
    """the clock of a node is set back, or forward"""
    step = round((fault.variant - 0.5) * 120)
    round_.ssh(fault.node, f"date -s @$(( $(date +%s) + {step} ))")
    return f"by {step} s"
