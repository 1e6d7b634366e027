# SPDX-License-Identifier: GPL-2.0-only
"""Programs that spawn processes while they run, and programs that use sessions."""

import time

from lib.scenario import Job, Program, await_wave_of_loop, check, check_result, scenario

PROGRAMS = "/mnt/project/build/vm/user/tests/job/crd"


class Spawning(Program):
    """Its ranks and its children print in no fixed order."""

    def __init__(self, children, times, pause_ms=0, apps=1):
        super().__init__([f"{PROGRAMS}/mpi_spawn", children, times, pause_ms, apps], r"^(?:time|child) .*$")

    def expected(self, ranks, _got):
        # The reference needs no pauses; and spawning several programs at once crashes mpirun 5.0.7.
        return self.reference(ranks, self.words[:3])

    def of(self, output):
        return sorted(super().of(output))


def on_two(cluster, program, hosts=("node1:2", "node2:2"), **options):
    return Job(cluster, program.words, ranks=2, hosts=hosts, **options)


@scenario
def spawns_as_under_mpirun(cluster):
    program = Spawning(3, 2, apps=2)
    job = on_two(cluster, program, spares=(), every=None, options=["--map-by", "node", "--tag-output"]).start()
    check(job.wait(120) == 0, f"it failed:\n{job.messages()[-3000:]}\n{job.output()[-1000:]}")
    placed = [event["placement"] for event in job.events("spawn")]
    check(len(placed) == 2 and all(len(set(nodes)) == 2 for nodes in placed), f"not spawned across two nodes: {placed}")
    check(".1,0]<stdout>: child 0 of 3, time 0" in job.output(), f"no tag of their own: {job.output()}")
    got = program.of("\n".join(line.split(">: ", 1)[-1] for line in job.output().splitlines()))
    expected = program.expected(2, got)
    check(got == expected, f"another result: {got} instead of {expected}")


@scenario
def children_are_on_other_nodes_than_their_parent(cluster):
    program = Spawning(2, 1)
    job = on_two(cluster, program, spares=(), every=None, options=["--map-by", "node"], hosts=("node1:1", "node2:3")).start()
    check(job.wait(120) == 0, f"it failed:\n{job.messages()[-3000:]}\n{job.output()[-1000:]}")
    placed = [event["placement"] for event in job.events("spawn")]
    check(placed == [[1, 1]], f"not all on node2: {placed}")


@scenario
def a_node_is_lost_while_children_run(cluster):
    # There is time for a wave before each spawn, and for the loss of a node while the children run.
    program = Spawning(2, 3, 8000)
    job = on_two(cluster, program, spares=("node4:2",), every="2s", options=["--map-by", "node"]).start()
    job.await_event("wave-commit")
    job.await_event("spawn", 2)
    time.sleep(4)
    check("is committed" in cluster.head(f"crjob checkpoint {job.directory('/mnt/share')} 2>&1; true"), "no checkpoint while children run")
    waves = len(job.events("wave-commit"))
    cluster.kill("node2")
    job.await_event("recovery-done", seconds=90)
    check_result(job, program)
    check(job.events("wave-commit")[-1]["wave"] > waves, "no wave after the children had ended")


class Family(Program):
    """Parents and children that exchange messages all the time."""

    def __init__(self, children, rounds, pause_us):
        super().__init__([f"{PROGRAMS}/mpi_family", children, rounds, pause_us], r"^(?:round|total) .*$", r"^round \d")

    def expected(self, ranks, _got):
        return self.reference(ranks, self.words[:3])


def family(cluster):
    # Each node has a rank and a child.
    program = Family(2, 1500, 20000)
    job = on_two(cluster, program, spares=("node4:2",), every="3s", options=["--map-by", "node"]).start()
    await_wave_of_loop(job, program)
    return program, job


@scenario
def children_go_back_with_their_parents(cluster):
    program, job = family(cluster)
    cluster.kill("node2")
    job.await_event("recovery-done", seconds=90)
    restarted = {event["rank"] for event in job.events("restored-rank") if event["restarted"]}
    check(restarted == {1, 3}, f"rank 1 and the second child are to be restarted, not {restarted}")
    check_result(job, program)
    check(len(job.events("spawn")) == 1, "the children were spawned again")


