"""What a run leaves for people and programs to read, and what it shows while it goes on."""
import json
import os
import re
import subprocess
import sys
import tomllib

import program
from program import ENDLESS, MLP, PROGRAM, RESNET, settings

SUMMARY_KEYS = {"steps", "epochs", "samples", "final_train_loss", "test_accuracy", "samples_per_second",
                "wall_seconds", "workers", "lanes", "parameters", "weights_sha256", "generations", "recoveries",
                "peak_rss_bytes", "per_worker", "status", "reproducible", "isa", "libtorch_version",
                "hidden_exchange_share", "phase_seconds"}
WORKER_KEYS = {"pid", "host", "lanes", "parameters", "bytes_held"}
PHASES = {"data", "forward", "backward", "exchange", "update"}


class OutputsTest(program.ProgramTest):
    def json(self, *arguments, **options):
        return json.loads(self.distbelief(*arguments, "--json", **options).out)


class RunFolderTest(OutputsTest):
    def setUp(self):
        super().setUp()
        self.result = self.train("run", {**MLP, "model.hidden": [64, 64]}, "--workers", 2)
        self.run_dir = self.scratch / "run"

    def test_contents(self):
        self.assert_files()
        self.assert_metrics()
        self.assert_summary()
        self.assert_model_file()
        self.assert_eval()

    def assert_files(self):
        names = {path.name for path in self.run_dir.iterdir()}
        self.assertLessEqual({"job.toml", "metrics.jsonl", "events.jsonl", "checkpoints", "logs", "model.safetensors",
                              "summary.json", "report.html", "predictions.json"}, names)
        self.assertEqual({path.name for path in (self.run_dir / "logs").iterdir()}, {"worker-0.log", "worker-1.log"})
        self.assertTrue(all(path.read_text() for path in (self.run_dir / "logs").iterdir()))
        self.distbelief("check", self.run_dir / "job.toml")  # the resolved job is a job file
        kinds = [event["event"] for event in program.lines_of(self.run_dir / "events.jsonl")]
        self.assertEqual([kind for kind in kinds if kind != "checkpoint"],
                         ["generation", "started", "finished", "ended"])
        self.assertIn("checkpoint", kinds)

    def assert_metrics(self):
        lines = program.lines_of(self.run_dir / "metrics.jsonl")
        steps = [line for line in lines if "loss" in line]
        self.assertEqual([line["step"] for line in steps], list(range(1, 9)))
        for line in steps:
            self.assertLessEqual({"epoch", "lr", "samples", "samples_per_second", "seconds", "phase_seconds"}, set(line))
            self.assertLessEqual(PHASES, set(line["phase_seconds"]))
        validations = [line for line in lines if "test_accuracy" in line]
        self.assertEqual([line["step"] for line in validations], [4, 8])
        self.assertEqual(validations[-1]["test_accuracy"], self.result["test_accuracy"])

    def assert_summary(self):
        result = self.result
        self.assertLessEqual(SUMMARY_KEYS, set(result))
        self.assertLessEqual(PHASES, set(result["phase_seconds"]))
        expected = {"status": "done", "steps": 8, "epochs": 2, "samples": 128, "workers": 2, "lanes": 4,
                    "generations": 1, "recoveries": 0, "reproducible": True,
                    "parameters": 64 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10}
        self.assertEqual({key: result[key] for key in expected}, expected)
        workers = result["per_worker"]
        self.assertTrue(all(WORKER_KEYS <= set(worker) for worker in workers))
        self.assertEqual(len({worker["pid"] for worker in workers}), 2)
        self.assertEqual([lane for worker in workers for lane in worker["lanes"]], [0, 1, 2, 3])
        self.assertEqual({worker["host"] for worker in workers}, {os.uname().nodename})
        self.assertEqual(sum(worker["parameters"] for worker in workers), result["parameters"])
        for worker in workers:  # at least its gradients and its half of parameters and momentum
            self.assertGreaterEqual(worker["bytes_held"], 4 * (result["parameters"] + worker["parameters"]))

    def assert_model_file(self):
        reader = program.SOURCE / "tests" / "read_safetensors.py"
        shown = self.command(sys.executable, reader, self.run_dir / "model.safetensors").out
        self.assertIn(f"weights_sha256 {self.result['weights_sha256']}", shown)
        self.assertRegex(shown, r"layers\.fc1\.weight float32 \[64, 64\]")

    def assert_eval(self):
        answer = self.json("eval", self.run_dir)
        self.assertEqual(answer["weights_sha256"], self.result["weights_sha256"])
        self.assertAlmostEqual(answer["test_accuracy"], self.result["test_accuracy"], 9)
        self.assertAlmostEqual(answer["test_loss"], self.result["test_loss"], 5)


