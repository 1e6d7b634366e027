# SPDX-License-Identifier: GPL-2.0-only
"""A crrun job on the virtual nodes: its events, and the sockets and descriptors of its processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from .cluster import NODES, VM, Failure, quoted, wait_until


class Job:
    """One job. Its output is in files of the shared directory."""

    HOLD = "go-on"  # a held program runs while this file is in its working directory
    count = 0
    running = []

    @classmethod
    def stop_all(cls, keep=None):
        """End what a scenario has left. The directory `keep` gets the logs of a failed one."""
        while cls.running:
            job = cls.running.pop()
            job.stop()
            if keep:
                job.keep(keep)

    def __init__(self, cluster, program, ranks=4, hosts=("node1:2", "node2:2", "node3:2"), spares=("node4:2",),
                 every="4s", options=(), local="/var/tmp/cr", stdin=None, name=None, shared=True):
        """`shared`: False: without --shared. JOBDIR is then where only crrun and crjob find it."""
        Job.count += 1
        self.cluster = cluster
        self.ranks = ranks
        self.name = name or f"job{Job.count}"
        self.folder = cluster.share / self.name
        self.folder.mkdir()
        self.folder.chmod(0o777)
        (self.folder / self.HOLD).touch()
        self.jobs = self.folder / ("cr" if shared else "state/reprise/jobs")
        self.shared = f"/mnt/share/{self.name}/cr"
        words = [] if shared else ["env", f"XDG_STATE_HOME=/mnt/share/{self.name}/state"]
        words += ["crrun", "-n", ranks, "--local", local, *(["--shared", self.shared] if shared else []),
                 "--wdir", f"/mnt/share/{self.name}", "-v",
                 # The nodes have more processors than the machine that emulates them.
                 "--mca", "btl_crtcp_spin", "200"]
        if hosts:
            words += ["--hosts", ",".join(hosts)]
        if spares:
            words += ["--spares", ",".join(spares)]
        if every:
            words += ["--checkpoint-every", every]
        self.words = [*words, *options, *program]
        self.process = None
        self.stdin = stdin
        self.begun = None
        self.has_jobs_beside = False

    # ------------------------------------------------------------------ the launcher
    def start(self, words=None, where=("head",)):
        """`where`: the words of `vm` before the command."""
        out, err = (open(self.log(name), "ab") for name in ("stdout", "stderr"))
        self.begun = time.monotonic()
        self.running.append(self)
        self.process = subprocess.Popen(
            [VM, where[0], "--cluster", self.cluster.name, *where[1:], "--", *map(str, words or self.words)],
            stdin=self.stdin or subprocess.DEVNULL, stdout=out, stderr=err)
        return self

    def release(self):
        """Let a held program end."""
        (self.folder / self.HOLD).unlink(missing_ok=True)

    def wait(self, seconds=120):
        """@return the launcher's exit status"""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"the job did not end in {seconds} s; its messages:\n{self.last_messages()}") from None

    def ended(self):
        return self.process.poll() is not None

    def signal_launcher(self, number):
        """A signal for this job's crrun on the head node, and for no other. @return false if there is none"""
        for pid in descendants(self.process.pid):
            try:
                if Path(f"/proc/{pid}/comm").read_text("ascii").strip() == "crrun":
                    os.kill(pid, number)
                    return True
            except (FileNotFoundError, ProcessLookupError):
                pass
        return False

    def kill_launcher(self):
        """SIGKILL for crrun, which is the first process of a pid namespace: the others of `vm head` end with it."""
        self.signal_launcher(signal.SIGKILL)
        self.process.wait()

    def attach(self):
        return self.start(["crrun", "-v", "--attach", self.directory("/mnt/share")])

    def stop(self):
        if self.process and not self.ended():
            self.process.kill()
            self.process.wait()

    # ------------------------------------------------------------------ what it wrote
    def log(self, name):
        return self.cluster.logs / f"{self.name}.{name}"

    def output(self):
        return self.log("stdout").read_text("utf-8", "replace")

    def messages(self):
        return self.log("stderr").read_text("utf-8", "replace")

    def last_messages(self):
        """The part of the messages that helps to find a fault."""
        lines = [line for line in self.messages().splitlines() if ": ssh: connect" not in line]
        return "\n".join(lines if len(lines) < 60 else [*lines[:20], "…", *lines[-40:]])

    def keep(self, folder):
        """Copy the logs, state and timeline to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in [self.log("stdout"), self.log("stderr"), *self.jobs.glob("*/*.json*")]:
            if path.is_file() and path.name != "job.json":  # it contains keys
                shutil.copy(path, folder / path.name)

    def directory(self, share=None):
        """JOBDIR, as the host sees it or below `share`."""
        found = list(self.jobs.glob("*/job.json"))
        if not found:
            raise Failure(f"no JOBDIR in {self.jobs}; messages:\n{self.last_messages()}")
        # Jobs that this one has started beside it are younger; one that was restarted has a new file.
        path = (min if self.has_jobs_beside else max)(found, key=lambda path: path.stat().st_mtime).parent
        return f"{share}/{path.relative_to(self.cluster.share)}" if share else path

    def events(self, kind=None, **fields):
        try:
            lines = (self.directory() / "timeline.jsonl").read_text("utf-8").splitlines()
        except (FileNotFoundError, Failure):
            return []
        result = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # its last line is being written
            if kind in (None, event.get("event")) and all(event.get(k) == v for k, v in fields.items()):
                result.append(event)
        return result

    def await_event(self, kind, count=1, seconds=60, such=None, **fields):
        """@param such of an event: whether it counts"""
        def there():
            found = [event for event in self.events(kind, **fields) if such is None or such(event)]
            if len(found) >= count:
                return found[-1]
            if self.ended():
                raise Failure(f"the job ended with {self.process.returncode} before {count} x {kind}; messages:\n"
                              f"{self.last_messages()}\noutput:\n{self.output()[-1000:]}")
            return None
        try:
            return wait_until(there, seconds, f"{count} x {kind} {fields or ''}")
        except Failure as failure:
            raise Failure(f"{failure}; messages:\n{self.last_messages()}") from None

    def await_output(self, pattern, seconds=60):
        def there():
            found = re.search(pattern, self.output(), re.M)
            if not found and self.ended():
                raise Failure(f"the job ended with {self.process.returncode} before its output had {pattern!r}; "
                              f"messages:\n{self.last_messages()}")
            return found
        return wait_until(there, seconds, f"output {pattern!r}")

    def status(self):
        return json.loads(self.cluster.head(f"crjob status --json {self.directory('/mnt/share')}"))

    def crjob(self, command, *arguments, timeout=90):
        return self.cluster.head(quoted(["crjob", command, self.directory("/mnt/share"), *arguments]),
                                 timeout=timeout)

    def checkpoint(self):
        """A wave, now: once the program is in its main loop. @return its number"""
        self.await_output(r"^iteration \d")
        self.crjob("checkpoint")
        return self.events("wave-commit")[-1]["wave"]

    # ------------------------------------------------------------------ its processes
    def where(self):
        """rank -> (node, pid)"""
        return {rank["rank"]: (rank["node"].split(":")[0], rank["pid"]) for rank in self.status()["ranks"]}

    def sockets(self, where, ranks):
        """The connections between these ranks: {(rank, inode, local port, peer port)}.

        Found by ports: each connection between two processes has its two ends among theirs.
        """
        ends = {}
        for node in sorted({where[rank][0] for rank in ranks}):
            text = self.cluster.ssh(node, "ss -Htnpe state established")
            for line in text.splitlines():
                found = re.match(r"\s*\d+\s+\d+\s+(\S+):(\d+)\s+(\S+):(\d+)\s+users:\(\((.*)\)\).* ino:(\d+)", line)
                if not found or found[1].startswith("127."):
                    continue
                for rank in ranks:
                    if where[rank][0] == node and f"pid={where[rank][1]}," in found[5]:
                        ends[(found[1], found[2], found[3], found[4])] = (rank, found[6])
        return {(rank, inode, key[1], key[3]) for key, (rank, inode) in ends.items()
                if (key[2], key[3], key[0], key[1]) in ends}

    def listening(self, where, ranks):
        """The ports at which these ranks listen for each other: {(node, port)}."""
        ports = set()
        for rank in ranks:
            node, pid = where[rank]
            for line in self.cluster.ssh(node, "ss -Htnlp").splitlines():
                if f"pid={pid}," in line:
                    ports.add((node, line.split()[3].rpartition(":")[2]))
        return ports

    def descriptors(self, where):
        return {rank: int(self.cluster.ssh(node, f"ls /proc/{pid}/fd | wc -l")) for rank, (node, pid) in where.items()}


def descendants(pid):
    """@return the processes that come from this one, the nearest first"""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found[1:]


def addresses(nodes):
    return {f"10.77.0.{NODES.index(node) + 1}" for node in nodes}
