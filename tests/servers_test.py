"""Parameter servers: synchronous steps have the bits of allreduce, asynchronous ones count each piece of work once, and
a replica that is killed stops nobody and loses nothing."""
import os
import signal

import program
from program import ENDLESS, MLP, RESNET

SERVED = {"parallel.sync": "parameter_server", "parallel.servers": 2}
JOB = {**MLP, "data.samples": 128, "train.optimizer": "adamw", "train.lr": 0.001, "model.dropout": 0.2}
OWN_STEPS = {**JOB, **SERVED, "parallel.lanes": 1, "train.optimizer": "adagrad", "train.lr": 0.01}


class ServersTest(program.ProgramTest):
    def log(self, name, server):
        return program.lines_of(self.scratch / name / "servers" / f"0-server{server}.jsonl")

    def updates(self, name, server):
        return [line for line in self.log(name, server) if "slice" in line]

    def assert_each_ticket_once(self, name, tickets):
        """In every slice, in an unbroken order of versions."""
        slices = {}
        for server in range(2):
            for line in self.updates(name, server):
                slices.setdefault(line["slice"], []).append(line)
        self.assertTrue(slices)
        for updates in slices.values():
            self.assertEqual([line["version"] for line in updates], list(range(1, tickets + 1)))
            self.assertEqual(sorted(line["ticket"] for line in updates), list(range(tickets)))

    def kill(self, name, replica, after):
        """Waits until the replica has done a step beyond `after`, kills it, and gives that step."""
        found = []

        def has_come_far():
            if (self.scratch / name / "events.jsonl").exists():
                found[:] = [worker for worker in self.status(name)["workers"] if worker["replica"] == replica
                            and worker["step"] > after and worker["state"] == "training"]
            return bool(found)
        self.wait_until(has_come_far, f"replica {replica} beyond step {after}")
        os.kill(found[0]["pid"], signal.SIGKILL)
        return found[0]["step"]


class SameBitsTest(ServersTest):
    def test_synchronous_steps_have_the_bits_of_allreduce(self):
        for label, job in {"mlp": JOB, "resnet": RESNET}.items():
            expected = self.train(f"{label}-allreduce", job, "--workers", 2)
            served = self.train(f"{label}-served", {**job, **SERVED, "parallel.mode": "sync"}, "--workers", 2)
            self.assertEqual(served["weights_sha256"], expected["weights_sha256"], label)
            self.assertEqual(served["final_train_loss"], expected["final_train_loss"], label)
            self.assertEqual(served.get("test_accuracy"), expected.get("test_accuracy"), label)

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
            tickets = -(-160 // mode.get("parallel.push_every", 1))
            self.assert_each_ticket_once(name, tickets)
            begins = [line for line in self.log(name, 0) if "begin" in line]
            self.assertEqual(bool(begins), mode["parallel.mode"] == "bounded")
            for line in begins:
                self.assertLessEqual(line["clock"] - line["slowest"], mode["parallel.staleness"], line)

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
        events = program.lines_of(self.scratch / "killed" / "events.jsonl")
        self.assertEqual(sum(event["event"] == "replica lost" for event in events), 2)


class EndTest(ServersTest):
    def test_a_run_that_is_stopped_saves_and_leaves_nothing_behind(self):
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000}
        run = self.start_training("stopped", job, "--workers", 2)
        self.wait_until(lambda: len(self.updates("stopped", 0)) > 50, "updates")
        self.control("stop", "stopped")
        self.assertEqual(self.finish(run).code, 130)

    def test_a_lost_server_ends_the_run_and_says_so(self):
        job = {**ENDLESS, **OWN_STEPS, "parallel.mode": "async", "train.epochs": 10_000_000}
        run = self.start_training("lost", job, "--workers", 2)
        os.kill(self.status("lost")["servers"][1]["pid"], signal.SIGKILL)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 1)
        self.assertIn("parameter server 1", outcome.err)


if __name__ == "__main__":
    program.main()
