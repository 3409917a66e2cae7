"""L-BFGS over the whole batch: on one worker, several, and on parameter servers it is the same run, bit for bit, whoever
computes which portion and whichever process is killed."""
import json
import os
import signal
import subprocess
import sys

import program
import servers_test

# More parameters than a slice has, so that both servers are primaries.
JOB = {"model.name": "mlp", "model.hidden": [600, 600], "model.activation": "tanh", "data.name": "synthetic",
       "data.samples": 250, "data.test_samples": 32, "data.height": 8, "data.width": 8, "train.batch_size": 32,
       "train.optimizer": "lbfgs", "train.weight_decay": 0.001, "train.epochs": 12, "train.eps": 0.0001,
       "parallel.lanes": 1, "train.validate_every": 0, "checkpoint.every_epochs": 0, "report.interval_seconds": 0.0}
SERVED = {"parallel.sync": "parameter_server", "parallel.mode": "sandblaster"}
LOGISTIC = {"model.name": "mlp", "model.hidden": [], "data.name": "synthetic", "data.samples": 300,
            "data.test_samples": 32, "data.height": 8, "data.width": 8, "train.batch_size": 50,
            "train.optimizer": "lbfgs", "train.weight_decay": 0.01, "train.epochs": 300, "train.eps": 0.0001, "train.validate_every": 0,
            "checkpoint.every_epochs": 0, "parallel.lanes": 1}


class SandblasterTest(servers_test.ServersTest):
    def same(self, summary, expected):
        for key in ("weights_sha256", "final_train_loss", "steps", "samples"):
            self.assertEqual(summary[key], expected[key], key)

    def evaluations(self, name):
        """What the desks have logged, by the number of the evaluation."""
        found = {}
        for log in self.logs(name).values():
            for line in log:
                if "evaluation" in line:
                    found[line["evaluation"]] = line
        return found


class SameBitsTest(SandblasterTest):
    def test_one_worker_many_replicas_and_servers_make_the_same_run(self):
        expected = self.train("plain", JOB, "--workers", 1)
        self.assertEqual(expected["steps"], 12 * 8)
        for replicas, servers in ((1, 1), (3, 2)):
            name = f"served-{replicas}-{servers}"
            self.same(self.train(name, {**JOB, **SERVED, "parallel.servers": servers}, "--workers", replicas), expected)
            losses = [line["loss"] for _, line in sorted(self.evaluations(name).items())]
            self.assertEqual(len(losses), 12)
            self.assertEqual(losses, sorted(losses, reverse=True), "an accepted point is never worse")
            self.assertLess(losses[-1], 0.5 * losses[0])
            # A portion counts once in every slice, and whoever computed it was told so.
            found = self.assert_proven(name)
            self.assertEqual(found["updates"], 12 * 8 * found["slices"])
            self.assertGreater(found["slices"], 1)
            self.assertGreater(found["commands"], 0)
            self.assertGreaterEqual(found["acknowledged"], 12 * 8)

    def test_workers_of_one_world_share_the_lanes_of_a_portion(self):
        job = {**JOB, "parallel.lanes": 2}
        self.same(self.train("two", job, "--workers", 2), self.train("one", job, "--workers", 1))


