# SPDX-License-Identifier: GPL-2.0-only
"""Shared by the stories: TAP output, the commands, processes to roll back."""

import contextlib
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
VERBOSE = "-v" in sys.argv
KEEP = ["--keep"] if os.environ.get("STORY_KEEP") else []
SLOW = int(os.environ.get("REPRISE_SLOW", "1"))  # factor on all time limits, for a debugging kernel


class Broken(Exception):
    """The story cannot continue."""


def until(condition, what, limit=30):
    """Wait until condition() holds. Returns its value."""
    end = time.monotonic() + limit * SLOW
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.01)
    raise Broken(f"{what}: not within {limit * SLOW} s")


def content(path):
    """The text of a file; "" if there is none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return ""


class Story:
    """One story: a directory of its own, a target process, numbered results."""

    def __init__(self, name):
        self.name = name
        self.made = self.failed = 0
        self.pid = 0
        self.folder = tempfile.mkdtemp(prefix=f"story-{name}-")
        self.image = self.path("image")
        self.seconds = {}
        self.seed = int(os.environ.get("STORY_SEED", "1"))
        random.seed(self.seed)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        print(f"TAP version 13\n# {name}, STORY_SEED={self.seed}", flush=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def ok(self, right, what, why=""):
        self.made += 1
        if not right:
            self.failed += 1
        print(f"{'ok' if right else 'not ok'} {self.made} - {what}", flush=True)
        if not right:
            for line in str(why).splitlines() or ["no more is known"]:
                print(f"# {line}", flush=True)
        return right

    def note(self, text):
        print(f"# {text}", flush=True)

    # ---- the target

    def start(self, argv, stdout="out", stdin="/dev/null", env=None):
        """Start the target with files of its own, in a session of its own."""
        given = os.open(stdin, os.O_RDWR)  # both ends of a FIFO, so that no other process holds one
        with open(self.path(stdout), "w", encoding="ascii") as out:
            process = subprocess.Popen(argv, stdin=given, stdout=out, stderr=out, cwd=self.folder,
                                       start_new_session=True, env=dict(os.environ, **(env or {})))
        os.close(given)
        process.returncode = 0  # wait by pid, since a restart makes a new process
        self.pid = process.pid
        return self.pid

    def ended(self):
        """None while it runs, else its exit status (negative: signal)."""
        if not self.pid:
            return 0
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return None if os.path.exists(f"/proc/{self.pid}") else 0
        return None if pid == 0 else os.waitstatus_to_exitcode(status)

    def wait(self, limit):
        end = time.monotonic() + limit * SLOW
        while time.monotonic() < end:
            status = self.ended()
            if status is not None:
                self.pid = 0
                return status
            time.sleep(0.02)
        raise Broken(f"{self.name} does not end within {limit * SLOW} s")

    def kill(self):
        if not self.pid:
            return
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        self.wait(10)
        self.pid = 0
        for _ in range(500):
            # Orphans of the target become children of this process. Reap them: a zombie keeps its pid in use.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-pid, os.WNOHANG)
                time.sleep(0.01)
                continue
            if not os.path.exists(f"/proc/{pid}"):
                return
            time.sleep(0.01)

    # ---- the commands

    def command(self, *argv):
        begin = time.monotonic()
        with tempfile.TemporaryFile() as out:
            try:
                code = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=120 * SLOW,
                                      check=False).returncode
            except subprocess.TimeoutExpired:
                raise Broken(f"{' '.join(argv)}: does not end") from None
            out.seek(0)
            text = out.read().decode(errors="replace")
        took = time.monotonic() - begin
        if VERBOSE:
            self.note(f"{took:.3f} s, {' '.join(argv)} -> {code} {text}".replace("\n", "\n# ").rstrip("# \n"))
        if code:
            raise Broken(f"{' '.join(argv)}: exit {code}: {text}")
        self.seconds.setdefault(argv[0], []).append(took)
        return text

    def checkpoint(self):
        return self.command("cr_checkpoint", "--clobber", str(self.pid), self.image)

    def pause(self, *options):
        status = self.ended()
        if status is not None:
            raise Broken(f"the target has ended ({status}) before it could be paused")
        return self.command("cr_pause", *options, *KEEP, str(self.pid), self.image)

    def restart(self, pid, *options):
        text = self.command("cr_restart", "--detach", *options, self.image)
        self.pid = pid
        return text

    def finish(self):
        for name, all_ in sorted(self.seconds.items()):
            self.note(f"{name}: {len(all_)} times, median {sorted(all_)[len(all_) // 2]:.3f} s")
        print(f"1..{self.made}\n# {self.made - self.failed} passed, {self.failed} failed", flush=True)


def tell(name, story):
    """Run the function story with a Story, and exit."""
    s = Story(name)
    try:
        story(s)
    except Broken as error:
        s.ok(False, f"{name}: the story came to its end", error)
    finally:
        try:
            s.kill()
        except (Broken, ProcessLookupError):
            pass
        shutil.rmtree(s.folder, ignore_errors=True)
    s.finish()
    sys.exit(1 if s.failed else 0)


def pauses(story, times, least, most, *options):
    """Pause the running target several times, at random moments."""
    for _ in range(times):
        time.sleep(random.uniform(least, most))
        story.pause(*options)
