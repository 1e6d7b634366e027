# SPDX-License-Identifier: GPL-2.0-only
"""Behaviour that users of crrun expect from their knowledge of mpirun."""

import json
import re
import signal
import subprocess
import time

from lib.cluster import NODES, VM, quoted
from lib.scenario import THREE, Job, check, check_result, checked, held, on_three, scenario


def run(cluster, *words, stdin=None, timeout=60):
    result = subprocess.run([VM, "head", "--cluster", cluster.name, "--", *map(str, words)], check=False,
                            capture_output=True, text=True, input=stdin, timeout=timeout)
    return result.returncode, result.stdout, result.stderr


@scenario
def behaves_as_mpirun(cluster):
    folder = cluster.share / "plain"
    folder.mkdir(exist_ok=True)
    base = ["crrun", "--shared", "/mnt/share/plain", "--local", "/var/tmp/cr", "--hosts", "node1:2,node2:2"]
    status, out, err = run(cluster, *base, "-n", 3, "--tag-output", "sh", "-c", "echo hello")
    check(status == 0 and sorted(re.findall(r",(\d)\]<stdout>: ?hello", out)) == ["0", "1", "2"], f"{status}: {out}{err}")
    status, out, err = run(cluster, *base, "-n", 2, "sh", "-c", "exit 7")
    check(status == 7, f"exit code {status} instead of 7: {err}")
    status, out, err = run(cluster, *base, "-n", 1, "sh", "-c", "kill -SEGV $$")
    check(status == 139, f"exit code {status} instead of 139: {err}")
    status, out, err = run(cluster, *base, "-n", 2, "-x", "GREETING=good day", "--wdir", "/mnt/share", "sh", "-c",
                           'echo "$GREETING from $PWD"')
    check(out.count("good day from /mnt/share\n") == 2, f"{status}: {out}{err}")
    status, out, err = run(cluster, *base, "-n", 2, "cat", stdin="one\ntwo\n")
    check(out == "one\ntwo\n", f"standard input did not reach rank 0: {status}: {out}{err}")
    status, out, err = run(cluster, *base, "-n", 2, "no-such-program")
    check(status != 0 and "no-such-program" in err, f"{status}: {err}")
    status, out, err = run(cluster, *base[:-1], "node1,nosuchhost", "-n", 2, "true")
    check(status != 0 and "nosuchhost" in err, f"{status}: {err}")


@scenario
def interrupt_ends_the_job(cluster):
    program = checked("--phase", "compute", "--sleep-compute", 60000, "--iterations", 1)
    job = Job(cluster, program.words, ranks=3, hosts=THREE, every=None).start()
    job.await_event("launch")
    time.sleep(3)
    check(job.signal_launcher(signal.SIGINT), "there is no crrun")
    status = job.wait(30)
    check(status == 128 + signal.SIGINT, f"exit status {status} instead of 130")
    for node in THREE:
        check(not cluster.ssh(node, "pgrep -x mpicheck; pgrep -x crd", check=False), f"processes are left on {node}")


@scenario
def an_interrupted_job_goes_on(cluster):
    # Ctrl-C keeps the waves; the job is restarted, and removed when it is not wanted any more.
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    job.await_event("wave-staged", 2, seconds=90)
    check(job.signal_launcher(signal.SIGINT), "there is no crrun")
    check(job.wait(60) == 128 + signal.SIGINT, "the exit status is not that of an interrupt")
    directory = job.directory("/mnt/share")
    check(f"crrun --restart {directory}" in job.messages(), f"the user was not told how to go on: {job.last_messages()}")
    kept = sorted(path.name for path in job.directory().glob("wave-*"))
    check(kept, "no wave was kept")
    begun = len(job.events("recovery-done"))
    job.start(["crrun", "-v", "--restart", directory])
    job.await_event("recovery-done", begun + 1, seconds=90)
    refused = cluster.head(f"crrun --restart {directory} 2>&1; crjob remove {directory} 2>&1; true")
    check(refused.count("has its crrun, process") == 2, f"a second crrun, or the removal, was not refused: {refused}")
    check_result(job, program)
    check(not list(job.directory().glob("wave-*")), "a job that has ended well keeps waves")
    folder = job.directory()
    cluster.head(f"crjob remove {directory}")
    check(not folder.exists(), f"{folder} is still there")