class OptimumTest(SandblasterTest):
    def worker_log(self, name):
        return (self.scratch / name / "logs" / "worker-0.log").read_text()

    def test_wherever_it_begins_a_convex_loss_ends_at_its_one_least_value(self):
        ends = [self.train(f"seed-{seed}", {**LOGISTIC, "train.seed": seed}, "--workers", 1) for seed in (1, 2)]
        for seed in (1, 2):
            self.assertIn("converged after", self.worker_log(f"seed-{seed}"))
        self.assertLess(ends[0]["steps"], 300 * 6)
        self.assertAlmostEqual(ends[0]["final_train_loss"], ends[1]["final_train_loss"], delta=1e-6)

    def test_it_is_the_optimum_that_pytorch_finds(self):
        data = "/usr/share/datasets/fashion-mnist"
        if not os.path.isdir(data):
            program.cannot("dataset-fashion-mnist is not installed")
        reference = program.SOURCE / "bench" / "logistic_reference.py"
        done = subprocess.run([sys.executable, str(reference), data, "0.01", "3000"], stdout=subprocess.PIPE, text=True,
                              timeout=120, check=True)
        expected = json.loads(done.stdout)
        images = {key: value for key, value in LOGISTIC.items() if not key.startswith("data.")}
        found = self.train("fashion", {**images, **SERVED, "data.name": "fashion_mnist", "data.train_limit": 3000, "data.test_limit": 100, "data.normalize": False,
                                       "train.batch_size": 500, "train.eps": 0.0001}, "--workers", 2)
        self.assertAlmostEqual(found["final_train_loss"], expected["loss"], delta=1e-6)
        self.assertLess(found["steps"], 300 * 6)  # it converged before: the audit counts what was done
        self.assertEqual(self.assert_proven("fashion")["updates"], found["steps"])  # of one slice


class LossTest(SandblasterTest):
    LONG = {**JOB, **SERVED, "parallel.servers": 2, "data.samples": 700, "train.epochs": 100, "train.eps": 1e-30}

    def assert_lost(self, name, replicas, servers):
        """Those that were killed, and no others."""
        lost = self.events(name, "replica lost")
        self.assertEqual([event["signal"] for event in lost], [signal.SIGKILL] * replicas, lost)
        self.assertEqual(len(self.events(name, "server lost")), servers)


class LostTest(LossTest):
    def test_a_killed_replica_and_a_killed_server_change_nothing(self):
        expected = self.train("undisturbed", {**self.LONG, "parallel.sync": "allreduce", "parallel.mode": "async",
                                              "parallel.servers": 1}, "--workers", 1)
        run = self.start_training("killed", {**self.LONG, "report.interval_seconds": 0.02}, "--workers", 2)
        self.kill("killed", 1, 30)
        os.kill(self.settled_server("killed", 0)["pid"], signal.SIGKILL)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.same(self.summary("killed"), expected)
        self.assert_lost("killed", 1, 1)
        self.assert_proven("killed")


class StoppedTest(LossTest):
    def test_portions_of_a_stopped_replica_are_copied_and_the_run_ends_at_the_same_optimum(self):
        # Eight times, at moments that differ: with portions that it has begun, has not begun, has sent without saying
        # that they are done. It has some nearly always, and no evaluation ends without them.
        job = {**self.LONG, "data.samples": 2500, "train.epochs": 120}
        expected = self.train("undisturbed", job, "--workers", 2, within=200)
        run = self.start_training("stopped", job, "--workers", 2)
        self.wait_until(lambda: {line["replica"] for line in self.updates("stopped")} == {0, 1}, "both compute")
        [slow] = self.given("worker", "--run-dir", str(self.scratch / "stopped" / "replicas" / "1"))
        for _ in range(8):
            os.kill(slow, signal.SIGSTOP)
            try:
                before = len(self.evaluations("stopped"))
                self.wait_until(lambda: len(self.evaluations("stopped")) > before + 1, "the other goes on alone")
            finally:
                os.kill(slow, signal.SIGCONT)
            sent = sum(line["replica"] == 1 for line in self.updates("stopped"))
            self.wait_until(lambda: sum(line["replica"] == 1 for line in self.updates("stopped")) > sent, "it goes on")
        outcome = self.finish(run, 200)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.same(self.summary("stopped"), expected)
        self.assertEqual(self.events("stopped", "replica lost"), [])
        self.assert_proven("stopped")


