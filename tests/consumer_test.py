"""The installed library in a project of someone else's, and the example of a loop of one's own."""
import os
import pathlib
import re
import subprocess

import program
import read_safetensors
from program import SOURCE

BUILD = os.environ.get("DISTBELIEF_BUILD_DIR", "")
OWN_LOOP = os.environ.get("DISTBELIEF_OWN_LOOP", "")
HOSTS_LOOP = os.environ.get("DISTBELIEF_HOSTS_LOOP", "")
PIPELINE_LOOP = os.environ.get("DISTBELIEF_PIPELINE_LOOP", "")
LINE = re.compile(r"epoch (\d) rank (\d) samples (\d+) loss ([\d.]+) weights (\w+)")


class LibraryTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.environment["OMP_NUM_THREADS"] = "1"

    def under_mpi(self, workers, *command):
        return self.command(*program.mpirun(workers), *command).out


class OutOfTreeTest(LibraryTest):
    def build(self, *targets):
        prefix, folder = self.scratch / "prefix", self.scratch / "build"
        self.command("cmake", "--install", BUILD, "--prefix", prefix)
        self.assert_headers_are_whole(prefix / "include")
        self.command("cmake", "-S", SOURCE / "tests" / "consumer", "-B", folder, "-G", "Ninja",
                     f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=None")
        self.command("cmake", "--build", folder, *(["--target", *targets] if targets else []), within=240)
        return folder

    def assert_headers_are_whole(self, folder):
        """What an installed header includes is installed; none is for tests."""
        headers = sorted(folder.rglob("*.h"))
        self.assertIn(folder / "distbelief" / "distbelief.h", headers)
        for header in headers:
            text = header.read_text()
            for included in re.findall(r'#include "(distbelief/[^"]+)"', text):
                self.assertTrue((folder / included).exists(), f"{header} includes {included}")
            self.assertNotIn("gtest", text, header)
            self.assertNotRegex(header.name, "^test_|fixture", header)

    def libraries(self, executable):
        return subprocess.run(["ldd", executable], capture_output=True, text=True, check=True, timeout=30).stdout


class InstallTest(LibraryTest):
    def test_a_build_of_the_program_alone_can_be_installed(self):
        # quickstart.sh builds the program alone; cmake --install wants each of these libraries.
        wanted = set(re.findall(r'FILES "([^"]+\.a)"', (pathlib.Path(BUILD) / "cmake_install.cmake").read_text()))
        self.assertGreater(len(wanted), 10)
        built = self.command("ninja", "-C", BUILD, "-t", "inputs", "distbelief").out.splitlines()
        self.assertEqual({path for path in wanted if os.path.relpath(path, BUILD) not in built}, set())


class ConsumerTest(OutOfTreeTest):
    def test_an_out_of_tree_project_builds_and_trains(self):
        folder = self.build("consumer")
        consumer = folder / "consumer"
        alone = LINE.findall(self.command(consumer).out)
        self.assertEqual([row[2] for row in alone], ["1001"] * 4)
        self.assertLess(float(alone[-1][3]), 0.5 * float(alone[0][3]), "the loss falls")
        shared = LINE.findall(self.under_mpi(2, consumer))
        self.assertEqual(len(shared), 8)
        for epoch in "0123":
            rows = [row for row in shared if row[0] == epoch]
            self.assertEqual(sum(int(row[2]) for row in rows), 1001, "each sample exactly once")
            self.assertEqual(len({row[4] for row in rows}), 1, "all workers have the same weights")
            mean = sum(int(row[2]) * float(row[3]) for row in rows) / 1001
            self.assertAlmostEqual(mean, float(alone[int(epoch)][3]), delta=1e-3 * float(alone[0][3]))
        self.assertIn("libtorch", self.libraries(consumer))
        self.assertNotIn("jemalloc", self.libraries(consumer), "the library must not bring an allocator along")
        self.assertIn("jemalloc", self.libraries(program.PROGRAM), "our program has its own")
        self.assertNotIn("grpc", self.libraries(consumer), "only distbelief::elastic needs gRPC")
        self.assertLess(len((SOURCE / "tests" / "consumer" / "main.cc").read_text().splitlines()), 41)


class MoreConsumerTest(OutOfTreeTest):
    def test_halves_of_a_world_train_apart(self):
        output = self.under_mpi(4, self.build("split_consumer") / "split_consumer")
        found = re.findall(r"half (\d): worker (\d) of 2, weights (\w+)", output)
        self.assertEqual(sorted(row[:2] for row in found), [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")], output)
        self.assertEqual([len({row[2] for row in found if row[0] == half}) for half in "01"], [1, 1])
        self.assertEqual(len({row[2] for row in found}), 2)
        self.assertEqual(output.count("refused: MPI has been ended"), 4, output)

    def test_elastic_loops_and_own_models(self):
        folder = self.build("elastic_consumer", "program_consumer")
        self.elastic_goes_on(folder / "elastic_consumer")
        self.own_model_trains(folder / "program_consumer")

    def own_model_trains(self, consumer):
        job = {**program.MLP, "model.name": "mine", "model.width": 24, "train.epochs": 4}
        job.pop("model.hidden")
        hashes = set()
        for workers in (1, 2):
            self.command(consumer, "train", *program.settings(job), "--workers", workers, "--run-dir", f"own{workers}")
            hashes.add(self.summary(f"own{workers}")["weights_sha256"])
        self.assertEqual(len(hashes), 1)
        tensors, _ = read_safetensors.read(self.scratch / "own2" / "model.safetensors")
        self.assertEqual(sorted(tensors), ["first.bias", "first.weight", "last.bias", "last.weight", "scale"])
        self.assertEqual(tensors["first.weight"].shape, (24, 64))
        self.assertIn("mine", self.command(consumer, "models").out)
        self.command(consumer, "predict", "own2", "test:0")
        self.assertNotIn("jemalloc", self.libraries(consumer))

    def elastic_goes_on(self, consumer):
        ends = re.compile(r"steps (\d+) to (\d+), weights (\w+)")
        whole = ends.search(self.command(consumer, self.scratch / "whole", 6).out).groups()
        self.assertEqual(whole[:2], ("0", "48"))
        for epochs, begins in ((3, "0"), (6, "24")):
            found = ends.search(self.command(consumer, self.scratch / "halves", epochs).out).groups()
            self.assertEqual(found[0], begins)
        self.assertEqual(found[2], whole[2], "the same bits in one go and in two")


class OwnModelTest(OutOfTreeTest):
    """Long: a network that somebody has written in C++, registered in one line, learns as those of the table do."""

    BASELINE, MARGIN = 0.10, 0.60  # accuracy of the most frequent class, and by how much every seed must beat it
    SHORT = {**{key: value for key, value in program.MLP.items() if key != "model.hidden"}, "model.name": "mine"}
    IMAGES = {"model.name": "mine", "model.width": 64, "data.name": "fashion_mnist", "data.train_limit": 6000,
              "data.test_limit": 2000, "train.epochs": 3, "train.batch_size": 64, "train.optimizer": "adam",
              "train.lr": 0.002}

    def test_same_bits_at_one_to_four_workers_and_held_out_accuracy_on_three_seeds(self):
        self.consumer = self.build("program_consumer") / "program_consumer"
        hashes = {self.trained(f"bits{workers}", self.SHORT, workers)["weights_sha256"] for workers in (1, 2, 3, 4)}
        threaded = {**self.SHORT, "parallel.threads": 2}
        hashes.add(self.trained("threads", threaded, 2)["weights_sha256"])
        self.assertEqual(len(hashes), 1)
        found = [self.trained(f"seed{seed}", {**self.IMAGES, "train.seed": seed}, 2)["test_metrics"]["accuracy"]
                 for seed in (1, 2, 3)]
        print(f"mine: accuracy {', '.join(f'{value:.4f}' for value in found)}; baseline {self.BASELINE}, "
              f"margin {self.MARGIN}", flush=True)
        for value in found:
            self.assertGreater(value, self.BASELINE + self.MARGIN)

    def trained(self, run, job, workers):
        self.command(self.consumer, "train", *program.settings(job), "--workers", workers, "--run-dir", run, within=300)
        return self.summary(run)


class OwnLoopTest(LibraryTest):
    def losses(self, output):
        return [float(value) for value in re.findall(r"epoch \d of 3, mean loss ([\d.]+)", output)]

    def train(self, workers, *arguments):
        """The mean loss of each epoch."""
        command = [OWN_LOOP, *arguments]
        output = self.command(*command).out if workers == 1 else self.under_mpi(workers, *command)
        losses = self.losses(output)
        self.assertEqual(len(losses), 3, output)
        self.assertLess(losses[-1], 0.3, output)
        self.assertLess(losses[-1], losses[0])
        return losses

    def assert_as_alone(self, alone, *arguments):
        for workers in (2, 3):
            for ours, wanted in zip(self.train(workers, *arguments), alone):
                self.assertAlmostEqual(ours, wanted, delta=1e-3)

    def test_alone_and_with_2_and_3_workers(self):
        source = (SOURCE / "examples" / "own_loop.cc").read_text().splitlines()
        self.assertLess(len(source), 80)
        alone = self.train(1)
        self.assertTrue((self.scratch / "own_loop.safetensors").exists())
        self.assert_as_alone(alone)

    def test_with_an_optimizer_of_torchs_own(self):
        self.assert_as_alone(self.train(1, "adam"), "adam")

    def test_it_begins_with_the_weights_of_a_file(self):
        first = self.train(2)
        again = self.losses(self.under_mpi(2, OWN_LOOP, "sgd", self.scratch / "own_loop.safetensors"))
        self.assertLess(again[0], 0.1 * first[0])


class HostsLoopTest(LibraryTest):
    def test_the_communicator_between_backward_and_step_and_layers_that_some_leave_out(self):
        emulated_hosts = SOURCE / "tools" / "emulated_hosts"
        check = self.finish(self.start([emulated_hosts, "check"]))
        if check.code == 77:
            program.cannot((check.out + check.err).strip().replace(program.EXCUSE, ""))
        output = self.command(emulated_hosts, "run", 2, "--", program.MPIEXEC, "--bind-to", "none", "-H", "host0:2,host1:1",
                              HOSTS_LOOP).out
        for algorithm in ("ring", "direct", "central"):
            self.assertIn(f"{algorithm} on 2 hosts: fine", output)


class PipelineLoopTest(LibraryTest):
    def test_a_list_of_modules_in_stages_and_replicas_ends_with_the_bits_of_one_worker(self):
        source = (SOURCE / "examples" / "pipeline_loop.cc").read_text().splitlines()
        self.assertLess(len(source), 80)
        alone = self.command(PIPELINE_LOOP).out
        losses = [float(value) for value in re.findall(r"loss ([\d.]+)", alone)]
        self.assertEqual(len(losses), 3, alone)
        self.assertLess(losses[-1], 0.5 * losses[0])
        tensors, metadata = read_safetensors.read(self.scratch / "pipeline_loop.safetensors")
        self.assertIn("0.weight", tensors)
        self.assertIn("1.running_mean", metadata["buffers"])
        for workers, stages in ((2, 2), (3, 3), (4, 2)):
            self.assertEqual(self.under_mpi(workers, PIPELINE_LOOP, stages), alone, (workers, stages))


if __name__ == "__main__":
    program.main()
