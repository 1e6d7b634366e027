# SPDX-License-Identifier: GPL-2.0-only
"""What the tests with mpicheck share: TAP, the program and its results, a daemon that leaves nothing behind."""

import contextlib
import os
import shutil
import subprocess

from fake_crd import ENVIRONMENT, Broken

# What crd sets for more ranks than processors.
CROWDED = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl_crtcp_spin": "200"}

made = failed = 0


def ok(right, what, why=""):
    global made, failed
    made += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {made} - {what}", flush=True)
    if not right:
        for line in str(why).splitlines() or ["no more is known"]:
            print(f"# {line}", flush=True)
    return right


def skip(what, why):
    global made
    made += 1
    print(f"ok {made} - {what} # SKIP {why}", flush=True)


def plan():
    """Print the number of tests. @return whether one has failed"""
    print(f"1..{made}", flush=True)
    return failed > 0


def note(text):
    for line in str(text).splitlines():
        print(f"# {line}", flush=True)


def mpicheck():
    for folder in (os.environ.get("REPRISE_TESTS", ""), "/usr/libexec/reprise/tests",
                   "/usr/local/libexec/reprise/tests"):
        if os.path.isfile(os.path.join(folder, "mpicheck")):
            return os.path.join(folder, "mpicheck")
    raise Broken("mpicheck is not installed")


def result(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.startswith("mpicheck:")]


def tail(path):
    with open(path, encoding="utf-8") as file:
        return "".join(file.readlines()[-12:])


def iteration(path):
    """The latest iteration that rank 0 has finished; -1: none"""
    with open(path, encoding="utf-8") as file:
        return max((int(line.split()[1]) for line in file if line.startswith("iteration ")), default=-1)


def progressed(path, beyond, daemon, limit=120):
    """Wait until rank 0 has finished this iteration."""
    daemon.until(lambda: iteration(path) >= beyond, limit, f"iteration {beyond}")


def ends(daemon, output):
    """Wait for the end of the program, that is of its mpirun."""
    daemon.until(lambda: daemon.mpirun.poll() is not None, 100, "the program to end")
    ok(daemon.mpirun.returncode == 0, "the program ends well", tail(output))


def last_line(output, daemon):
    """Wait for the program's last line, where mpirun does not notice that the program ends."""
    daemon.until(lambda: result(output), 200, "the program's last line")


def failure_free(arguments, folder, ranks):
    """Run the same program over Open MPI's own transport."""
    path = os.path.join(folder, "reference")
    environment = {**os.environ, **ENVIRONMENT, "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo"}
    environment["OMPI_MCA_btl"] = "tcp,self"
    with open(path, "w", encoding="utf-8") as out:
        subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
                        mpicheck(), *arguments], env=environment, stdout=out, stderr=subprocess.STDOUT, check=False,
                       timeout=120)
    if len(result(path)) != 1:
        raise Broken("the reference run failed: " + tail(path))
    return result(path)


def held(arguments, folder):
    """The arguments of an mpicheck that runs until release()."""
    hold = os.path.join(folder, "go-on")
    with open(hold, "w", encoding="utf-8"):
        return [mpicheck(), *arguments, "--while", hold, "--progress"]


def release(folder):
    os.unlink(os.path.join(folder, "go-on"))


def same(output, arguments, daemon, what, why=""):
    """Check that the result in the daemon's `output` equals that of a run without failures, with as many iterations."""
    got = result(output)
    if len(got) != 1:
        ok(False, what, f"results: {got}\n{why}")
        return
    count = got[0].split(" iterations")[0].split()[-1]
    want = failure_free([*arguments, "--iterations", count], daemon.folder, daemon.count)
    ok(got == want, what, f"{got} instead of {want}\n{why}")


@contextlib.contextmanager
def a_daemon(name, daemon, output="output"):
    """A daemon, and the path of its program's output. An exception becomes a failed result; nothing is left behind."""
    output = os.path.join(daemon.folder, output)
    try:
        yield daemon, output
    except (Broken, OSError, subprocess.SubprocessError) as problem:
        ok(False, f"{name}: goes to its end",
           f"{problem!r}\n{daemon.log[-10:]}\n{daemon.lost[-10:]}\n{tail(output) if os.path.exists(output) else ''}")
    finally:
        daemon.close()
        shutil.rmtree(daemon.folder, ignore_errors=True)
