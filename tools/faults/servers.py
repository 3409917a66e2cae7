"""Rows with parameter servers: replicas, primaries and backups are killed, and the logs prove that nothing was lost."""
import json
import os
import signal
import statistics
import subprocess
import time

from faults.judge import ENDLESS, Row
from faults.run import Failure, Run, require, wait_until

PARTS = 64
LIMIT_SECONDS = 1.0  # that a replica may pause when a server dies
GOING_ON_SECONDS = 0.25  # a gap that is none: with more processes than cores each waits for its turn now and then
WATCHED_SECONDS = 3.0  # after a kill
JOB = {**ENDLESS, "model.name": "mlp", "model.hidden": [512, 512], "data.name": "synthetic", "data.samples": 4096,
       "data.test_samples": 32, "train.batch_size": 32, "train.optimizer": "adagrad", "train.lr": 0.01,
       "parallel.sync": "parameter_server", "parallel.mode": "async", "parallel.servers": 2, "parallel.lanes": 1}
JOB.pop("report.audit")


class Acknowledged:
    """When the pushes of each replica were answered."""

    def __init__(self, run):
        self.times = {}
        for path in sorted((run.path / "servers").glob("replica*.jsonl")):
            lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
            self.times[int(path.stem.removeprefix("replica"))] = [line["unix_seconds"] for line in lines]

    def gaps(self, replica, begin, end):
        """Between two pushes of which the later falls into this time."""
        times = self.times[replica]
        return [later - earlier for earlier, later in zip(times, times[1:]) if begin < later <= end]


class ServerKills:
    def __init__(self, judge, run):
        self.judge, self.run = judge, run
        self.struck = []  # (time, kind, replica or server)

    def servers(self):
        return [server for server in self.run.status()["servers"] if server["state"] == "serving"]

    def wait_for_two_copies(self):
        wait_until(lambda: sum(server["backup"] for server in self.servers()) == PARTS or self.run.child.poll() is not None,
                   "every parameter has two copies")
        require(self.run.child.poll() is None, f"the run ended by itself:\n{self.run.tail()}")

    def victim(self, kind):
        """Process id, and who it is."""
        if kind == "replica":
            def training():
                return [worker for worker in self.run.status()["workers"] if worker["state"] == "training"]
            wait_until(lambda: len(training()) >= 2, "two replicas that train")
            chosen = self.judge.random.choice(training())
            return chosen["pid"], chosen["replica"]
        self.wait_for_two_copies()
        role = {"primary": "primary", "backup": "backup"}[kind]
        other = {"primary": "backup", "backup": "primary"}[kind]
        chosen = max(self.servers(), key=lambda server: (server[role] - server[other], self.judge.random.random()))
        return chosen["pid"], chosen["server"]

    def kill(self, kind):
        time.sleep(self.judge.random.uniform(0, 1))
        pid, who = self.victim(kind)
        self.struck.append((time.time(), kind, who))
        os.kill(pid, signal.SIGKILL)


def pauses(acknowledged, struck):
    """The longest gap of any other replica after each kill, by kind. Who was just lost is not counted."""
    found = {"replica": [], "primary": [], "backup": []}
    for index, (at, kind, who) in enumerate(struck):
        end = min([at + WATCHED_SECONDS, *(later for later, *_ in struck[index + 1:index + 2])])
        away = {other for when, other_kind, other in struck if other_kind == "replica" and at - 10 < when < end}
        gaps = [max(acknowledged.gaps(replica, at, at + WATCHED_SECONDS), default=0.0)
                for replica in acknowledged.times if replica not in away]
        if gaps:
            found[kind].append(max(gaps))
    return found


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
        time.sleep(WATCHED_SECONDS)
        run.stop()
        row.count, row.left = count, run.left_behind()
        told = json.loads(run.control("audit", run.path, "--json"))
        row.audit = told["proven"]
        acknowledged = Acknowledged(run)
        usual = statistics.median(gap for times in acknowledged.times.values()
                                  for gap in (b - a for a, b in zip(times, times[1:])))
        found = pauses(acknowledged, kills.struck)
        row.seconds = found["primary"] + found["backup"]
        row.notes += [f"longest pause of another replica after the loss of a {kind}: {max(values):.2f} s, median "
                      f"{statistics.median(values):.2f} s ({len(values)} kills)"
                      for kind, values in found.items() if values]
        row.notes += [f"usually {1000 * usual:.1f} ms between two pushes", told["finding"]]
        require(row.audit, told["finding"])
        require(not row.left, f"left behind: {', '.join(row.left)}")
        judge.check_times(row)
        require(not row.shortfall, row.shortfall)
        require(max(found["replica"], default=0) <= GOING_ON_SECONDS, "the loss of a replica made another pause")
    except (Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as problem:
        row.problem = " ".join(str(problem).split())
    finally:
        run.end()
    return [row]


ROWS = {"served": served}
