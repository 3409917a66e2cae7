"""Parameter servers: synchronous steps have the bits of allreduce, asynchronous ones count each piece of work once, and
a replica that is killed stops nobody and loses nothing."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import program
import read_safetensors
from program import ENDLESS, MLP, RESNET

SERVED = {"parallel.sync": "parameter_server", "parallel.servers": 2}
JOB = {**MLP, "data.samples": 128, "train.optimizer": "adamw", "train.lr": 0.001, "model.dropout": 0.2}
OWN_STEPS = {**JOB, **SERVED, "parallel.lanes": 1, "train.optimizer": "adagrad", "train.lr": 0.01}


class ServersTest(program.ProgramTest):
    def logs(self, name):
        """What each server has logged, by its number."""
        return {int(path.stem.rsplit("server", 1)[1]): program.lines_of(path)
                for path in (self.scratch / name / "servers").glob("0-server*.jsonl")}

    def updates(self, name):
        return [line for log in self.logs(name).values() for line in log if "slice" in line]

    def history(self, name, slice_):
        """The updates of a slice by version, as the servers that are left know them: what a lost server has logged
        counts as far as another one began with it."""
        logs = self.logs(name)
        known, installed = {}, {}
        for server, log in logs.items():
            known[server] = {line["version"]: line for line in log if line.get("slice") == slice_}
            installed[server] = max([line["version"] for line in log if line.get("installed") == slice_], default=0)
        last = max((server for server in known if known[server]), key=lambda server: (max(known[server]), -server))
        chain = dict(known[last])
        while chain and min(chain) > 1:
            first = min(chain)
            before = next(server for server in sorted(known) if first - 1 in known[server] and server != last)
            self.assertGreaterEqual(installed[last], first - 1)
            chain.update({version: line for version, line in known[before].items() if version < first})
            last = before
        return chain

    def assert_proven(self, name):
        """The logs of servers and replicas hold what docs/reference/server_logs.md promises."""
        found = json.loads(self.control("audit", self.scratch / name, "--json"))
        self.assertTrue(found["proven"], found["finding"])
        self.assertGreater(found["acknowledged"], 0)
        return found

    def assert_each_ticket_once(self, name, tickets):
        """In every slice, in an unbroken order of versions; all servers agree."""
        self.assertEqual(self.assert_proven(name)["updates"],
                         tickets * len({line["slice"] for line in self.updates(name)}))
        for slice_ in {line["slice"] for line in self.updates(name)}:
            chain = self.history(name, slice_)
            self.assertEqual(sorted(chain), list(range(1, tickets + 1)))
            self.assertEqual(sorted(line["ticket"] for line in chain.values()), list(range(tickets)))

    def given(self, *wanted):
        """Processes of this test's runs, on any host and launchers left out, that were given these arguments in a row."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                text = (folder / "cmdline").read_bytes().decode(errors="replace")
                if (text.split("\0")[0].endswith("distbelief") and str(self.scratch) in text
                        and "\0".join(["", *wanted, ""]) in text):
                    found.append(int(folder.name))
        return found

    # What is waited for is read from what a run records: a supervisor may be slow to answer beside a run that keeps the
    # cores busy.
    def kill(self, name, replica, after):
        """Waits until the replica has done a step beyond `after`, kills it, and gives that step."""
        folder = self.scratch / name / (f"replicas/{replica}" if replica > 0 else "")

        def step():
            return max([line["step"] for line in program.lines_of(folder / "metrics.jsonl")], default=-1)
        self.wait_until(lambda: step() > after, f"replica {replica} beyond step {after}")
        at = step()
        os.kill(self.given("worker", "--run-dir", str(folder))[0], signal.SIGKILL)
        return at

    def settled_server(self, name, index):
        """One of those that serve, when every parameter has two copies."""
        found = []

        def is_settled():
            events = program.lines_of(self.scratch / name / "events.jsonl")
            gone = {event["server"] for event in events if event["event"] in ("server lost", "server left")}
            found[:] = [event for event in events if event["event"] == "server" and event["server"] not in gone]
            last = next((event for event in reversed(events) if event["event"] == "servers"), None)
            return last and last["without_backup"] == 0 and last["servers"] == len(found)
        self.wait_until(is_settled, "two copies of everything")
        return found[index]

    def strike_server(self, name, index, signal_=signal.SIGKILL):
        """Waits until every parameter has two copies, kills or stops a server, and waits until it is missed."""
        server = self.settled_server(name, index)
        os.kill(server["pid"], signal_)
        self.wait_until(lambda: server["server"] in {event["server"] for event in self.events(name, "server lost")},
                        "the supervisor knows")