@scenario
def a_batch_job_leaves_and_goes_on(cluster):
    # A batch system sends a signal before it kills the job; the requeued script is the same as at first.
    program = held("p2p,coll")
    job = on_three(cluster, program, every="60s")
    link = f"/mnt/share/{job.name}/run"
    job.words[1:1] = ["--checkpoint-on", "USR1", "--restart-or-run", link]
    job.start()
    job.await_event("launch")
    time.sleep(8)  # the ranks have called MPI_Init
    check(job.signal_launcher(signal.SIGUSR1), "there is no crrun")
    check(job.wait(90) == 75, f"the exit status is not 75:\n{job.last_messages()}")
    check(len(job.events("wave-staged")) == 1, "not one wave was taken and staged")
    job.start()
    job.await_event("recovery-done", seconds=90)
    check(job.events("job-begin")[-1]["how"] == "restart", "it was not a restart")
    check_result(job, program)
    check(job.start().wait(30) == 0, "a job that has ended well was run again")
    check(len(job.events("job-begin")) == 2, "a job that has ended well was run again")


@scenario
def crrun_chooses_the_interval(cluster):
    program = held("p2p,coll")
    job = on_three(cluster, program, every="auto", options=("--node-mtbf", "10min")).start()
    job.await_event("wave-begin", seconds=90)
    job.await_event("wave-staged", 2, seconds=90)
    chosen = job.status()["wave_interval"]
    check(chosen["limit"] != "first" and chosen["cost_s"] > 0 and chosen["mtbf_s"] == 200, f"{chosen}")
    text = job.crjob("status")
    check("waves every" in text and "auto: a wave costs" in text and "as given" in text, f"no reason in the status: {text}")
    job.kill_launcher()
    waves = len(job.events("wave-commit"))
    job.attach()
    job.await_event("wave-commit", waves + 1, seconds=90)
    cluster.kill("node2")
    job.await_event("recovery-done", seconds=60)
    chosen = job.status()["wave_interval"]
    check(chosen["limit"] != "first" and chosen["failures"] == 1 and chosen["recovery_s"] > 0, f"what was learned is lost: {chosen}")
    check_result(job, program)


@scenario
def drain_a_node(cluster):
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    job.await_event("wave-commit")
    job.crjob("drain", "node2")
    check("node2" not in {node for node, _ in job.where().values()}, "a rank is still on node2")
    cluster.kill("node2")  # no rank is there any more
    job.crjob("checkpoint")
    check("node2" in cluster.head("crjob list; crjob status " + job.directory("/mnt/share")), "no status in words")
    cluster.head(f"crjob report {job.directory('/mnt/share')} -o /mnt/share/{job.name}/report.html")
    page = (job.folder / "report.html").read_text("utf-8")
    links = re.sub(r"http://www\.w3\.org/\S+", "", page)
    check("recover" in page and "<script src" not in page and "http://" not in links, "the report is not self-contained")
    check_result(job, program)


@scenario
def strangers_are_refused(cluster):
    program = checked("--phase", "compute", "--sleep-compute", 8000, "--iterations", 1)
    job = Job(cluster, program.words, ranks=3, hosts=THREE, every=None).start()
    job.await_event("launch")
    port = json.loads((job.directory() / "job.json").read_text("utf-8"))["port"]
    cluster.ssh("node4", f"(printf '\\377\\0\\0'; sleep 1) | nc -w 2 head {port} >/dev/null; true")
    time.sleep(1)
    check("10.77.0.4" in job.messages(), f"the stranger is not in the log:\n{job.last_messages()}")
    check_result(job, program)


@scenario
def an_ordinary_user(cluster):
    # With the capabilities that docs/job-admin.md lists, and the user's own ssh keys.
    for node in NODES:
        cluster.ssh(node, "id alice >/dev/null 2>&1 || useradd -m -u 4711 -s /bin/sh alice; rm -rf /home/alice/.ssh; "
                          "cp -r /root/.ssh /home/alice/.ssh; chown -R alice /home/alice/.ssh; "
                          "setcap cap_checkpoint_restore+ep $(command -v crd); setcap cap_checkpoint_restore+ep $(command -v cr_restart)")
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=2, hosts=("node1", "node2"), spares=("node3",), local="/var/tmp/alice")
    job.start(["su", "alice", "-c", quoted(job.words)], where=("ssh", "node1"))
    job.await_event("wave-staged", 1)
    cluster.kill("node2")
    job.await_event("recovery-done", seconds=60)
    check("CLOCK_MONOTONIC" in job.messages(), "nothing is said of the clock, which takes more capabilities")
    check_result(job, program)


@scenario
def without_the_module(cluster):
    program = checked("--phase", "p2p", "--iterations", 5)
    for node in ("node1", "node2"):
        cluster.ssh(node, "rmmod cr")
    try:
        job = Job(cluster, program.words, ranks=2, hosts=("node1", "node2"), spares=()).start()
        check_result(job, program)
        check(job.messages().count("module") >= 1, f"nothing is said of the module: {job.messages()}")
    finally:
        for node in ("node1", "node2"):
            cluster.ssh(node, "modprobe cr")