class JsonTest(OutputsTest):
    def test_check_models_and_datasets(self):
        self.assertEqual(self.json("check", *settings(MLP), "--workers", 2)["steps"], 8)
        listed = self.json("models")
        jobs = (tomllib.loads(path.read_text()) for path in (program.SOURCE / "examples" / "jobs").glob("*.toml"))
        without_job = {f"resnet{depth}" for depth in (18, 34, 50, 101, 152)}
        self.assertEqual({entry["name"] for entry in listed}, {job["model"]["name"] for job in jobs} | without_job)
        for entry in listed:
            self.assertTrue(entry["description"], entry)
        sets = self.json("datasets")
        self.assertLessEqual({"mnist", "fashion_mnist", "synthetic"}, {entry["name"] for entry in sets})
        self.assertEqual(len({entry["description"] for entry in sets}), len(sets))
        self.assertEqual([entry["name"] for entry in self.json("datasets", "cifar100")], ["cifar100"])
        self.assertIn("labels", self.distbelief("datasets", "cifar100").out)
        self.assertIn("did you mean 'cifar100'", self.distbelief("datasets", "cifar1000", code=2).err)

    def test_the_example_jobs_are_sound(self):
        jobs = sorted((program.SOURCE / "examples" / "jobs").glob("*.toml"))
        self.assertGreaterEqual(len(jobs), 2)
        examples = program.SOURCE / "examples" / "data"
        self.command(examples / "draw_shapes", "shapes")
        images = {"data.name": "synthetic", "data.height": 28, "data.width": 28}  # in place of files that may be elsewhere
        text = {"data.path": "/usr/share/common-licenses/GPL-3"}
        risk, rents = ({"data.path": str(examples / name)} for name in ("risk.csv", "rents.csv"))
        own = {"csv_mlp.toml": risk, "csv_classes_wide_and_deep.toml": risk, "csv_values_wide_and_deep.toml": rents,
               "shakespeare_gpt.toml": text, "words.toml": text}
        for job in jobs:
            if job.name == "torchscript.toml":
                continue  # its network comes from Python: use_test.py
            usual = images if re.search(r'name = "(fashion_)?mnist"', job.read_text()) else {}
            self.assertGreater(self.json("check", job, *settings(own.get(job.name, usual)))["steps"], 0, job)

    def test_reference_models_have_the_documented_parameters(self):
        for arguments, parameters in ((["mlp"], 101_770), (["mlp", "--set", "model.hidden=[2048,2048,2048,2048]"], 14_217_226),
                                      (["cnn"], 421_642), (["gpt"], 3_323_392),
                                      (["resnet18", "--input", "3,32,32", "--classes", "10"], 11_173_962)):
            answer = self.json("models", *arguments)
            self.assertEqual(answer["parameters"], parameters, arguments)
            self.assertEqual(sum(layer["parameters"] for layer in answer["layers"]), parameters)

    def test_every_model_is_described(self):
        for entry in self.json("models"):
            if entry["name"].startswith("resnet"):
                continue  # large, and described below
            self.assertTrue(self.json("models", entry["name"])["model"], entry)
        self.assertIn("distbelief models torchscript --set model.file=", self.distbelief("models", "torchscript").out)

    def test_a_deep_model_is_described_layer_by_layer(self):
        shown = self.distbelief("models", "resnet152").out
        self.assertGreater(len(shown.splitlines()), 150)
        for word in ("parameters", "activation"):
            self.assertIn(word, shown.lower())

    def test_help_of_every_command_has_an_example(self):
        commands = [[]]
        for command in commands:  # grows with those that a command has
            shown = self.distbelief(*command, "--help").out
            self.assertRegex(shown, r"Examples?:\n  \S", command)
            groups = "Subcommands" if command else "Start|Use|While it trains|Expert"
            for below in re.findall(rf"(?ms)^(?:{groups}):\n(.*?)(?=^\S|\Z)", shown):
                commands += [[*command, name] for name in re.findall(r"(?m)^  (\S+)", below)]
        self.assertGreater(len(commands), 30)


