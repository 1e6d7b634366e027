# SPDX-License-Identifier: GPL-2.0-only
"""The process-level demo; runs as root inside a virtual node, see scripts/demo."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

PORT = 6379
IMAGE = "/tmp/redis.img"
BEGIN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGIN:6.2f} s] {text}", flush=True)


def fail(text):
    print(f"demo: {text}", file=sys.stderr)
    sys.exit(1)


class Client:
    """One TCP connection to redis, kept open."""

    def __init__(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", PORT), timeout=10)
                break
            except OSError:
                if time.monotonic() > deadline:
                    fail("redis-server does not answer")
                time.sleep(0.1)
        self.stream = self.socket.makefile("rb")

    def ask(self, *words):
        parts = [f"*{len(words)}\r\n"] + [f"${len(w)}\r\n{w}\r\n" for w in words]
        self.socket.sendall("".join(parts).encode())
        line = self.stream.readline().decode().rstrip()
        if line.startswith("$"):
            length = int(line[1:])
            return None if length < 0 else self.stream.read(length + 2)[:-2].decode()
        return line

    def name(self):
        return f"connection {self.socket.getsockname()[1]} -> {PORT}"


def command(*words):
    """Run one of the commands. Returns its report and its total time."""
    start = time.monotonic()
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    took = time.monotonic() - start
    if result.returncode:
        fail(f"{' '.join(words)} ended with {result.returncode}:\n{result.stderr}{result.stdout}")
    try:
        report = json.loads(result.stdout)
    except ValueError:
        report = {}
    return report, took, result


def still(report):
    """The time that the threads stood still, if the report has it."""
    nanoseconds = int(report.get("frozen_ns", 0))
    return f", during which its threads stood still {nanoseconds / 1e6:.1f} ms" if nanoseconds else ""


def server_socket(pid, client):
    """Inode number of the server's end of the client's connection."""
    port = client.socket.getsockname()[1]
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table:
            field = line.split()
            if field[1].endswith(f":{PORT:04X}") and field[2].endswith(f":{port:04X}"):
                return field[9]
    return fail(f"process {pid} has no connection from port {port}")


def check(what, got, wanted):
    if got != wanted:
        fail(f"{what}: got {got!r}, expected {wanted!r}")


def main():
    with open("/proc/version", encoding="ascii") as version:
        say("a virtual node is up: " + " ".join(version.read().split()[:3]))
    say("module: " + subprocess.run(["grep", "^cr ", "/proc/modules"], capture_output=True,
                                    text=True, check=True).stdout.split(" 0x")[0])
    with open("/tmp/redis.log", "w", encoding="ascii") as log:
        server = subprocess.Popen(
            ["redis-server", "--port", str(PORT), "--save", "", "--dir", "/tmp"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    client = Client()
    version = subprocess.run(["redis-server", "--version"], capture_output=True, text=True,
                             check=True).stdout.split()[2]
    say(f"redis-server {version}, as Debian ships it, is process {server.pid}; "
        f"a client holds {client.name()}")
    check("SET", client.ask("SET", "greeting", "written before the checkpoint"), "+OK")
    for number in range(200):
        client.ask("SET", f"key{number}", "old")

    report, took, _ = command("cr_checkpoint", "--json", str(server.pid), IMAGE)
    say(f"cr_checkpoint {server.pid} {IMAGE}: {took:.2f} s{still(report)}; "
        f"the image has {os.path.getsize(IMAGE) // 1024} KB")

    client.ask("SET", "greeting", "written after it")
    client.ask("SET", "another", "did not exist at the checkpoint")
    for number in range(200):
        client.ask("SET", f"key{number}", "new")
    say(f"the data changes: greeting = {client.ask('GET', 'greeting')!r}")

    before = server_socket(server.pid, client)
    report, took, _ = command("cr_pause", "--json", str(server.pid), IMAGE)
    say(f"cr_pause {server.pid} {IMAGE}: {took:.2f} s{still(report)}")
    got = client.ask("GET", "greeting")
    say(f"the same client asks over the same {client.name()}: greeting = {got!r}")
    check("greeting", got, "written before the checkpoint")
    check("a key that was new", client.ask("GET", "another"), None)
    check("key77", client.ask("GET", "key77"), "old")
    check("the server's socket", server_socket(server.pid, client), before)
    say(f"same process {server.pid}, same socket (inode {before}): the client noticed nothing")

    server.send_signal(signal.SIGKILL)
    server.wait()
    say(f"process {server.pid} is killed")
    client.socket.close()
    _, took, result = command("cr_restart", "--detach", "--dead-sockets", IMAGE)
    say(f"cr_restart {IMAGE}: {took:.2f} s")
    if result.stderr.strip():
        print(result.stderr.strip())
    again = Client()
    got = again.ask("GET", "greeting")
    say(f"a new client on {again.name()}: greeting = {got!r}")
    check("greeting", got, "written before the checkpoint")
    check("key77", again.ask("GET", "key77"), "old")
    os.kill(server.pid, signal.SIGKILL)
    say("the old data is back under the old pid.")


if __name__ == "__main__":
    main()
