# SPDX-License-Identifier: GPL-2.0-only
"""What the demos on virtual nodes share. Runs on the host."""

import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "job"))

# pylint: disable=wrong-import-position
from lib.cluster import PROJECT, Cluster, Failure  # noqa: E402
from lib.scenario import Job, check  # noqa: E402


def say(text):
    print(text, flush=True)


def on_cluster(show):
    """Boot four nodes and call show(cluster). @return the exit status"""
    cluster = Cluster("demo")
    say("== booting four virtual nodes")
    cluster.up()
    try:
        show(cluster)
        return 0
    except Failure as failure:
        say(f"demo: {failure}")
        return 1
    finally:
        Job.stop_all()
        cluster.down()


def kill(cluster, node):
    """@return the time of it"""
    say(f"  killing {node}: its QEMU gets SIGKILL, without notice to any program")
    begun = time.monotonic()
    cluster.kill(node)
    return begun


def results(job, pattern, expected, seconds):
    """Wait for the end of a job, whose results must be those of a run without failures. @return what its output has of the pattern"""
    status = job.wait(seconds)
    check(status == 0, f"exit status {status}; messages:\n{job.last_messages()}")
    got = pattern.findall(job.output())
    check(got == expected, f"another result: {got[-1:]} instead of {expected[-1:]}")
    return got


def timeline(job, words):
    """
    The events of a job as readable text.
    @param words of the events that only this demo has: words(event) returns a text or None
    """
    say("== timeline")
    events = job.events()
    begin = events[0]["t"]
    for event in events:
        text = words(event)
        if event["event"] == "node-lost":
            text = f"node{event['node'] + 1} is lost: {event['why']}"
        elif event["event"] == "job-end":
            text = f"the job has ended with status {event['code']}"
        if text:
            say(f"  {(event['t'] - begin) / 1e9:6.1f} s  {text}")


def chart(job, name):
    page = PROJECT / "build" / "demo" / name
    page.parent.mkdir(parents=True, exist_ok=True)
    job.cluster.head(f"crjob report {job.directory('/mnt/share')} -o /mnt/share/report.html")
    shutil.copy(job.cluster.share / "report.html", page)
    say(f"\nThe same as a chart: {page.relative_to(PROJECT)}")