class BenchTest(OutputsTest):
    def test_step(self):
        answer = self.json("bench", "step", "--model", "mlp", "--batch", 8, "--workers", 2, "--steps", 5,
                           "--set", "model.hidden=[32]")
        self.assertEqual(answer["parameters"], 784 * 32 + 32 + 32 * 10 + 10)
        for key in ("step_seconds_median", "peak_rss_bytes", "peak_pss_bytes"):
            self.assertGreater(answer[key], 0, key)
        # Libraries and the window are counted once, not once a worker.
        self.assertLess(answer["peak_pss_bytes"], 0.75 * answer["peak_rss_bytes"])

    def test_what_it_would_not_do_is_refused(self):
        for setting in ("parallel.pipeline=2", "parallel.tensor=2", "parallel.sync=parameter_server", "parallel.mesh=auto"):
            refused = self.distbelief("bench", "step", "--model", "mlp", "--steps", 5, "--set", setting, code=2)
            self.assertIn(setting.split("=")[0], refused.err)

    def test_what_contradicts_or_does_not_fit_is_refused(self):
        for what, complaint in ((["step", "--model", "mlp", "--set", "model.name=cnn"], "--model says 'mlp'"),
                                (["allreduce", "--sizes", "4098"], "4098"),
                                (["allreduce", "--sizes", "0"], "0")):
            self.assertIn(complaint, self.distbelief("bench", *what, code=2).err)

    def test_one_client_of_two_servers_shares_the_array_out_by_their_map(self):
        targets = ",".join(f"unix:{self.scratch / name}" for name in "ab")
        with subprocess.Popen([PROGRAM, "bench", "exchange", "--listen", targets, "--map", targets, "--logs", "logs"],
                              cwd=self.scratch, env=self.environment, stdout=subprocess.PIPE, text=True) as servers:
            self.assertEqual([servers.stdout.readline().strip() for _ in range(2)], targets.split(","))
            rows = self.json("bench", "exchange", "--connect", targets, "--floats", 4 * 262144, "--repeats", 1)
            servers.terminate()
        self.assertEqual([row["operation"] for row in rows], ["push", "pull"])
        logs = [program.lines_of(self.scratch / "logs" / f"0-server{number}.jsonl") for number in range(2)]
        self.assertEqual([{line["slice"] for line in log if "ticket" in line} for log in logs], [{0, 2}, {1, 3}])
        elsewhere = self.distbelief("bench", "exchange", "--listen", "unix:c", "--map", targets, code=2)
        self.assertIn("unix:c", elsewhere.err)

    def test_allreduce(self):
        rows = self.json("bench", "allreduce", "--workers", 2, "--sizes", "65536,1048576", "--repeats", 3)
        self.assertEqual([row["bytes"] for row in rows], [65536, 1048576])
        for row in rows:
            for key in ("seconds_median", "mpi_seconds_median", "memcpy_seconds_median", "in_place_seconds_median"):
                self.assertGreater(row[key], 0, key)


