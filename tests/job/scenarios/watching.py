# SPDX-License-Identifier: GPL-2.0-only
"""What is seen of a job while it runs: its metrics, and hangs."""

import json
import re
import time

from lib.cluster import quoted, wait_until
from lib.scenario import Job, Program, Survivors, check, check_result, held, on_three, scenario, survive

# Runs on the head node, which has the parser.
PARSE = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
print(json.dumps([[sample.name, sample.labels, sample.value] for family in families for sample in family.samples]))
"""


class Metrics:
    """What a file of --metrics tells at one moment. The parser refuses a file that is no OpenMetrics, or not whole."""

    def __init__(self, cluster, path):
        self.samples = json.loads(cluster.head(quoted(["python3", "-c", PARSE]) + f" <{path}"))

    def all(self, name, **labels):
        return [value for known, having, value in self.samples
                if known == f"reprise_{name}" and all(having.get(key) == wanted for key, wanted in labels.items())]

    def one(self, name, **labels):
        found = self.all(name, **labels)
        check(len(found) == 1, f"{name} {labels} is there {len(found)} times")
        return found[0]

    def sum(self, name, **labels):
        return sum(self.all(name, **labels))


def moved(job):
    """@return how often a rank was placed on another node than before, by the timeline"""
    count = 0
    before = None
    for event in job.events():
        if event["event"] in ("launch", "recovery-begin"):
            now = event["placement"]
            count += sum(old != new for old, new in zip(before or now, now))
            before = now
    return count


def standstill(job):
    """@return seconds that the waves have cost the slowest rank of each, by the timeline"""
    slowest = {}
    for event in job.events("wave-rank"):
        cost = (event["quiesce_ns"] + event["frozen_ns"]) / 1e9
        slowest[event["wave"]] = max(slowest.get(event["wave"], 0), cost)
    return sum(slowest.values())


def near(value, wanted):
    return abs(value - wanted) <= 1e-6 * max(1, abs(wanted))


@scenario
def metrics_tell_what_happened(cluster):
    refused = cluster.head("crrun --metrics /none/job.prom true 2>&1 || echo status $?")
    check("--metrics /none/job.prom cannot be written" in refused and "status 1" in refused, f"no refusal: {refused}")

    program = held("p2p,coll")
    job = on_three(cluster, program)
    path = f"/mnt/share/{job.name}/job.prom"
    job.words[1:1] = ["--metrics", path]

    def running():
        now = Metrics(cluster, path)
        return now if now.sum("waves_total") and now.all("newest_staged_wave_timestamp_seconds") else None

    def fault():
        now = wait_until(running, 20, "metrics that have a staged wave")
        check(now.one("job_state", state="running") == 1 and now.sum("job_state") == 1, f"its state is another: {now.samples}")
        check(now.one("nodes", state="up") == 3 and now.one("nodes", state="spare") == 1, f"other nodes: {now.samples}")
        check(now.one("wave_interval_seconds") == 4, f"another interval: {now.samples}")
        check(now.one("lease_margin_seconds") <= 20 / 3, f"a longer lease than any: {now.samples}")
        check(now.one("newest_staged_wave_timestamp_seconds") <= now.one("newest_wave_timestamp_seconds"),
              "a wave is in shared storage before it was taken")
        cluster.kill("node3")

    survive(job, program, {"node3"}, fault)

    # The job has ended: this is the last that crrun has written.
    last = Metrics(cluster, path)
    about = f"{last.samples}"
    check(last.one("job_state", state="ended") == 1 and last.one("job_exit_status") == 0, f"it has not ended well: {about}")
    check(last.one("job_info", job_id=job.directory().name) == 1, f"another job: {about}")
    check(last.one("nodes", state="lost") == 1 and last.one("nodes", state="spare") == 0, f"other nodes: {about}")
    for name, kind in (("nodes_lost_total", "node-lost"), ("waves_total", "wave-commit"), ("waves_given_up_total", "wave-abort"),
                       ("wave_standstill_seconds_count", "wave-commit"), ("wave_staging_seconds_count", "wave-staged"),
                       ("recoveries_total", "recovery-begin")):
        check(last.sum(name) == len(job.events(kind)), f"{name} is {last.sum(name)}, but there were {len(job.events(kind))} {kind}")
    for name, kind in (("image_written_bytes_total", "wave-commit"), ("image_staged_bytes_total", "staged-rank")):
        check(last.one(name) == sum(event["bytes"] - event.get("kept", 0) for event in job.events(kind)), f"{name} differs from the timeline: {about}")
    check(last.one("recoveries_total", cause="node_lost") >= 1, f"no recovery from the loss: {about}")
    check(last.one("ranks_moved_total") == moved(job), f"{moved(job)} ranks were moved: {about}")
    check(near(last.one("wave_standstill_seconds_sum"), standstill(job)), f"waves cost {standstill(job)} s: {about}")
    # From the last heartbeat of node3: it was silent for at least a second, and the recovery has taken some time.
    lost = job.events("node-lost")[0]
    took = (job.events("recovery-done")[-1]["t"] - lost["heard"]) / 1e9
    check(1 < last.sum("recovery_standstill_seconds_sum") <= took + 0.1, f"the recovery took {took} s: {about}")
    check(last.one("recovery_last_standstill_seconds") > 1, f"the recovery took no time: {about}")


class Standing(Program):
    """Rank 1 stands still when a file asks it to. Its last line has the number of rounds, from which the sum follows."""

    def __init__(self):
        super().__init__(["/mnt/project/build/vm/user/tests/job/programs/standing", Job.HOLD], r"^standing: .*$")

    def expected(self, ranks, got):
        count = re.search(r"(\d+) iterations", got[-1]) if got else None
        check(count, f"no result: {got}")
        rounds = int(count[1])
        total = ranks * ranks * rounds * (rounds - 1) // 2 + rounds * ranks * (ranks - 1) // 2
        return [f"standing: {rounds} iterations, sum {total}"]


def watched(cluster, program, *options):
    """A job with waves, which has taken two of them."""
    job = on_three(cluster, program, options=["--hang-after", "10s", *options]).start()
    job.await_event("wave-commit", 2)
    return job


@scenario
def a_hang_is_said(cluster):
    # Rank 1 waits for something outside of MPI, the others for its message.
    program = Standing()
    job = watched(cluster, program)
    (job.folder / "sleep").touch()
    hang = job.await_event("hang", seconds=60)
    check(hang["waiting"] == 2 and hang["asleep"] == 1, f"not two ranks that wait and one that sleeps: {hang}")
    check("1 rank sleeps (rank 1 on node2)" in job.messages(), f"the rank that sleeps is not named:\n{job.last_messages()}")
    check("no progress for" in job.crjob("status"), "crjob status does not say it")
    waves = len(job.events("wave-commit"))
    time.sleep(15)
    check(len(job.events("hang")) == 1, "it is said more than once")
    check(len(job.events("wave-commit")) == waves, "the hang is saved again and again")
    (job.folder / "sleep").unlink()
    job.await_event("hang-over")
    job.await_event("wave-commit", waves + 1)
    check_result(job, program)
    check(not job.events("recovery-begin"), "the job was rolled back, and nobody had asked for that")


@scenario
def a_hang_is_recovered_from(cluster):
    # A message is forgotten: all ranks wait in MPI. It is not forgotten a second time.
    program = Standing()
    job = watched(cluster, program, "--on-hang", "recover")
    survivors = Survivors(job, set())
    (job.folder / "forget").touch()
    hang = job.await_event("hang", seconds=60)
    check(hang["waiting"] == 3, f"not all ranks wait in MPI: {hang}")
    job.await_event("recovery-done", seconds=60)
    survivors.check()
    back = job.events("recovery-begin")[-1]
    check(back["cause"] == "hang" and back["restart"] == [], f"another recovery: {back}")
    begun = job.events("wave-begin", wave=back["wave"])[0]["t"]
    check(begun < hang["t"] - hang["ms"] * 1_000_000, f"wave {back['wave']} has saved the hang")
    waves = len(job.events("wave-commit"))
    job.await_event("wave-commit", waves + 1, seconds=90)
    check_result(job, program)
    check(len(job.events("hang")) == 1, f"it has hung again: {job.events('hang')}")


@scenario
def a_long_computation_is_no_hang(cluster):
    # Rank 1 computes without calling MPI, and the others wait for it.
    program = Standing()
    job = watched(cluster, program, "--on-hang", "recover")
    (job.folder / "compute").touch()
    time.sleep(5)
    printed, waves = job.output(), len(job.events("wave-commit"))
    time.sleep(25)
    check(job.output() == printed, "the ranks did not wait for the one that computes")
    check(not job.events("hang") and not job.events("recovery-begin"), f"a hang was seen:\n{job.last_messages()}")
    check(len(job.events("wave-commit")) > waves, "no wave was taken meanwhile")
    (job.folder / "compute").unlink()
    check_result(job, program)
    check(not job.events("hang"), f"a hang was seen later:\n{job.last_messages()}")
