"""Rows with parameter servers: replicas, primaries and backups are killed, and the logs prove that nothing was lost."""
import json
import os
import signal
import statistics
import subprocess
import time

from faults.judge import ENDLESS, Row
from faults.pauses import DYING_SECONDS, Kill, Push, gaps_of, lives, lost_tickets, pauses
from faults.run import Failure, Run, require, wait_until

PARTS = 64
LIMIT_SECONDS = 1.0  # that a replica may pause when a server dies
GOING_ON_SECONDS = 0.25  # a gap that is none: with more processes than cores each waits for its turn now and then
SETTLED_SECONDS = 3.0  # from the last kill, when all are back, to the end
TICKETS_AHEAD = 2  # that each replica has, or has asked for
TAIL_BYTES = 4096  # some lines of a replica's log
# One slice: it has one primary and one backup. Of several, each of two servers would be the primary of some.
JOB = {**ENDLESS, "model.name": "mlp", "model.hidden": [256, 128], "data.name": "synthetic", "data.samples": 4096,
       "data.test_samples": 32, "train.batch_size": 32, "train.optimizer": "adagrad", "train.lr": 0.01,
       "parallel.sync": "parameter_server", "parallel.mode": "async", "parallel.servers": 2, "parallel.lanes": 1}
JOB.pop("report.audit")


def acknowledged(run):
    """The pushes of each replica that were answered."""
    found = {}
    for path in sorted((run.path / "servers").glob("replica*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        found[int(path.stem.removeprefix("replica"))] = [Push(line["unix_seconds"], line["acknowledged"]) for line in lines
                                                         if "acknowledged" in line]
    return found


def last_push(run, replica):
    """When it was answered last; 0: never."""
    try:
        with open(run.path / "servers" / f"replica{replica}.jsonl", "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return 0.0
    whole = [json.loads(line) for line in lines[1:-1]]  # the first may be a part of one
    return max((line["unix_seconds"] for line in whole if "acknowledged" in line), default=0.0)


class ServerKills:
    def __init__(self, judge, run):
        self.judge, self.run = judge, run
        self.struck = []

    def servers(self):
        return [server for server in self.run.status()["servers"] if server["state"] == "serving"]

    def wait_for_two_copies(self):
        """Of every parameter; the servers then."""
        found = []

        def are_there():
            found[:] = self.servers()
            return sum(server["backup"] for server in found) == PARTS or self.run.child.poll() is not None
        wait_until(are_there, "every parameter has two copies")
        require(self.run.child.poll() is None, f"the run ended by itself:\n{self.run.tail()}")
        return found

    def is_back(self, replica):
        """It has pushed since it was last killed."""
        died = max((kill.at for kill in self.struck if (kill.kind, kill.who) == ("replica", replica)), default=0.0)
        return last_push(self.run, replica) > died + DYING_SECONDS

    def wait_for_replicas(self, count):
        """Those that train."""
        found = []

        def are_there():
            found[:] = [worker for worker in self.run.status()["workers"]
                        if worker["state"] == "training" and self.is_back(worker["replica"])]
            return len(found) >= count or self.run.child.poll() is not None
        wait_until(are_there, f"{count} replicas that train")
        require(self.run.child.poll() is None, f"the run ended by itself:\n{self.run.tail()}")
        return found

    def victim(self, kind):
        """Process id, and who it is. Another replica trains, and can be seen to pause."""
        training = self.wait_for_replicas(2)
        if kind == "replica":
            chosen = self.judge.random.choice(training)
            return chosen["pid"], chosen["replica"]
        [chosen] = [server for server in self.wait_for_two_copies() if server["first_part"] == kind]
        return chosen["pid"], chosen["server"]

    def kill(self, kind):
        time.sleep(self.judge.random.uniform(0, 1))
        pid, who = self.victim(kind)
        self.struck.append(Kill(time.time(), kind, who))
        os.kill(pid, signal.SIGKILL)


def judge_times(row, pushes, kills, end):
    """How long others paused after each kind of kill."""
    times = {replica: [push.at for push in told] for replica, told in pushes.items()}
    found = pauses(times, kills, end)
    usual = statistics.median(later - earlier for told in times.values() for life in lives(told, [], end)
                              for earlier, later in gaps_of(life))
    for kind in ("replica", "primary", "backup"):
        values = [seconds for of, seconds in found if of == kind]
        if values:
            row.notes.append(f"longest pause of another replica after the loss of a {kind}: {max(values):.2f} s, median "
                             f"{statistics.median(values):.2f} s ({len(values)} kills)")
    row.notes.append(f"usually {1000 * usual:.1f} ms between two pushes")
    row.seconds = [seconds for kind, seconds in found if kind != "replica"]
    return max((seconds for kind, seconds in found if kind == "replica"), default=0.0)


def served(judge):
    """Kills in turn and at random: replicas, primaries and backups, all in one run."""
    count, replicas = judge.options.kills or 50, max(3, judge.workers)
    row = Row(f"kill -9 of replicas and parameter servers, {replicas} replicas, 2 servers", LIMIT_SECONDS, each=True)
    run = Run(judge.options.program, judge.folder, {**JOB, **dict(each.split("=", 1) for each in judge.options.set)})
    judge.say(f"{row.fault} ...")
    try:
        run.train(replicas)
        run.wait_for_steps()
        kills = ServerKills(judge, run)
        for number in range(count):
            kills.kill(judge.random.choice(["replica", "primary", "backup"]))
            if (number + 1) % 10 == 0:
                judge.say(f"{number + 1} of {count} kills")
        kills.wait_for_two_copies()
        kills.wait_for_replicas(replicas)
        time.sleep(SETTLED_SECONDS)
        end = time.time()
        run.stop()
        row.count, row.left = count, run.left_behind()
        told = json.loads(run.control("audit", run.path, "--json"))
        row.audit = told["proven"]
        pushes = acknowledged(run)
        after_replicas = judge_times(row, pushes, kills.struck, end)
        row.notes.append(told["finding"])
        require(row.audit, told["finding"])
        lost = lost_tickets(sum(pushes.values(), []), end - SETTLED_SECONDS, TICKETS_AHEAD * replicas)
        require(not lost, f"tickets that nobody did, though later ones were done: {lost[:10]}")
        require(not row.left, f"left behind: {', '.join(row.left)}")
        judge.check_times(row)
        require(not row.shortfall, row.shortfall)
        require(after_replicas <= GOING_ON_SECONDS, "the loss of a replica made another pause")
    except (Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as problem:
        row.problem = " ".join(str(problem).split())
    finally:
        run.end()
    return [row]


ROWS = {"served": served}