class SameBitsTest(ServersTest):
    def test_synchronous_steps_have_the_bits_of_allreduce(self):
        for label, job in {"mlp": JOB, "resnet": RESNET}.items():
            expected = self.train(f"{label}-allreduce", job, "--workers", 2)
            served = self.train(f"{label}-served", {**job, **SERVED, "parallel.mode": "sync"}, "--workers", 2)
            self.assertEqual(served["weights_sha256"], expected["weights_sha256"], label)
            self.assertEqual(served["final_train_loss"], expected["final_train_loss"], label)
            self.assertEqual(served.get("test_accuracy"), expected.get("test_accuracy"), label)
            self.assertTrue(served["reproducible"], label)

    def test_a_killed_replica_changes_nothing(self):
        job = {**JOB, "train.epochs": 150, "train.validate_every": 0, "report.interval_seconds": 0.02}
        expected = self.train("undisturbed", job, "--workers", 2)
        run = self.start_training("killed", {**job, **SERVED, "parallel.mode": "sync"}, "--workers", 2)
        self.kill("killed", 1, 20)
        self.kill("killed", 0, 60)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertEqual(self.summary("killed")["weights_sha256"], expected["weights_sha256"])
        self.assert_each_ticket_once("killed", expected["steps"])


class WideReplicaTest(ServersTest):
    """Replicas of several workers, which add up their gradients among themselves and push once."""

    def test_synchronous_steps_have_the_bits_of_allreduce(self):
        expected = self.train("allreduce", RESNET, "--workers", 2)
        served = self.train("served", {**RESNET, **SERVED, "parallel.mode": "sync", "parallel.data": 2}, "--workers", 2)
        self.assertEqual(served["weights_sha256"], expected["weights_sha256"])
        self.assertEqual(served["final_train_loss"], expected["final_train_loss"])

    def test_each_push_is_one_of_the_whole_replica(self):
        job = {**OWN_STEPS, "parallel.lanes": 2, "parallel.data": 2, "parallel.mode": "hybrid", "train.epochs": 150,
               "train.validate_every": 0, "report.interval_seconds": 0.02}
        run = self.start_training("killed", job, "--workers", 2)
        self.kill("killed", 1, 20)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assert_each_ticket_once("killed", self.summary("killed")["steps"])
        self.assertEqual({line["replica"] for line in self.updates("killed")}, {0, 1})