class PausedTest(LossTest):
    def test_a_paused_replica_holds_nobody_up(self):
        # Two hundred portions to an evaluation: whoever pauses has some.
        run = self.start_training("paused", {**self.LONG, "data.samples": 800, "train.batch_size": 4,
                                             "train.epochs": 10_000, "report.interval_seconds": 0.02}, "--workers", 2)

        def portions(replica):
            return sum(line["replica"] == replica for line in self.updates("paused"))
        self.wait_until(lambda: min(portions(0), portions(1)) > 5, "both compute")
        self.control("pause", "paused", "--worker", 1)
        self.wait_until(lambda: any(worker["replica"] == 1 and worker["state"] == "paused"
                                    for worker in self.status("paused")["workers"]), "it pauses")
        self.wait_until(lambda: any(line.get("left") == 1 for log in self.logs("paused").values() for line in log),
                        "it has left the desk")
        evaluations, before = len(self.evaluations("paused")), portions(1)
        self.wait_until(lambda: len(self.evaluations("paused")) > evaluations + 3, "the other goes on alone")
        self.assertEqual(portions(1), before)
        self.control("resume", "paused", "--worker", 1)
        self.wait_until(lambda: portions(1) > before + 5, "it is back")
        self.control("stop", "paused")
        self.assertEqual(self.finish(run).code, 130)
        self.assertEqual(self.events("paused", "replica lost"), [])


class ManyLostTest(LossTest):
    def test_killed_replicas_and_servers_change_nothing(self):
        job = {**self.LONG, "data.samples": 2500, "train.epochs": 120}
        expected = self.train("undisturbed", job, "--workers", 2, within=200)
        run = self.start_training("killed", {**job, "report.interval_seconds": 0.02}, "--workers", 2)
        self.kill("killed", 1, 30)
        os.kill(self.settled_server("killed", 0)["pid"], signal.SIGKILL)
        self.kill("killed", 0, 120)
        self.wait_until(lambda: len(self.events("killed", "server lost")) == 1, "the supervisor knows of the first")
        os.kill(self.settled_server("killed", 0)["pid"], signal.SIGKILL)
        outcome = self.finish(run, 200)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.same(self.summary("killed"), expected)
        self.assert_lost("killed", 2, 2)
        self.assert_proven("killed")


class RefusalTest(SandblasterTest):
    def refused(self, job, *words):
        (self.scratch / "job.toml").write_text("")
        outcome = self.distbelief("check", self.scratch / "job.toml", *program.settings({"parallel.workers": 1, **job}),
                                  code=2)
        for word in words:
            self.assertIn(word, outcome.err)

    def test_what_has_no_one_loss_is_refused_before_anything_starts(self):
        self.refused({**JOB, "model.dropout": 0.1}, "model.dropout", "same loss")
        self.refused({**JOB, "data.augment": ["flip"]}, "data.augment")
        self.refused({**JOB, "train.clip_norm": 1.0}, "train.clip_norm")
        self.refused({**JOB, "train.max_steps": 7}, "train.max_steps", "train.epochs")
        self.refused({**JOB, "train.target": 0.9}, "train.target")
        self.refused({**JOB, "train.task": "few_labels"}, "train.task")
        self.refused({**JOB, "parallel.threads": 2, "parallel.lanes": 2}, "train.optimizer")
        self.refused({**JOB, **SERVED, "parallel.mode": "async"}, "parallel.mode", "sandblaster")
        self.refused({**JOB, **SERVED, "train.optimizer": "sgd"}, "train.optimizer", "lbfgs")
        self.refused({**JOB, **SERVED, "parallel.fetch_every": 2}, "parallel.fetch_every")
        self.refused({**JOB, **SERVED, "parallel.data": 2, "parallel.lanes": 2}, "parallel.data", "one worker")
        self.refused({**program.RESNET, "train.optimizer": "lbfgs"}, "batch norm")
        self.refused({**JOB, "train.batch_size": 1, "data.samples": 2000}, "portions", "train.batch_size")


if __name__ == "__main__":
    program.main()
