# SPDX-License-Identifier: GPL-2.0-only
"""One round: a job, the faults of its plan, and what must hold at the end."""

import os
import shutil
import subprocess
import time

from lib.cluster import Failure, at_once
from lib.job import Job

from .kinds import KINDS
from .outcome import strict, with_repetitions

NO_PROGRESS = 240  # seconds
LONGEST = 1500
NO_EVENT = 10  # a fault comes after this time without the event that it waits for
LEFT = 60  # seconds in which a living node must be clean after the job's end
TOOLS = "crd|cr_checkpoint|cr_pause|cr_restart"
NO_WAVE = "no wave is in shared storage: start it from the beginning"
RESTARTABLE = 75


class Round:
    def __init__(self, cluster, plan, logs):
        self.cluster, self.plan, self.logs = cluster, plan, logs
        self.nodes = [*plan.hosts, *plan.spares]
        self.job = None
        self.begun = time.monotonic()
        self.environment = []
        self.local = "/var/tmp/cr"
        self.dead = set()
        self.taken = set()  # nodes that the job may have lost by faults since its start
        self.ever_taken = set()
        self.until = {}  # node: when its last fault has ended
        self.frozen_until = 0
        self.threads = []
        self.restarted = False  # a crrun --restart prints again what came after its wave
        self.notes = []

    # ------------------------------------------------------------------ for the faults
    def ssh(self, node, command):
        try:
            return self.cluster.ssh(node, command, timeout=60)
        except subprocess.TimeoutExpired:
            raise Failure(f"{node} did not answer in a minute") from None

    def disturbed(self, node, seconds):
        """The node will be itself again after this time."""
        self.until[node] = max(self.until.get(node, 0), time.monotonic() + seconds + 2)

    def in_background(self, thread):
        self.threads.append(thread)
        thread.start()

    def kill_node(self, node):
        self.cluster.kill(node)
        self.dead.add(node)

    def ranks_on(self, node):
        return self.ssh(node, f"pgrep -x {self.plan.process}; true").split()

    def rank_on(self, fault):
        pids = self.ranks_on(fault.node)
        if not pids:
            raise Failure(f"no rank is on {fault.node} any more")
        return pids[int(fault.variant * len(pids))]

    def replace_launcher(self, later):
        if self.job.events("job-end"):
            raise Failure("the job was about to end")
        self.job.kill_launcher()
        time.sleep(later)
        self.job.attach()

    # ------------------------------------------------------------------ faults
    def has(self, node, needs):
        if node in self.dead or self.until.get(node, 0) > time.monotonic():
            return False
        try:
            if needs == "daemon":
                return bool(self.ssh(node, "pgrep -f '^crd --job'; true"))
            return needs != "rank" or bool(self.ranks_on(node))
        except Failure:
            return False

    def possible(self, fault):
        """Choose the fault's node. @return whether there is what the fault needs"""
        needs = KINDS[fault.kind].needs
        if needs == "job":
            return self.plan.program.progress(self.job) > 0
        if needs in ("node", "daemon", "rank"):
            fault.node = next((node for node in fault.order if self.has(node, needs)), None)
            return bool(fault.node)
        return True

    def inject(self, fault):
        kind = KINDS[fault.kind]
        try:
            if fault.node and kind.takes_node:
                self.taken.add(fault.node)
            fault.note = kind.act(self, fault)
            fault.hit = True
        except (Failure, subprocess.TimeoutExpired) as failure:
            fault.note = f"not done: {str(failure).splitlines()[0][:120]}"
        self.ever_taken |= self.taken
        self.say(f"{fault}")

    def say(self, text):
        self.notes.append(f"{time.monotonic() - self.begun:.1f} s: {text}")

    def due(self, fault, moment):
        """`moment`: what is known of the time at which it is due."""
        now = time.monotonic()
        if fault.moment == "start":
            return now - self.begun >= fault.delay
        if "at" not in moment:
            count = len(self.job.events(f"{fault.moment}-begin"))
            if count > moment.setdefault("count", count) or now > moment.setdefault("since", now) + NO_EVENT:
                moment["at"] = now + fault.delay
        return now >= moment.get("at", now + 1)

    # ------------------------------------------------------------------ the round
    def run(self):
        """Raises Failure if something does not hold."""
        plan = self.plan
        self.reset()
        wanted = plan.program.wanted(self.cluster, plan)
        for fault in plan.faults:
            if KINDS[fault.kind].prepare:
                KINDS[fault.kind].prepare(self, fault)
        at = f":{plan.slots}"
        self.job = Job(self.cluster, plan.program.words, ranks=plan.ranks, hosts=[node + at for node in plan.hosts],
                       spares=[node + at for node in plan.spares], every=plan.every, options=plan.options, local=self.local,
                       name=f"chaos-{plan.name}")
        self.job.words = [*self.environment, *self.job.words]
        self.job.start()
        self.begun = time.monotonic()
        self.follow()
        got = plan.program.result_of(self.job)
        # A time that a rollback makes another one is a reason for crrun to print again what follows.
        repeats = self.restarted or (plan.program.changing and self.job.events("recovery-begin"))
        wrong = (with_repetitions if repeats else strict)(got, wanted)
        if not wrong and len(got) > len(wanted):
            self.say(f"{len(got) - len(wanted)} bytes were printed again")
        if wrong:
            raise Failure(wrong)
        self.heal()
        self.check_nodes()

    def follow(self):
        """Inject the faults, until the job has ended with 0."""
        pending, moment = list(self.plan.faults), {}
        size, changed = 0, time.monotonic()
        while True:
            if self.job.ended():
                if self.job.process.returncode == 0:
                    break
                self.restart(self.job.process.returncode)
                changed, moment = time.monotonic(), {}
            elif pending and self.due(pending[0], moment) and self.possible(pending[0]):
                self.inject(pending.pop(0))
                moment = {}
            now, new = time.monotonic(), self.plan.program.progress(self.job)
            if new != size:
                size, changed = new, now
            if now > changed + NO_PROGRESS:
                raise Failure(f"hangs: no progress for {NO_PROGRESS} s\n{self.states()}")
            if now > self.begun + LONGEST:
                raise Failure(f"does not end in {LONGEST} s\n{self.states()}")
            time.sleep(0.2)
        for fault in pending:
            fault.note = "the job had ended"
        self.say("the job has ended")

    def restart(self, status):
        """The job has ended before its time: was that right? Then go on with it."""
        messages = self.job.messages()
        untouched = [node for node in self.nodes if node not in self.taken]
        if "--no-double-up" in self.plan.options:
            possible = len(untouched) * self.plan.slots >= self.plan.processes
        else:
            possible = bool(untouched)
        staged = status == RESTARTABLE
        if possible or not (staged or (status == 1 and NO_WAVE in messages)):
            raise Failure(f"exit status {status}, although {', '.join(untouched) or 'no node'} had no fault that takes a "
                          f"node; messages:\n{self.job.last_messages()}")
        self.say(f"the job has ended with {status}, as too few nodes are left, and is "
                 + ("restarted" if staged else "started from the beginning"))
        self.heal(start=True)
        self.taken = set()
        self.restarted = True
        self.job.start(["crrun", "-v", "--restart", self.job.directory("/mnt/share")] if staged else None)

    # ------------------------------------------------------------------ before and after it
    def reset(self):
        """All nodes are up, have this host's time, and nothing of an earlier round."""
        self.cluster.up_again()
        at_once(lambda node: self.ssh(node, f"date -s @{time.time():.2f}; tc qdisc del dev eth0 clsact; "
                                            "fsfreeze -u /var/tmp/disk; rm -rf /var/tmp/disk/*; true"), self.nodes)

    def heal(self, start=False):
        """Wait until the faults are over. `start`: dead nodes are switched on again."""
        for thread in self.threads:
            thread.join()
        self.threads = []
        last = max([self.frozen_until, *self.until.values()], default=0)
        time.sleep(max(0, last - time.monotonic()))
        if start:
            for node in sorted(self.dead):
                self.cluster.start(node)
            self.dead = set()

    def check_nodes(self):
        """Nothing of the job is left, and nobody uses the module."""
        begun = time.monotonic()
        bad = {}
        names = f"{self.plan.process}|{TOOLS}"
        detail = f"for p in $(pgrep -x '{names}'); do ps -L -o pid,ppid,lwp,stat,wchan:24,time,args $p | cut -c1-120; " \
                 "grep . /proc/$p/task/*/stack; ls -l /proc/$p/fd | sed 's/.* -> /  -> /' | sort | uniq -c; done; " \
                 "ss -tnpH; dmesg | tail -n 5"

        def one(node):
            while True:
                try:
                    left = self.ssh(node, f"pgrep -a -x '{names}'; true").strip()
                    users = self.ssh(node, "cat /sys/module/cr/refcnt").strip()
                except Failure as failure:
                    left, users = f"? ({failure})", "?"
                if not left and users == "0":
                    return
                if time.monotonic() > begun + LEFT:
                    bad[node] = f"{users} users of the module, processes: {left or 'none'}"
                    self.logs.mkdir(parents=True, exist_ok=True)
                    (self.logs / f"{node}.left").write_text(self.ssh(node, detail), "utf-8")
                    return
                time.sleep(0.5)
        at_once(one, [node for node in self.nodes if node not in self.dead])
        if time.monotonic() - begun > 20:
            self.say(f"the nodes were clean {time.monotonic() - begun:.0f} s after the faults")
        if bad:
            text = "\n".join(f"{node}: {what}" for node, what in sorted(bad.items()))
            raise Failure(f"left {LEFT} s after the job's end:\n{text}")
        self.check_kernels()

    def check_kernels(self):
        status = self.cluster.vm("status", capture_output=True, text=True).stdout
        bad = [line for line in status.splitlines() if "kernel complained" in line]
        for line in bad:
            self.logs.mkdir(parents=True, exist_ok=True)
            shutil.copy(line.split()[-1], self.logs / f"{line.split()[0]}.console")
            self.cluster.kill(line.split()[0])  # it starts without the complaint
        if bad:
            raise Failure("the kernel complained:\n" + "\n".join(bad))

    def given_up(self):
        """The nodes that the job has given up although no fault has taken them: mostly they answered too late."""
        names = [self.nodes[event["node"]] for event in self.job.events("node-lost")] if self.job else []
        return sorted({name for name in names if name not in self.ever_taken})

    def states(self):
        """What helps to find out why a job hangs."""
        try:
            text = self.cluster.head(f"timeout 20 crjob status {self.job.directory('/mnt/share')} 2>&1; true")
        except (Failure, subprocess.TimeoutExpired) as failure:
            text = str(failure)
        for node in self.nodes:
            if node in self.dead:
                continue
            try:
                text += f"\n{node}:\n" + self.ssh(node, "ps -eo pid,ppid,stat,wchan:24,time,args | "
                                                         f"grep -E '{self.plan.process}|crd|cr_' | cut -c1-150")
            except Failure as failure:
                text += f"\n{failure}"
        return text

    def keep(self, failure):
        """Keep what was seen of a round that has failed, before its job is stopped."""
        self.logs.mkdir(parents=True, exist_ok=True)
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        (self.logs / "round.txt").write_text("\n".join([str(self.plan), *map(str, self.plan.faults), "", *self.notes, "",
                                                        f"load {load}", str(failure)]) + "\n", "utf-8")
        if not self.job:
            return
        self.job.keep(self.logs)
        for node in self.nodes:
            if node not in self.dead:
                try:
                    text = self.ssh(node, "cat /tmp/reprise-*/crd.1.log /tmp/reprise-*/crd.log 2>/dev/null | tail -n 2000; "
                                          "dmesg | tail -n 20; date +%s.%N")
                    (self.logs / f"{node}.log").write_text(text, "utf-8")
                except Failure:
                    pass

    def stop(self, failed):
        """End what is left. After a failure the nodes are started anew."""
        Job.stop_all()
        self.heal()
        if failed:
            for node in self.nodes:
                if node not in self.dead:
                    self.cluster.vm("kill", node, check=False, capture_output=True)
        if self.job:
            shutil.rmtree(self.job.folder, ignore_errors=True)