@scenario
def a_child_is_killed(cluster):
    program, job = family(cluster)
    cluster.ssh("node1", "pkill -KILL -n mpi_family")
    job.await_event("recovery-done", seconds=90)
    restarted = {event["rank"] for event in job.events("restored-rank") if event["restarted"]}
    check(restarted == {2}, f"the first child is to be restarted, not {restarted}")
    # Then a parent, from a wave that was taken since.
    await_wave_of_loop(job, program)
    cluster.ssh("node2", "pkill -KILL -o mpi_family")
    job.await_event("recovery-done", 2, seconds=90)
    check_result(job, program)
    check(len(job.events("spawn")) == 1, "the children were spawned again")


@scenario
def a_node_is_drained_of_children(cluster):
    program, job = family(cluster)
    job.crjob("drain", "node2")
    restarted = {event["rank"] for event in job.events("restored-rank") if event["restarted"]}
    check(restarted == {1, 3}, f"rank 1 and the second child are to be restarted, not {restarted}")
    check(cluster.ssh("node2", "pgrep mpi_family; true") == "", "processes of the job are still on node2")
    cluster.kill("node2")  # nothing of the job is there any more
    check_result(job, program)
    check(len(job.events("spawn")) == 1, "the children were spawned again")
    check(len(job.events("recovery-begin")) == 1, "the loss of the empty node took the job back")


@scenario
def another_crrun_goes_on_with_children(cluster):
    program, job = family(cluster)
    job.kill_launcher()
    job.attach()
    job.await_event("recovery-done", seconds=90)
    check(job.wait(240) == 0, f"it failed:\n{job.messages()[-3000:]}")
    check(len(job.events("spawn")) == 1, "the children were spawned again")
    got = program.of(job.output())
    check(got[-1:] == program.expected(2, got)[-1:], f"another result: {got[-3:]}")


@scenario
def a_restarted_job_has_its_children(cluster):
    program = Family(2, 1500, 20000)
    # Both children are on node2, and there is no place for rank 1 on node1.
    job = on_two(cluster, program, hosts=("node1:1", "node2:3"), spares=(), every="3s",
                 options=["--map-by", "node", "--no-double-up"]).start()
    await_wave_of_loop(job, program)
    cluster.kill("node2")
    check(job.wait(60) != 0, "the launcher ended with 0 although the job could not go on")
    job.start(["crrun", "-v", "--restart", job.directory("/mnt/share"), "--hosts", "node1:1,node4:3"])
    check(job.wait(240) == 0, f"it failed:\n{job.messages()[-3000:]}")
    check(len(job.events("spawn")) == 1, "the children were spawned again")
    got = program.of(job.output())  # what was printed after the wave is printed again
    check(got[-1:] == program.expected(2, got)[-1:], f"another result: {got[-3:]}")


class Apart(Program):
    """Children that exchange messages among themselves, and parents that do so meanwhile, too."""

    def __init__(self, children, rounds, pause_us, talk=0):
        super().__init__([f"{PROGRAMS}/mpi_apart", children, rounds, pause_us, talk, "steps"], r"^total .*$", r"^the parents have")

    def expected(self, ranks, _got):
        return self.reference(ranks, [*self.words[:3], "0", self.words[4]])


def staged_wave(job):
    """Take a wave, and wait until the loss of a node leaves all of it. @return its number"""
    job.crjob("checkpoint")
    wave = job.events("wave-commit")[-1]["wave"]
    job.await_event("wave-staged", such=lambda event: event["wave"] == wave)
    return wave


def apart(cluster, program, options=(), hosts=("node1:2", "node2:1", "node3:1"), children=(1, 2)):
    """Both parents are on node1, and each child is on the node with this place in the list of hosts."""
    job = Job(cluster, program.words, ranks=2, hosts=hosts, spares=("node4:1",), every=None, options=options).start()
    job.await_output(program.loop)
    staged_wave(job)
    placed = [event["placement"] for event in job.events("spawn")]
    check(placed == [list(children)], f"the children are not where they should be: {placed}")
    return job


def domains(job):
    return [event["domain"] for event in job.events("recovery-begin")]


def steps_of(job):
    return [int(line) for line in (job.folder / "steps").read_text("ascii").split()]


def later_all_go_back(cluster, job, program):
    """To a wave that has the children as they are now."""
    staged_wave(job)
    before = len(steps_of(job))
    check(steps_of(job) == list(range(1, before + 1)), "the parents were set back")
    cluster.ssh("node1", "pkill -KILL -n mpi_apart")
    job.await_event("recovery-done", 2, seconds=90)
    check(domains(job) == ["spawned", "all"], f"{domains(job)}")
    check_result(job, program)


