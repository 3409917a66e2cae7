"""Decomposed models: replicas train sub-networks apart and hand their outputs on through the servers; each piece of work
counts once in every sub-network, whatever is killed, and one whole model comes of it."""
import json
import signal

import program
import read_safetensors
import servers_test
from program import MLP, RESNET

JOB = {**MLP, "model.hidden": [64, 48, 32], "data.samples": 128, "parallel.sync": "parameter_server",
       "parallel.mode": "decomposed", "parallel.lanes": 1, "train.epochs": 20, "train.lr": 0.05}
LONG = {**JOB, "parallel.servers": 2, "train.epochs": 200, "train.validate_every": 0, "checkpoint.every_epochs": 0,
        "report.interval_seconds": 0.02}


class DecomposedTest(servers_test.ServersTest):
    def logs_of(self, name, sub_network):
        return [line for path in (self.scratch / name / "servers").glob(f"*-server*-sub{sub_network}.jsonl")
                for line in program.lines_of(path)]

    def assert_each_ticket_once(self, name, tickets, sub_networks=2):
        """In every slice of every sub-network; all servers agree."""
        slices = sum(len({line["slice"] for line in self.logs_of(name, index) if "slice" in line})
                     for index in range(sub_networks))
        self.assertGreaterEqual(slices, sub_networks)
        self.assertEqual(self.assert_proven(name)["updates"], tickets * slices)

    def evaluated(self, name, *arguments):
        return json.loads(self.distbelief("eval", self.scratch / name, "--json", *arguments).out)


class WholeTest(DecomposedTest):
    def test_sub_networks_become_one_model_with_the_same_bits_every_time(self):
        expected = self.train("first", JOB, "--workers", 2)
        self.assertEqual((expected["status"], expected["steps"], expected["samples"]), ("done", 160, 20 * 128))
        self.assert_each_ticket_once("first", 160)
        # The sub-network's own replica alone made its updates.
        for index in (0, 1):
            self.assertEqual({line["replica"] for line in self.logs_of("first", index) if "ticket" in line}, {index})
        found = self.evaluated("first")
        self.assertEqual(found["test_accuracy"], expected["test_accuracy"])
        self.assertGreater(found["test_accuracy"], 0.3, "three times as many as by chance")
        self.assertEqual(self.evaluated("first", "--best")["test_accuracy"], expected["best_test_accuracy"])
        # It held its sub-network only.
        log = (self.scratch / "first" / "replicas" / "1" / "logs" / "worker-0.log").read_text()
        held = int(log.split("sub-network 1 of 2: blocks ")[1].split(", ")[1].split(" ")[0])
        self.assertEqual(held, 48 * 32 + 32 + 32 * 10 + 10)
        self.assertLess(held, expected["parameters"] / 2)
        # One replica to a sub-network: nothing depends on who is faster, where things are kept or how many may wait.
        other = self.train("other", {**JOB, "parallel.window": 1, "parallel.servers": 2}, "--workers", 2)
        self.assertEqual(other["weights_sha256"], expected["weights_sha256"])

    def test_several_replicas_share_a_sub_network(self):
        summary = self.train("run", {**JOB, "parallel.sub_networks": 3, "parallel.cuts": [1, 2]}, "--workers", 4)
        self.assertEqual((summary["steps"], summary["cuts"]), (160, [1, 2]))
        self.assert_each_ticket_once("run", 160, 3)
        self.assertEqual({line["replica"] for line in self.logs_of("run", 0) if "ticket" in line}, {0, 3})


    def test_running_statistics_come_into_the_whole_model(self):
        job = {**RESNET, **{key: value for key, value in JOB.items() if key.startswith("parallel.")},
               "parallel.sub_networks": 2, "parallel.cuts": [3]}
        summary = self.train("run", job, "--workers", 2)
        found = self.evaluated("run")
        self.assertEqual((found["test_loss"], found["test_accuracy"]), (summary["test_loss"], summary["test_accuracy"]))
        tensors, _ = read_safetensors.read(self.scratch / "run" / "model.safetensors")
        counts = {name: value for name, value in tensors.items() if name.endswith("num_batches_tracked")}
        self.assertGreater(len(counts), 10)
        self.assertEqual({int(value) for value in counts.values()}, {summary["steps"]})


class LostTest(DecomposedTest):
    def test_killed_replicas_and_a_killed_server_lose_nothing(self):
        run = self.start_training("killed", LONG, "--workers", 2)
        at = self.kill("killed", 1, 20)
        self.kill("killed", 0, at + 20)
        self.strike_server("killed", 0)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertEqual(self.summary("killed")["steps"], 1600)
        self.assert_each_ticket_once("killed", 1600)
        self.assertEqual([event["signal"] for event in self.events("killed", "replica lost")], [signal.SIGKILL] * 2)
        self.assertEqual(len(self.events("killed", "server lost")), 1)

    def test_a_run_that_is_stopped_saves_all_of_the_model_and_goes_on_from_it(self):
        job = {**LONG, "parallel.servers": 1, "train.epochs": 10_000_000, "train.schedule": "constant"}
        run = self.start_training("stopped", job, "--workers", 2)
        self.wait_until(lambda: len(self.logs_of("stopped", 1)) > 100, "updates of the second sub-network")
        self.assertIn("for the run's whole life", self.control("scale", "stopped", 3, code=2))
        self.control("stop", "stopped")
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 130, outcome.err)
        learnt = self.evaluated("stopped")["test_accuracy"]
        self.assertGreater(learnt, 0.3)
        # At a rate at which nothing is learnt any more.
        self.distbelief("resume", "stopped", *program.settings({"train.max_steps": 20, "train.epochs": 0,
                                                                "train.lr": 1e-9}))
        self.assertAlmostEqual(self.evaluated("stopped")["test_accuracy"], learnt, delta=1e-6)


class RefusalTest(DecomposedTest):
    def refused(self, changes, *words):
        (self.scratch / "job.toml").write_text("")
        job = {key: value for key, value in {**JOB, "parallel.workers": 2, **changes}.items() if value is not None}
        outcome = self.distbelief("check", self.scratch / "job.toml", *program.settings(job), code=2)
        for word in words:
            self.assertIn(word, outcome.err)

    def test_what_cannot_be_decomposed_is_refused_before_anything_starts(self):
        self.refused({"parallel.sub_networks": 3}, "each of 3 sub-networks wants a replica", "found 2")
        self.refused({"parallel.sub_networks": 5, "parallel.workers": 5}, "4 at most")
        self.refused({"model.name": "autoencoder", "model.hidden": None}, "the task classification", "autoencoder")


if __name__ == "__main__":
    program.main()