class OwnStepsTest(ServersTest):
    def test_each_piece_of_work_counts_once_at_every_pace(self):
        for mode in ({"parallel.mode": "async"},
                     {"parallel.mode": "async", "parallel.push_every": 3, "parallel.fetch_every": 2},
                     {"parallel.mode": "bounded", "parallel.staleness": 1, "parallel.delay_compensation": 0.1},
                     {"parallel.mode": "bounded", "parallel.staleness": 0, "parallel.staleness_aware": True}):
            name = "-".join(str(value) for value in mode.values())
            summary = self.train(name, {**OWN_STEPS, **mode, "train.epochs": 20}, "--workers", 3)
            self.assertEqual(summary["steps"], 160, name)
            self.assertEqual(summary["samples"], 20 * 128, name)
            self.assertFalse(summary["reproducible"], name)
            self.assertIn("depend on time", summary["reproducible_note"])
            tickets = -(-160 // mode.get("parallel.push_every", 1))
            self.assert_each_ticket_once(name, tickets)
            begins = [line for log in self.logs(name).values() for line in log if "begin" in line]
            self.assertEqual(bool(begins), mode["parallel.mode"] == "bounded")
            for line in begins:
                self.assertLessEqual(line["clock"] - line["slowest"], mode["parallel.staleness"], line)

    def test_the_first_replica_begins_alone(self):
        self.train("warm", {**OWN_STEPS, "parallel.mode": "async", "parallel.warm_start": 60, "train.epochs": 40},
                   "--workers", 3)
        self.assert_each_ticket_once("warm", 320)
        updates = [line for log in self.logs("warm").values() for line in log if "ticket" in line and "slice" in line]
        self.assertEqual({line["replica"] for line in updates if line["ticket"] < 60}, {0})
        others = [line for line in updates if line["replica"] != 0]
        self.assertTrue(others, "the others never began")
        self.assertGreaterEqual(min(line["base"] for line in others), 60, "they began with older parameters")

    def test_a_killed_replica_stops_nobody_and_loses_nothing(self):
        job = {**OWN_STEPS, "parallel.mode": "async", "train.epochs": 1500, "train.validate_every": 0,
               "report.interval_seconds": 0.02}
        run = self.start_training("killed", job, "--workers", 3)
        at = self.kill("killed", 2, 50)
        self.kill("killed", 1, at + 50)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 0, outcome.err)
        steps = self.summary("killed")["steps"]
        self.assert_each_ticket_once("killed", steps)
        self.assertEqual(len(self.events("killed", "replica lost")), 2)


    def test_a_paused_replica_holds_nobody_up(self):
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "bounded", "parallel.staleness": 1, "train.epochs": 10_000_000}
        run = self.start_training("paused", job, "--workers", 3)

        def begins():
            lines = [line for log in self.logs("paused").values() for line in log if "begin" in line]
            return [sum(line["begin"] == replica for line in lines) for replica in range(3)]
        self.wait_until(lambda: min(begins()) > 5, "all of them train")
        self.control("pause", "paused", "--worker", 2)
        self.wait_until(lambda: any(worker["replica"] == 2 and worker["state"] == "paused"
                                    for worker in self.status("paused")["workers"]), "it pauses")
        self.wait_until(lambda: any(line.get("left") == 2 for log in self.logs("paused").values() for line in log),
                        "it has left the desk")
        before = begins()
        self.wait_until(lambda: min(begins()[:2]) > max(before) + 20, "the others go on")
        self.assertEqual(begins()[2], before[2])
        for _ in range(2):  # all servers that it knows are replaced meanwhile
            self.strike_server("paused", 0)
        self.control("resume", "paused", "--worker", 2)
        self.wait_until(lambda: begins()[2] > before[2] + 5, "it is back")
        self.assertEqual(self.events("paused", "replica lost"), [])
        self.control("stop", "paused")
        self.assertEqual(self.finish(run).code, 130)
        self.assert_proven("paused")
        done = {line["ticket"] for line in self.updates("paused")}
        under_way = 3 * 4  # when the run was stopped
        self.assertEqual(set(range(max(done) - under_way)) - done, set(), "work that the paused one had")


class HungTest(ServersTest):
    """Processes that are stopped: they live, and neither work nor answer."""
    ENDLESS_STEPS = {**ENDLESS, **OWN_STEPS, "parallel.mode": "bounded", "parallel.staleness": 1,
                     "train.epochs": 10_000_000, "parallel.deadline_seconds": 6}

    def begins(self, name):
        """Both replicas take part: one that is just joining is not what these tests are about."""
        run = self.start_training(name, self.ENDLESS_STEPS, "--workers", 2)
        self.wait_until(lambda: {update["replica"] for update in self.updates(name)} == {0, 1}, "updates of both")
        return run

    def goes_on(self, name):
        before = len(self.updates(name))
        self.wait_until(lambda: len(self.updates(name)) > before + 50, "updates")

    def test_a_stopped_replica_is_started_again(self):
        run = self.begins("hung")
        worker = next(worker for worker in self.status("hung")["workers"] if worker["replica"] == 1)
        os.kill(worker["pid"], signal.SIGSTOP)
        self.wait_until(lambda: len(self.events("hung", "replica recovered")) > 0, "it is back")
        self.assertIn("nothing heard of it", self.events("hung", "replica lost")[0]["reason"])
        self.goes_on("hung")
        self.control("stop", "hung")
        self.assertEqual(self.finish(run).code, 130)
        self.assert_proven("hung")

    def test_a_stopped_server_is_replaced(self):
        run = self.begins("hung")
        self.strike_server("hung", 0, signal.SIGSTOP)
        self.goes_on("hung")
        self.control("stop", "hung")
        self.assertEqual(self.finish(run).code, 130)
        self.assert_proven("hung")
        self.assertEqual(len(self.events("hung", "server silent")), 1)
        self.assertEqual(self.events("hung", "replica lost"), [])