@scenario
def children_go_back_alone(cluster):
    program = Apart(2, 1500, 20000)
    job = apart(cluster, program)
    cluster.kill("node3")
    job.await_event("recovery-done", seconds=90)
    check(domains(job) == ["spawned"], f"not only the children went back: {job.last_messages()}")
    restored = {event["rank"]: event["restarted"] for event in job.events("restored-rank")}
    check(restored == {2: False, 3: True}, f"the second child is to be restarted, and the first one paused: {restored}")
    check(job.status()["last_recovery"]["domain"] == "spawned", "crjob status does not say so")
    later_all_go_back(cluster, job, program)
    check(len(job.events("spawn")) == 1, "the children were spawned again")


@scenario
def children_go_back_alone_beside_their_parents(cluster):
    program = Apart(2, 1500, 20000)
    job = apart(cluster, program, hosts=("node1:3", "node2:1"), children=(0, 1))
    cluster.kill("node2")
    job.await_event("recovery-done", seconds=90)
    check(domains(job) == ["spawned"], f"not only the children went back: {job.last_messages()}")
    restored = {event["rank"]: event["restarted"] for event in job.events("restored-rank")}
    check(restored == {2: False, 3: True}, f"the second child is to be restarted, and the first one paused: {restored}")
    # Then the one that shares the node with the parents.
    staged_wave(job)
    cluster.ssh("node1", "pkill -KILL -n mpi_apart")
    job.await_event("recovery-done", 2, seconds=90)
    check(domains(job) == ["spawned", "spawned"], f"not only the children went back: {job.last_messages()}")
    before = len(steps_of(job))
    check(steps_of(job) == list(range(1, before + 1)), "the parents were set back")
    # Then a parent. Processes that were started in a rank's place have the newest numbers.
    staged_wave(job)
    cluster.ssh("node1", "pkill -KILL -o mpi_apart")
    job.await_event("recovery-done", 3, seconds=90)
    check(domains(job) == ["spawned", "spawned", "all"], f"{domains(job)}")
    check_result(job, program)
    check(len(job.events("spawn")) == 1, "the children were spawned again")


@scenario
def children_go_back_alone_to_an_earlier_wave(cluster):
    program = Apart(2, 1500, 20000)
    job = apart(cluster, program, ["--stage-rate", "8M", "--incremental"])
    staged = job.events("wave-staged")[-1]["wave"]
    job.crjob("checkpoint")
    check(not job.events("wave-staged", wave=staged + 1), "the wave was staged too fast for this scenario")
    cluster.kill("node3")
    job.await_event("recovery-done", seconds=90)
    check([(event["domain"], event["wave"]) for event in job.events("recovery-begin")] == [("spawned", staged)],
          f"not only the children went back, or not to wave {staged}: {job.last_messages()}")
    # No image since then was made from one of the wave that counts no more.
    later_all_go_back(cluster, job, program)


@scenario
def children_that_have_talked_take_their_parents_back(cluster):
    program = Apart(2, 1500, 20000, talk=5)
    job = apart(cluster, program)
    cluster.kill("node3")
    job.await_event("recovery-done", seconds=90)
    check(domains(job) == ["spawned", "all"], f"{domains(job)}: {job.last_messages()}")
    check("messages have crossed since wave" in job.messages(), f"no reason is told: {job.last_messages()}")
    check_result(job, program)
    check(len(job.events("spawn")) == 1, "the children were spawned again")


class Sessions(Program):
    """Open MPI's own launcher takes minutes for it, or hangs: the result is computed here."""

    def __init__(self, times):
        super().__init__([f"{PROGRAMS}/mpi_sessions", times], r"^session .*$")
        self.times = times

    def expected(self, ranks, _got):
        odd = (ranks + 1) // 2
        sums = f"{ranks * (ranks + 1) // 2} and {odd * (odd + 1) // 2}"
        return [f"session {time}: {ranks} processes, sums {sums}" for time in range(self.times)]


@scenario
def groups_of_sessions(cluster):
    program = Sessions(10)
    job = on_two(cluster, program, spares=("node4:2",), every=None, options=["--map-by", "node"]).start()
    check_result(job, program)
