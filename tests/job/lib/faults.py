# SPDX-License-Identifier: GPL-2.0-only
"""Faults of processes and connections on a node."""

DAEMON = "'^crd --job'"


def kill_daemon(cluster, node):
    cluster.ssh(node, f"pkill -KILL -f {DAEMON}")


def stop_daemon(cluster, node):
    cluster.ssh(node, f"pkill -STOP -f {DAEMON}")


def continue_daemon(cluster, node):
    cluster.ssh(node, f"pkill -CONT -f {DAEMON}")


def cut_connections(cluster, node, pid):
    """The kernel resets the connections between this process and others of the cluster. @return what was cut"""
    return cluster.ssh(node, f"for port in $(ss -Htnpe state established | grep pid={pid}, | "
                             "sed -E 's/.*10\\.77\\.0\\.[0-9]+:([0-9]+) +10\\.77.*/\\1/'); "
                             "do ss -K -tn sport = :$port; done; true")