class StuckStartTest(ServersTest):
    """Processes that are stopped before they have said a word: waited for a minute, as a cold disk may take that long."""

    def stop_early(self, *wanted):
        """Stops the process that is given these arguments as soon as there is one."""
        self.wait_until(lambda: self.given(*wanted), f"a process with {wanted}")
        pid = self.given(*wanted)[0]
        os.kill(pid, signal.SIGSTOP)
        return pid

    def test_a_replica_and_a_server_that_hang_before_their_first_word_are_replaced(self):
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000, "parallel.deadline_seconds": 60}
        run = self.start([program.PROGRAM, "train", "--run-dir", "hung", *program.settings(job), "--workers", 2])
        replica = self.stop_early("--replica", "1")
        self.wait_until(lambda: len(self.updates("hung")) > 50, "the other trains")
        os.kill(self.settled_server("hung", 0)["pid"], signal.SIGKILL)
        self.wait_until(lambda: len(self.events("hung", "server")) == 3, "another server is started")
        self.stop_early("--launch", str(self.events("hung", "server")[-1]["server"]))
        self.wait_until(lambda: len(self.events("hung", "replica lost")) > 0, "it is missed")
        self.assertIn("nothing heard of it for 6", self.events("hung", "replica lost")[0]["reason"])
        self.wait_until(lambda: len(self.events("hung", "server silent")) > 0, "the server is missed")
        self.settled_server("hung", 0)
        self.wait_until(lambda: {line["replica"] for line in self.updates("hung")} == {0, 1}, "both train")
        self.assertNotIn(replica, self.processes(), "it was left behind")
        self.control("stop", "hung")
        self.assertEqual(self.finish(run).code, 130)
        self.assert_proven("hung")


