# SPDX-License-Identifier: GPL-2.0-only
"""A part of `wire`: a rank that runs on while others go back to a wave."""

from checks import a_daemon, ok
from fake_crd import Broken
from stand_in import StandIn
from steps import Steps


def whole_wave(daemon, **how):
    words = daemon.prepare()
    if set(words.values()) != {b"r"}:
        raise Broken(f"no wave: {words}")
    return daemon.finish_with_images(words, **how)


def others_go_back():
    """Ranks 1 and 2 wait for messages of rank 0, are saved there, and go back. The guard of rank 0 hears of it while it computes."""
    with a_daemon("stays", StandIn(3)) as (daemon, output):
        steps = Steps(daemon, output)
        steps.start(True)
        steps.acquaint()
        wait = {n: steps.begin(n, "recv", 0, 100) for n in (1, 2)}
        daemon.serve_for(0.3)
        _, images = whole_wave(daemon, only=(1, 2))
        daemon.serve_for(0.5)
        daemon.ask_to_stay(0, daemon.wave)
        answer = daemon.can_stay(0)
        ok(answer == (True, ""), "stays: a rank that has exchanged nothing since the wave can stay", answer)
        daemon.go_back(images, stay=(0,))
        daemon.lost.clear()  # before the others went back they may have seen it shut its connections
        back = daemon.resume(only=(1, 2))
        ok(all(b[1:] == (1, 1) for b in back.values()), "stays: the others lose their connections to it only", back)
        for n in wait:
            steps.begin(0, "send", n, 100)
        steps.begin(0, "recv", 1, 100)
        daemon.serve_for(0.5)
        early = {n: steps.result(n, step) for n, step in wait.items()}
        ok(not any(early.values()), "stays: it sends nothing before the end of the recovery", early)
        daemon.stay_over(0)
        daemon.until(lambda: all(steps.result(n, step) for n, step in wait.items()), 20, "the messages that were held")
        late = {n: steps.result(n, step) for n, step in wait.items()}
        ok(set(late.values()) == {"ok"}, "stays: then what it has sent meanwhile arrives", late)
        steps.step(1, "send", 0, 100)
        daemon.until(lambda: steps.result(0) == "ok", 20, "the answer")
        steps.acquaint()
        steps.begin(0, "send", 2, 1 << 20)
        ok(steps.step(2, "recv", 0, 1 << 20) == "ok", "stays: long messages arrive, too", steps.result(2))
        said, _ = whole_wave(daemon, only=())
        ok({s[1:4:2] for s in said.values()} == {("taken", 2)}, "stays: the next wave has all connections", said)
        with open(f"{output}.0", encoding="utf-8") as file:
            text = file.read()
        ok(not daemon.lost and "refused" not in text, "stays: nothing was lost, and nobody refused", f"{daemon.lost} {text}")


def cannot(steps):
    daemon = steps.daemon
    whole_wave(daemon, only=())
    steps.exchange(0, 1)
    steps.begin(0, "recv", 1, 100)
    daemon.ask_to_stay(0, daemon.wave)
    answer = daemon.can_stay(0)
    ok(not answer[0] and "messages have crossed since wave 1 between it and rank 1" in answer[1],
       "stays: one that has exchanged messages cannot", answer)
    whole_wave(daemon, only=())
    daemon.ask_to_stay(0, daemon.wave - 1)
    answer = daemon.can_stay(0)
    ok(not answer[0] and "crossed since wave 1" in answer[1], "stays: nor to an earlier wave after the next one", answer)
    daemon.ask_to_stay(0, daemon.wave + 1)
    answer = daemon.can_stay(0)
    ok(not answer[0] and "before wave 3 is not known" in answer[1], "stays: nor one that does not know the wave", answer)
    ok(steps.step(1, "send", 0, 100) == "ok", "stays: its connections are as before")
    daemon.until(lambda: steps.result(0) == "ok", 20, "the message")


def given_up(steps):
    """A wave is given up after the rank's image was taken."""
    daemon = steps.daemon
    for _ in range(4):
        whole_wave(daemon, only=())
    wave = daemon.wave - 2
    whole_wave(daemon, only=())
    daemon.abort_wave()
    daemon.ask_to_stay(0, wave)
    daemon.serve_for(1)
    ok(not daemon.ranks[0].said, "stays: a rank that computes does not answer", daemon.ranks[0].said)
    waits = steps.begin(0, "recv", 1, 100)
    answer = daemon.can_stay(0)
    ok(answer == (True, ""), "stays: in its next call it does, and a wave that was given up does not matter", answer)
    steps.begin(1, "send", 0, 100)
    steps.begin(1, "recv", 0, 100)
    daemon.serve_for(1)
    ok(steps.result(0, waits) is None, "stays: nothing comes from a process that is to go back", steps.result(0, waits))


def stays():
    others_go_back()
    with a_daemon("stays", StandIn(2)) as (daemon, output):
        steps = Steps(daemon, output)
        steps.start(False)
        steps.acquaint()
        cannot(steps)
        given_up(steps)
        with open(f"{output}.0", encoding="utf-8") as file:
            text = file.read()
        ok("refused" not in text, "stays: such a process is refused without a word", text)
    with a_daemon("stays", StandIn(2)) as (daemon, output):
        steps = Steps(daemon, output)
        steps.start(True)
        steps.acquaint()
        whole_wave(daemon, only=())
        daemon.serve_for(0.5)
        daemon.ask_to_stay(0, daemon.wave)
        answer = daemon.can_stay(0)
        ok(answer == (True, ""), "stays: the guard of a rank that computes answers", answer)
