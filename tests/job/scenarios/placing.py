# SPDX-License-Identifier: GPL-2.0-only
"""Mapping, binding, rankfiles and several programs, as mpirun has them."""

import re

from lib.scenario import Job, check, scenario
from scenarios.users import run

PROGRAM = "/mnt/project/build/vm/user/tests/job/crd/mpi_programs"


def ranks_of(output):
    """rank -> (program, its number, WHO, processors)"""
    found = re.findall(r"^(\w+): rank (\d+), program (\d+), WHO=(\w*), processors ([\d,]*)$", output, re.M)
    return {int(rank): (name, int(number), who, processors) for name, rank, number, who, processors in found}


@scenario
def placed_as_mpirun_does(cluster):
    # On each node a rank of both programs, each on a core of its own. The first loss takes the spare, the second one makes
    # ranks double up.
    job = Job(cluster, ["-x", "WHO=one", PROGRAM, "first", Job.HOLD, ":", "-x", "WHO=two", PROGRAM, "second", Job.HOLD],
              hosts=("node1:2", "node2:2", "node3:2"), spares=("node4:2",), every="3s",
              options=["-N", 1, "--bind-to", "core", "--report-bindings"])
    # No -n. --wdir is the first program's only, as for mpirun.
    held = f"/mnt/share/{job.name}/{Job.HOLD}"
    job.words = [held if word == Job.HOLD else word for i, word in enumerate(job.words) if i not in (1, 2)]
    job.ranks = 6
    job.start()
    job.await_event("wave-staged", 2, seconds=90)
    where = {rank: node for rank, (node, _) in job.where().items()}
    check(where == {0: "node1", 1: "node2", 2: "node3", 3: "node1", 4: "node2", 5: "node3"}, f"not -N 1 of each program: {where}")
    bound = re.findall(r"^crrun: \[(node\d):\d+\] Rank (\d) bound to package\[\d\]\[core:(\d)\]$", job.messages(), re.M)
    check(sorted(bound) == sorted((node, str(rank), str(rank // 3)) for rank, node in where.items()), f"not bound to cores in turn: {bound}")
    cluster.kill("node2")
    job.await_event("recovery-done", 1, seconds=90)
    moved = re.findall(r"^crrun: \[node4:\d+\] Rank ([14]) bound to package\[\d\]\[core:(\d)\]$", job.messages(), re.M)
    check({rank for rank, _ in moved} == {"1", "4"} and {core for _, core in moved} == {"0", "1"}, f"not bound on the spare: {moved}")
    job.await_event("wave-staged", len(job.events("wave-staged")) + 2, seconds=90)
    cluster.kill("node3")
    job.await_event("recovery-done", 2, seconds=90)
    said = re.findall(r"^crrun: rank (\d) on node\d: it is not bound any more: the node has no free core$", job.messages(), re.M)
    check(sorted(said) == ["2", "5"], f"said of ranks without a core: {said}")
    job.release()
    check(job.wait(120) == 0, f"it failed:\n{job.last_messages()}\n{job.output()[-500:]}")
    got = ranks_of(job.output())
    check({rank: one[:3] for rank, one in got.items()} == {rank: ("first", 0, "one") if rank < 3 else ("second", 1, "two") for rank in range(6)},
          f"ranks run other programs: {got}")
    check("first: 3 of 6 ranks" in job.output() and "second: 3 of 6 ranks" in job.output(), job.output())
    cores = {rank: one[3] for rank, one in got.items()}
    check((cores[0], cores[3]) == ("0", "1") and {cores[1], cores[4]} == {"0", "1"}, f"ranks with cores have others at the end: {cores}")
    check(cores[2] == cores[5] == "0,1", f"ranks without cores of their own are bound: {cores}")


@scenario
def rankfiles_and_refusals_as_mpirun(cluster):
    folder = cluster.share / "placing"
    folder.mkdir(exist_ok=True)
    (folder / "ranks").write_text("rank 1=node1 slot=0\nrank 0=node2 slot=0:1  # the second core\nrank 2=+n1 slot=0-1\n", "ascii")
    (folder / "wrong").write_text("rank 0=node1 slot=0\nrank 1=node2 slot=7\n", "ascii")
    base = ["crrun", "--shared", "/mnt/share/placing", "--local", "/var/tmp/cr", "--hosts", "node1:2,node2:2"]
    status, out, err = run(cluster, *base, "--rankfile", "/mnt/share/placing/ranks", "--report-bindings", PROGRAM, "it")
    got = {rank: one[3] for rank, one in ranks_of(out).items()}
    check(status == 0 and got == {0: "1", 1: "0", 2: "0,1"}, f"{status}: {got} {out}{err}")
    check("[node2:" in err and "Rank 0 bound to package[0][core:1]" in err, err)
    refusals = [
        (["--rankfile", "/mnt/share/placing/wrong", PROGRAM, "it"], ["/mnt/share/placing/wrong:2", "node has 2"]),
        (["--map-by", "slot:pe=3", "-n", 1, PROGRAM, "it"], ["pe=3", "node1 has 2 cores"]),
        (["-N", 3, PROGRAM, "it"], ["6 ranks", "--oversubscribe"]),
        (["--map-by", "l3cache", PROGRAM, "it"], ["l3cache", "package"]),
    ]
    for words, parts in refusals:
        status, out, err = run(cluster, *base, *words)
        check(status != 0 and all(part in err for part in parts), f"{words}: {status}: {out}{err}")