class SpareTest(ServersTest):
    """Synchronous steps that do not wait for the slowest replica."""

    def test_a_replica_that_comes_too_late_goes_on_where_the_others_are(self):
        # The first one saves and validates; it may be the slow one.
        for slow, changes in ((2, {}), (0, {"parallel.data": 2, "parallel.lanes": 6})):
            job = {**JOB, **SERVED, "parallel.mode": "sync", "parallel.spare_replicas": 1, "parallel.lanes": 3,
                   "model.hidden": [256, 256], "train.epochs": 60, "train.validate_every": 20,
                   "checkpoint.every_steps": 100, "checkpoint.keep": 10, **changes}
            name = f"slow-{slow}"
            summary = self.train(name, job, "--workers", 3, "--inject", f"slow:rank={slow},factor=8")
            self.assertEqual(summary["steps"], 480)
            self.assertEqual(summary["samples"], 60 * 128)
            self.assert_each_ticket_once(name, 480)
            pushes = [line for line in program.lines_of(self.scratch / name / "servers" / f"replica{slow}.jsonl")
                      if "fetched" not in line]
            self.assertLess(len(pushes), 400, "it came late for nothing")
            self.assertGreater(len(pushes), 10)
            late = sum("late" in line for line in pushes)
            self.assertGreater(late, 5)
            self.assertGreaterEqual(self.assert_proven(name)["late"], late // 2)  # some slices may have had a few of them
            missed = [line for line in self.updates(name) if slow not in line["of"]]
            self.assertGreater(len(missed), 200, "the log does not say who is in a sum")
            self.assertEqual(self.events(name, "replica lost"), [])
            self.assertGreaterEqual(len(self.events(name, "checkpoint")), 5)
            log = "".join(path.read_text() for path in (self.scratch / name).rglob("*.log"))
            self.assertIn("came too late for", log)
            self.assertEqual(json.loads(self.control("eval", self.scratch / name, "--json"))["test_accuracy"],
                             summary["test_accuracy"])


class LostSpareTest(ServersTest):
    """Synchronous steps go on without a spare replica, however it comes to be missing."""
    SPARE = {**ENDLESS, **JOB, **SERVED, "parallel.mode": "sync", "parallel.spare_replicas": 1, "parallel.lanes": 3,
             "train.epochs": 10_000_000, "train.schedule": "constant"}

    def goes_on(self, name, wanted):
        """Until many steps more are the sum of just these replicas, or have this one in them."""
        before = max(line["version"] for line in self.updates(name))

        def found():
            return [line["of"] for line in self.updates(name) if line["version"] > before]
        self.wait_until(lambda: sum(of == wanted if isinstance(wanted, list) else wanted in of for of in found()) > 40,
                        f"steps of {wanted}")

    def stop(self, run, name):
        self.control("stop", name)
        self.assertEqual(self.finish(run).code, 130)
        return self.assert_proven(name)

    def test_killed_replicas_and_a_killed_server_stop_nobody(self):
        run = self.start_training("killed", self.SPARE, "--workers", 3)
        for replica in (2, 0):
            self.kill("killed", replica, 20)
            self.goes_on("killed", [one for one in range(3) if one != replica])
            self.goes_on("killed", replica)
        self.strike_server("killed", 0)
        for replica in range(3):
            self.goes_on("killed", replica)
        self.stop(run, "killed")
        self.assertEqual([event["replica"] for event in self.events("killed", "replica lost")], [2, 0])
        self.assertEqual(len(self.events("killed", "server lost")), 1)

    def test_as_many_as_are_spare_may_be_paused_or_given_up(self):
        run = self.start_training("missing", {**self.SPARE, "elastic.restarts": 0}, "--workers", 3)
        self.control("pause", "missing", "--worker", 1)
        self.goes_on("missing", [0, 2])
        self.assertIn("none is left", self.control("pause", "missing", "--worker", 2, code=2))
        self.control("resume", "missing", "--worker", 1)
        self.goes_on("missing", 1)
        self.kill("missing", 2, 20)
        self.goes_on("missing", [0, 1])
        self.assertIn("none is left", self.control("pause", "missing", "--worker", 1, code=2))
        self.stop(run, "missing")
        self.assertEqual([event["decision"] for event in self.events("missing", "replica lost")], ["give up"])
        self.assertEqual([event["replica"] for event in self.events("missing", "replica paused")], [1])


class BoundTest(ServersTest):
    """One of three replicas takes four times as long for a step."""

    def test_nobody_is_further_ahead_than_the_bound(self):
        for staleness in (0, 1, 4, 16):
            name = f"ahead-{staleness}"
            job = {**OWN_STEPS, "parallel.mode": "bounded", "parallel.staleness": staleness, "train.epochs": 40,
                   "model.hidden": [256, 256], "train.validate_every": 0}
            self.train(name, job, "--workers", 3, "--inject", "slow:rank=2,factor=4")
            found = self.assert_proven(name)
            self.assertEqual(found["begins"], 320)
            ahead = max(line["clock"] - line["slowest"] for log in self.logs(name).values() for line in log
                        if "begin" in line)
            self.assertEqual(ahead, staleness, "the bound was never reached, so nothing was tried")


class AuditTest(ServersTest):
    def test_a_log_that_was_changed_is_found_out(self):
        self.train("run", {**OWN_STEPS, "parallel.mode": "async", "train.epochs": 4}, "--workers", 2)
        self.assert_proven("run")
        pushes = self.scratch / "run" / "servers" / "replica1.jsonl"
        text = pushes.read_text()
        pushes.write_text(text + '{"acknowledged":5000,"unix_seconds":1.0,"versions":[7]}\n')
        self.assertIn("was told that ticket 5000", self.control("audit", "run", code=1, on_failure="out"))
        pushes.write_text(text)
        log = next((self.scratch / "run" / "servers").glob("0-server*.jsonl"))
        lines = log.read_text().splitlines(keepends=True)
        last = max(index for index, line in enumerate(lines) if "ticket" in line)
        log.write_text("".join(lines[:last] + lines[last + 1:]).replace('"ticket":3,', '"ticket":4,'))
        self.assertNotEqual(self.control("audit", "run", code=1, on_failure="out"), "")


class ActorsTest(ServersTest):
    """Asynchronous actor-critic: every replica acts in environments of its own, which go on from step to step."""

    def returned(self, seed, **changes):
        name = f"actors-{seed}"
        self.distbelief("train", program.SOURCE / "examples/jobs/cartpole_a3c.toml", "--run-dir", self.scratch / name,
                        *program.settings({**changes, "train.seed": seed}), within=600)
        found = json.loads(self.distbelief("eval", self.scratch / name, "--json").out)["test_metrics"]["mean_return"]
        self.assert_proven(name)
        return found

    def test_actors_learn(self):
        # Random actions balance the pole for 22 steps.
        self.assertGreater(self.returned(1, **{"train.epochs": 6, "train.validate_every": 0, "parallel.workers": 2}), 66)


class SolvedTest(ActorsTest):
    test_actors_learn = None

    def test_the_pole_is_balanced(self):
        for seed in (1, 2, 3):
            self.assertGreaterEqual(self.returned(seed), 475, f"seed {seed}")


class EndTest(ServersTest):
    def test_a_run_that_is_stopped_saves_and_leaves_nothing_behind(self):
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000}
        run = self.start_training("stopped", job, "--workers", 2)
        self.wait_until(lambda: len(self.updates("stopped")) > 50, "updates")
        self.control("stop", "stopped")
        self.assertEqual(self.finish(run).code, 130)

    def test_a_run_that_is_stopped_while_its_replicas_start_ends(self):
        # They cannot be told yet: they are when they come.
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000}
        run = self.start([program.PROGRAM, "train", "--run-dir", "early", *program.settings(job), "--workers", 2])
        self.wait_until(lambda: self.given("worker", "--run-dir", str(self.scratch / "early")), "the first is started")
        self.control("stop", "early")
        self.assertEqual(self.finish(run, 60).code, 130)
        self.assertEqual(self.events("early", "replica lost"), [])

    def test_the_only_server_ends_the_run_with_it_and_says_so(self):
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000, "parallel.servers": 1}
        run = self.start_training("lost", job, "--workers", 2)
        os.kill(self.status("lost")["servers"][0]["pid"], signal.SIGKILL)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 1)
        self.assertIn("the only copy", outcome.err)