class ProgressTest(OutputsTest):
    job = {**MLP, "data.samples": 65536, "train.epochs": 3}  # 4096 steps an epoch

    def test_a_bar_on_a_terminal(self):
        shown = self.shown_on_terminal("train", "--run-dir", "run", *settings(self.job), LC_ALL="C")
        self.assertIn("\r", shown.replace("\r\n", "\n"))
        self.assertRegex(shown, r"\[=+")
        self.assertRegex(shown, r"epoch \d/3 \[[=> ]+\] step \d+/12288  loss \d\S*  (test \S+%  )?"
                                r"[\d.]+k? samples/s  \d+:\d\d left")
        self.assertIn("run folder: run", shown)
        lines = shown.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.assertLessEqual(max(len(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)) for line in lines), 100)

    def test_plain_lines_on_a_pipe(self):
        shown = self.distbelief("train", "--run-dir", "run", *settings(self.job)).out
        self.assertNotIn("\r", shown)
        self.assertNotIn("\x1b", shown)
        self.assertRegex(shown, r"(?m)^epoch 3/3 .*step 12288/12288 .*loss .*test .*samples/s")
        self.assertEqual(shown.splitlines()[-1], "run folder: run")


class TraceTest(OutputsTest):
    def test_buckets_are_exchanged_while_backward_runs(self):
        job = {**RESNET, "parallel.bucket_mb": 1, "parallel.lanes": 2, "train.epochs": 1}
        summary = self.train("run", job, "--workers", 2, "--trace", "trace.json")
        events = json.loads((self.scratch / "trace.json").read_text())["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({span["pid"] for span in spans}, {0, 1})
        for rank in (0, 1):
            of = lambda name: [span for span in spans if span["pid"] == rank and span["name"].startswith(name)]
            self.assertEqual((len(of("forward")), len(of("backward"))), (3, 3))
            buckets = [span for span in spans if span["pid"] == rank and " bucket " in span["name"]]
            self.assertGreater(len({span["name"] for span in buckets}), 5)
            hidden = [span for span in buckets for backward in of("backward")
                      if backward["ts"] < span["ts"] < backward["ts"] + backward["dur"]]
            self.assertTrue(hidden, f"worker {rank}: no bucket was exchanged during backward")
        self.assertGreater(summary["hidden_exchange_share"], 0)

    def test_one_that_cannot_be_written_loses_nothing_else(self):
        (self.scratch / "traces").mkdir()
        child = self.start_training("run", ENDLESS, "--trace", "traces/trace.json")
        (self.scratch / "traces").rmdir()
        self.control("stop", "run")
        outcome = self.finish(child, 30)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertRegex(outcome.err, "the run is whole, but its trace is not there: .*traces/trace.json")
        self.assertEqual(self.summary("run")["status"], "interrupted")
        self.assertTrue((self.scratch / "run" / "model.safetensors").exists())


class LauncherTest(OutputsTest):
    def test_under_mpirun_each_process_is_a_worker(self):
        self.command(*program.mpirun(2), PROGRAM, "train", "--run-dir", self.scratch / "mpirun", *settings(MLP))
        summary = self.summary("mpirun")
        self.assertEqual(summary["workers"], 2)
        self.assertEqual(summary["weights_sha256"], self.train("own", MLP, "--workers", 3)["weights_sha256"])

    def test_under_mpirun_the_first_worker_names_the_run_folder(self):
        shown = self.command(*program.mpirun(2), PROGRAM, "train", *settings(MLP))
        found = list((self.scratch / "runs").iterdir())
        self.assertEqual(len(found), 1)
        self.assertIn(f"runs/{found[0].name}", shown.out + shown.err)
        self.assertEqual(json.loads((found[0] / "summary.json").read_text())["workers"], 2)
        self.assertTrue((found[0] / "logs" / "worker-1.log").exists())


if __name__ == "__main__":
    program.main()