class LostServerTest(ServersTest):
    def test_synchronous_steps_keep_their_bits(self):
        # However long the kills take: it goes on until it is stopped.
        job = {**ENDLESS, **JOB, "train.epochs": 10_000_000, "train.schedule": "constant"}
        run = self.start_training("killed", {**job, **SERVED, "parallel.mode": "sync"}, "--workers", 2)
        self.strike_server("killed", 0)
        self.strike_server("killed", 0)
        self.kill("killed", 1, 20)
        self.wait_until(lambda: len(self.events("killed", "replica recovered")) > 0, "it is back")
        self.control("stop", "killed")
        self.assertEqual(self.finish(run).code, 130)
        self.assert_proven("killed")
        stopped = self.summary("killed")
        expected = self.train("undisturbed", {**job, "train.max_steps": stopped["steps"]}, "--workers", 2)
        self.assertEqual(stopped["weights_sha256"], expected["weights_sha256"])

    def test_asynchronous_steps_count_once(self):
        # However long the kills take: it goes on until it is stopped.
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000}
        run = self.start_training("killed", job, "--workers", 2)
        for index in (0, 1, 0):
            self.strike_server("killed", index)
        # What a server does not have yet or any more is asked for elsewhere: no offence.
        for server in self.status("killed")["servers"]:
            self.assertEqual([server["refused"], server["dropped"], server["turned_away"]], [0, 0, 0])
        self.control("stop", "killed")
        self.assertEqual(self.finish(run).code, 130)
        self.assert_proven("killed")
        self.assertEqual(len(self.events("killed", "server lost")), 3)


class ScaleTest(ServersTest):
    """Servers and replicas come and go by command."""
    WIDE = {"model.hidden": [512, 1024], "train.validate_every": 0, "report.interval_seconds": 0.02}  # three slices

    def scale_servers(self, name, servers):
        self.control("scale", name, "--servers", servers)

        def is_even():
            found = self.status(name)["servers"]
            return len(found) == servers and all(
                abs(server["primary"] - 64 / servers) < 1 and server["state"] == "serving" for server in found)
        self.wait_until(is_even, f"{servers} servers with as many parts each")

    def assert_all_agree(self, name, tickets):
        """Every update is known once, and by all servers that have seen it as the same."""
        for slice_ in range(3):
            chain = {}
            for line in self.updates(name):
                if line["slice"] == slice_:
                    self.assertEqual(chain.setdefault(line["version"], line), line)
            self.assertEqual(sorted(chain), list(range(1, tickets + 1)))
            self.assertEqual(sorted(line["ticket"] for line in chain.values()), list(range(tickets)))

    def test_synchronous_steps_keep_their_bits(self):
        job = {**ENDLESS, **JOB, **self.WIDE, "train.epochs": 10_000_000, "train.schedule": "constant"}
        run = self.start_training("scaled", {**job, **SERVED, "parallel.mode": "sync"}, "--workers", 2)
        for servers in (4, 1, 2):
            self.scale_servers("scaled", servers)
        self.control("stop", "scaled")
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 130, outcome.err)
        scaled = self.summary("scaled")
        whole = self.train("undisturbed", {**job, "train.max_steps": scaled["steps"]}, "--workers", 1)
        self.assertEqual(scaled["weights_sha256"], whole["weights_sha256"])
        self.assert_all_agree("scaled", scaled["steps"])

    def test_asynchronous_steps_count_once(self):
        job = {**OWN_STEPS, **self.WIDE, "parallel.mode": "async", "train.epochs": 150, "elastic.max": 3}
        run = self.start_training("scaled", job, "--workers", 1)
        self.scale_servers("scaled", 3)
        self.assertIn("1 to 3 replicas", self.control("scale", "scaled", 4, code=2))
        self.control("scale", "scaled", 3)
        self.wait_until(lambda: {worker["replica"] for worker in self.status("scaled")["workers"]
                                 if worker["state"] == "training"} == {0, 1, 2}, "three replicas")
        self.control("pause", "scaled", "--worker", 2)
        self.scale_servers("scaled", 1)
        self.control("scale", "scaled", 1)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assert_all_agree("scaled", self.summary("scaled")["steps"])
        self.assertEqual(len(self.events("scaled", "server left")), 2)
        self.assertEqual(self.events("scaled", "server lost") + self.events("scaled", "replica lost"), [])


class ResumeTest(ServersTest):
    """A run that was stopped goes on where it was, with what it had learnt."""

    def stopped(self, job):
        run = self.start_training("run", job, "--workers", 2)
        self.control("stop", "run")
        self.assertEqual(self.finish(run).code, 130)
        return self.summary("run")["steps"]

    def test_synchronous_steps_have_the_bits_of_one_run(self):
        # No state of the update rule, which a checkpoint does not have; running statistics, which it has.
        job = {**RESNET, "train.epochs": 10_000_000, "train.momentum": 0, "train.schedule": "constant",
               "checkpoint.every_steps": 10**6}
        steps = 5 + self.stopped({**job, **SERVED, "parallel.mode": "sync"})
        self.distbelief("resume", "run", "--set", f"train.max_steps={steps}")
        whole = self.train("whole", {**job, "train.max_steps": steps}, "--workers", 1)
        self.assertEqual(self.summary("run")["weights_sha256"], whole["weights_sha256"])
        self.assertEqual(self.assert_proven("run")["updates"], 5 * len({line["slice"] for line in self.updates("run")}))

    def test_asynchronous_work_is_not_done_again(self):
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000, "train.schedule": "constant"}
        done = self.stopped(job)
        before = read_safetensors.read(self.scratch / "run" / "model.safetensors")[0]
        # Too small a rate to learn anything: what it knows it has from the checkpoint.
        self.distbelief("resume", "run", "--set", f"train.max_steps={done + 40}", "--set", "train.lr=1e-9")
        self.assertEqual(self.summary("run")["steps"], done + 40)
        self.assertEqual(self.assert_proven("run")["updates"], 40 * len({line["slice"] for line in self.updates("run")}))
        after = read_safetensors.read(self.scratch / "run" / "model.safetensors")[0]
        for name, values in before.items():
            self.assertLess(abs(values - after[name]).max(), 1e-4, name)


class StandingServersTest(ServersTest):
    """One set of servers for several runs."""

    def start_servers(self, *arguments):
        servers = subprocess.Popen([program.PROGRAM, "servers", "standing", *map(str, arguments)], cwd=self.scratch,
                                   env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        self.children.append(servers)
        self.wait_until(self.are_standing, "the servers stand")
        return servers

    def are_standing(self):
        asked = subprocess.run([program.PROGRAM, "status", "standing", "--json"], cwd=self.scratch, env=self.environment,
                               timeout=30, capture_output=True, text=True, check=False)
        return asked.returncode == 0 and json.loads(asked.stdout)["state"] == "serving"

    def stop_servers(self, servers):
        self.control("stop", "standing")
        self.assertEqual(servers.wait(20), 0)

    def start_beside(self, name, job, *arguments):
        with open(self.scratch / f"{name}.err", "wb") as err:
            child = subprocess.Popen([program.PROGRAM, "train", "--run-dir", name, *program.settings(job),
                                      "--servers-at", "standing", *map(str, arguments)], cwd=self.scratch,
                                     env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=err, start_new_session=True)
        self.children.append(child)
        return child


class StandingTest(StandingServersTest):
    def test_two_runs_at_once_have_the_bits_of_each_alone_and_a_third_waits_for_room(self):
        # A slice of this job is 1 MiB, with the two arrays of adamw and what sync keeps: 5 MiB on each server, and the
        # values of its lanes. Both go on until they are stopped, however long the third takes to come.
        job = {**ENDLESS, "train.optimizer": "adamw", "train.lr": 0.001, "train.schedule": "constant", "model.dropout": 0.2}
        jobs = {"one": job, "two": {**job, "train.seed": 7}}
        servers = self.start_servers("--servers", 2, "--memory-mb", 12)
        served = {**SERVED, "parallel.mode": "sync"}
        runs = {name: self.start_beside(name, {**job, **served}, "--workers", 2) for name, job in jobs.items()}
        self.wait_until(lambda: all(program.lines_of(self.scratch / name / "metrics.jsonl") for name in jobs), "steps")
        third = self.start_beside("three", {**job, **served}, "--workers", 1)
        self.assertEqual(third.wait(60), 2)
        self.assertRegex((self.scratch / "three.err").read_text(),
                         r"wants 5243076 bytes on this server, which has 2 jobs with \d+ bytes and takes 64 jobs, "
                         r"\d+ bytes each, 12582912 in all")
        for name, run in runs.items():
            run.send_signal(signal.SIGINT)
        for name, run in runs.items():
            self.assertEqual(run.wait(90), 130, (self.scratch / f"{name}.err").read_text())
            steps = self.summary(name)["steps"]
            alone = self.train(f"{name}-alone", {**jobs[name], "train.max_steps": steps}, "--workers", 1)
            self.assertEqual(self.summary(name)["weights_sha256"], alone["weights_sha256"])
            self.assertEqual(self.assert_proven(name)["updates"], steps)  # of one slice
        again = self.start_beside("four", {**JOB, **served}, "--workers", 1)
        self.assertEqual(again.wait(60), 0, "the first two left no room")
        self.stop_servers(servers)
        servers = self.start_servers()
        self.assertTrue((self.scratch / "standing" / "servers-1").exists(), "earlier logs were not put aside")
        os.killpg(servers.pid, signal.SIGINT)  # as Ctrl-C does
        self.assertEqual(servers.wait(20), 130)

    def test_what_a_killed_run_left_is_free_after_the_lease(self):
        servers = self.start_servers("--servers", 2, "--jobs", 1, "--lease-minutes", 0.05)
        lost = self.start_beside("lost", {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000},
                                 "--workers", 1)
        self.wait_until(lambda: len(self.updates("standing")) > 20, "updates")
        os.kill(lost.pid, signal.SIGKILL)
        logs = [self.scratch / "standing" / "logs" / f"server-{number}.log" for number in (1, 2)]
        self.wait_until(lambda: all("its space is free" in log.read_text() for log in logs), "the lease is over")
        again = self.start_beside("again", {**JOB, **SERVED, "parallel.mode": "sync", "parallel.servers": 3}, "--workers", 1)
        said = (self.scratch / "again.err").read_text
        self.assertEqual(again.wait(60), 0, said())
        self.assertIn("parallel.servers = 3 is passed over: 2 servers stand at standing", said())
        self.control("stop", "standing")
        self.assertEqual(servers.wait(20), 0)

    def test_servers_that_are_not_there_are_named(self):
        outcome = self.distbelief("train", "--servers-at", "nowhere", *program.settings({**JOB, **SERVED}), code=2)
        self.assertIn("neither the folder", outcome.err)


class MoreStandingTest(StandingServersTest):
    def test_replaced_servers_are_found_by_a_replica_that_comes_again_and_when_the_job_is_over(self):
        servers = self.start_servers("--servers", 2, "--jobs", 1)
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000}
        run = self.start_beside("one", job, "--workers", 2)
        self.wait_until(lambda: program.lines_of(self.scratch / "one" / "metrics.jsonl"), "steps")
        for _ in range(2):
            self.strike_server("standing", 0)
        self.settled_server("standing", 0)
        self.kill("one", 1, 0)
        self.wait_until(lambda: len(self.events("one", "replica recovered")) > 0, "it is back")
        self.control("stop", "one")
        self.assertEqual(run.wait(60), 130, (self.scratch / "one.err").read_text())
        self.assert_proven("one")
        again = self.start_beside("two", {**JOB, **SERVED, "parallel.mode": "sync"}, "--workers", 1)
        self.assertEqual(again.wait(60), 0, "the first left no room")
        self.stop_servers(servers)


if __name__ == "__main__":
    program.main()
