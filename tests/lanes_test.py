"""One job and seed give the same bits however many workers, threads and hosts carry its lanes."""
import gzip
import shutil
import struct

import numpy

import program
import read_safetensors
from program import GPT, MLP, PROGRAM, RESNET, SOURCE, settings

AUGMENTED_RESNET = {**RESNET, "data.augment": ["pad_crop", "flip"], "data.pad": 2, "train.momentum": 0.9,
                    "train.weight_decay": 5e-4}
NOISY_GPT = {**GPT, "model.dropout": 0.1, "train.optimizer": "lamb", "train.clip_norm": 0.5}
ADAMW_MLP = {**MLP, "train.optimizer": "adamw", "train.lr": 0.001, "train.weight_decay": 0.01}


class LanesTest(program.ProgramTest):
    def sha(self, job, workers, **changes):
        job = {**job, **{key.replace("__", "."): value for key, value in changes.items()}}
        self.runs = getattr(self, "runs", 0) + 1
        summary = self.train(f"run{self.runs}", job, "--workers", workers, "--progress", "none")
        self.assertEqual(summary["workers"], workers)
        self.assertTrue(summary["reproducible"])
        return summary["weights_sha256"]

    def assert_same_for_workers(self, job, workers):
        reference = self.sha(job, workers[0])
        for number in workers[1:]:
            self.assertEqual(self.sha(job, number), reference, f"{number} workers")
        return reference


class WorkersTest(LanesTest):
    # 19 samples in batches of 8: the last batch has 3 for 4 lanes, so one lane is empty.
    def test_resnet18_with_augmentation_and_an_empty_lane(self):
        self.assert_same_for_workers(AUGMENTED_RESNET, (1, 2, 3, 4))

    def test_resnet18_with_8_lanes_on_3_workers(self):
        self.assert_same_for_workers({**AUGMENTED_RESNET, "parallel.lanes": 8}, (2, 3))

    def test_gpt_with_dropout_clipping_and_lamb(self):
        self.assert_same_for_workers(NOISY_GPT, (1, 2, 3, 4))

    def test_fewer_samples_than_lanes_in_the_only_batch(self):
        self.assert_same_for_workers({**MLP, "data.samples": 3, "train.batch_size": 4}, (1, 2, 4))


class MoreWorkersTest(LanesTest):
    def test_augmentation_dropout_and_clipping_have_an_effect(self):
        self.assertNotEqual(self.sha(AUGMENTED_RESNET, 1), self.sha(AUGMENTED_RESNET, 1, data__augment=[]))
        hashes = {self.sha(NOISY_GPT, 1), self.sha(NOISY_GPT, 1, model__dropout=0.0),
                  self.sha(NOISY_GPT, 1, train__clip_norm=0.0)}
        self.assertEqual(len(hashes), 3)

    def test_resnet18_for_longer_with_weight_decay_and_nesterov(self):
        job = {**AUGMENTED_RESNET, "train.nesterov": True, "train.epochs": 6}
        self.assert_same_for_workers(job, (1, 2, 3, 4))

    def test_every_optimizer(self):
        for optimizer in ("sgd", "adam", "adamw", "adagrad", "lars", "lamb"):
            with self.subTest(optimizer=optimizer):
                self.assert_same_for_workers({**MLP, "train.optimizer": optimizer, "train.lr": 0.01}, (1, 3))

    def test_more_workers_than_cores(self):
        self.assert_same_for_workers({**NOISY_GPT, "parallel.lanes": 8}, (2, 8))

    def test_gpt_with_8_lanes_on_3_workers(self):
        self.assert_same_for_workers({**NOISY_GPT, "parallel.lanes": 8}, (1, 3))

    def test_mlp_with_adamw(self):
        reference = self.assert_same_for_workers(ADAMW_MLP, (1, 2, 3, 4))
        self.assertNotEqual(self.sha(ADAMW_MLP, 2, train__seed=2), reference, "the seed has no effect")
        self.assertNotEqual(self.sha(ADAMW_MLP, 2, parallel__lanes=2), reference, "lanes define the arithmetic")


class OverlapTest(LanesTest):
    def test_update_reduce_off_and_check_agree(self):
        job = {**AUGMENTED_RESNET, "parallel.bucket_mb": 1, "train.epochs": 1}
        reference = self.sha(job, 2, parallel__overlap="update")
        for overlap in ("reduce", "off", "check"):
            self.assertEqual(self.sha(job, 2, parallel__overlap=overlap), reference, overlap)

    def test_the_size_of_buckets_does_not_matter(self):
        reference = self.sha(ADAMW_MLP, 2)
        self.assertEqual(self.sha(ADAMW_MLP, 2, parallel__bucket_mb=0.001), reference)


class ThreadsTest(LanesTest):
    def assert_same_on_threads(self, *layouts):
        job = {**AUGMENTED_RESNET, "train.epochs": 1}
        reference = self.sha(job, 1)
        for workers, threads in layouts:
            self.assertEqual(self.sha(job, workers, parallel__threads=threads), reference, f"{workers} x {threads}")

    def test_resnet18_with_2_and_3_threads(self):
        self.assert_same_on_threads((1, 3), (2, 2))  # of 4 lanes: one of three threads has two

    def test_resnet18_with_more_of_them(self):
        self.assert_same_on_threads((1, 2), (1, 4))

    def test_gpt_with_dropout_on_threads(self):
        reference = self.sha(NOISY_GPT, 1)
        for workers, threads in ((1, 2), (1, 4), (2, 2)):
            self.assertEqual(self.sha(NOISY_GPT, workers, parallel__threads=threads), reference, f"{workers} x {threads}")


class AccumulationTest(LanesTest):
    def test_two_micro_batches_equal_twice_the_lanes(self):
        reference = self.sha(ADAMW_MLP, 2, parallel__lanes=4)
        self.assertEqual(self.sha(ADAMW_MLP, 2, parallel__lanes=2, train__accumulate=2), reference)


class UpdateByHandTest(LanesTest):
    """theta' = theta - eta / m * sum of g_i, for a softmax of one layer and a batch of m = 7."""

    def setUp(self):
        super().setUp()
        self.images = numpy.random.default_rng(1).integers(0, 256, (7, 8, 8), dtype=numpy.uint8)
        self.labels = numpy.array([3, 1, 4, 1, 5, 9, 2], dtype=numpy.uint8)
        self.folder = self.scratch / "idx"
        self.folder.mkdir()
        for part in ("train", "t10k"):
            images = struct.pack(">4B3i", 0, 0, 8, 3, *self.images.shape) + self.images.tobytes()
            labels = struct.pack(">4Bi", 0, 0, 8, 1, len(self.labels)) + self.labels.tobytes()
            (self.folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
            (self.folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))

    def weights(self, name, workers, lanes, lr):
        job = {"model.name": "mlp", "model.hidden": [], "data.name": "mnist", "data.path": str(self.folder),
               "train.batch_size": 7, "train.epochs": 1, "train.optimizer": "sgd", "train.momentum": 0.0,
               "train.weight_decay": 0.0, "train.lr": lr, "train.schedule": "constant", "parallel.lanes": lanes}
        self.assertEqual(self.train(name, job, "--workers", workers)["steps"], 1)
        tensors, _ = read_safetensors.read(self.scratch / name / "model.safetensors")
        return [tensors[f"layers.fc1.{kind}"].astype(float) for kind in ("weight", "bias")]

    def test_lanes_of_3_2_and_2_samples_and_one_of_7(self):
        weight, bias = self.weights("initial", 1, 1, 1e-60)  # 0 in single precision
        x = (self.images.reshape(7, 64) / 255 - 0.1307) / 0.3081
        error = numpy.exp(x @ weight.T + bias)
        error /= error.sum(1, keepdims=True)
        error[range(7), self.labels] -= 1
        wanted = weight - 0.5 / 7 * error.T @ x, bias - 0.5 / 7 * error.sum(0)
        self.assertGreater(abs(wanted[0] - weight).max(), 0.1)
        for workers, lanes in ((1, 1), (2, 3), (3, 3)):
            for found, by_hand in zip(self.weights(f"run{workers}{lanes}", workers, lanes, 0.5), wanted):
                self.assertLess(abs(found - by_hand).max(), 1e-6, f"{lanes} lanes on {workers} workers")


class OnHostsTest(LanesTest):
    """Two emulated hosts: network, UTS and mount namespaces on one machine."""

    emulated_hosts = SOURCE / "tools" / "emulated_hosts"

    def setUp(self):
        super().setUp()
        if not program.OPEN_MPI:
            program.cannot("emulated hosts are for Open MPI")
        check = self.finish(self.start([self.emulated_hosts, "check"]))
        if check.code == 77:
            program.cannot((check.out + check.err).strip().replace(program.EXCUSE, ""))
        self.assertEqual(check.code, 0, check.err)

    def train_on_hosts(self, name, hosts, job, *arguments, code=0):
        outcome = self.command(self.emulated_hosts, "run", hosts.count(",") + 1, "--", PROGRAM, "train", "--run-dir",
                               self.scratch / name, "--hosts", hosts, "--progress", "none", *settings(job), *arguments,
                               code=code)
        return self.summary(name) if code == 0 else outcome

    def assert_as_on_one_host(self, job, layouts):
        reference = self.sha(job, 2)
        for index, (hosts, algorithm) in enumerate(layouts):
            with self.subTest(hosts=hosts, algorithm=algorithm):
                summary = self.train_on_hosts(f"hosts{index}", hosts, {**job, "parallel.algorithm": algorithm})
                self.assertEqual(summary["weights_sha256"], reference)
                self.assertEqual(summary["algorithm"], algorithm)
                self.assertTrue(summary["reproducible"])
                self.assertEqual({worker["host"] for worker in summary["per_worker"]}, {"host0", "host1"})


class HostsTest(OnHostsTest):
    RESNET = {**AUGMENTED_RESNET, "train.epochs": 1}

    def test_resnet18_two_level_and_direct(self):
        self.assert_as_on_one_host(self.RESNET, (("host0:2,host1:2", "two_level"), ("host0:1,host1:2", "direct")))

    def test_resnet18_central(self):
        self.assert_as_on_one_host(self.RESNET, (("host0:2,host1:1", "central"),))

    def test_ring_trains_and_is_marked(self):
        job = {**MLP, "parallel.algorithm": "ring"}
        summary = self.train_on_hosts("ring", "host0:2,host1:2", {**job, "train.reproducible": False})
        self.assertFalse(summary["reproducible"])
        self.assertIn("ring", summary["reproducible_note"])
        self.assertEqual(summary["steps"], 8)
        refused = self.train_on_hosts("refused", "host0:2,host1:2", {**job, "train.reproducible": True}, code=2)
        self.assertIn("ring", refused.err)
        self.assertIn("train.reproducible", refused.err)
        self.assertFalse((self.scratch / "refused").exists())


class MoreHostsTest(OnHostsTest):
    def test_stages_of_a_pipeline_on_two_hosts(self):
        job = {**NOISY_GPT, "model.tied": True, "checkpoint.every_steps": 2}
        reference = self.sha(job, 1)
        for hosts, pipeline in (("host0:1,host1:1", 2), ("host0:2,host1:2", 2), ("host0:2,host1:2", 4)):
            with self.subTest(hosts=hosts, pipeline=pipeline):
                summary = self.train_on_hosts(f"stages{hosts[6]}{pipeline}", hosts, {**job, "parallel.pipeline": pipeline})
                self.assertEqual(summary["weights_sha256"], reference)
                self.assertEqual(summary["pipeline"], pipeline)

    def test_slices_of_layers_on_two_hosts(self):
        reference = self.sha(NOISY_GPT, 2, parallel__tensor=2)
        for hosts in ("host0:1,host1:1", "host0:2,host1:2"):  # one group over both hosts, a group on each
            summary = self.train_on_hosts(f"slices{hosts[6]}", hosts, {**NOISY_GPT, "parallel.tensor": 2})
            self.assertEqual(summary["weights_sha256"], reference)
            self.assertEqual(summary["tensor"], 2)

    # In the hosts' given order both groups would lie on two hosts.
    def test_a_tensor_group_is_placed_on_the_host_that_has_room_for_it(self):
        summary = self.train_on_hosts("placed", "host0:1,host1:2,host2:1", {**NOISY_GPT, "parallel.tensor": 2})
        self.assertEqual([worker["host"] for worker in summary["per_worker"]], ["host1", "host1", "host0", "host2"])
        self.assertEqual(summary["weights_sha256"], self.sha(NOISY_GPT, 2, parallel__tensor=2))

    def test_a_host_whose_parameters_drifted_is_named(self):
        job = {**MLP, "train.verify_every": 2, "elastic.restarts": 0}
        self.assertEqual(self.train_on_hosts("fine", "host0:1,host1:2", job)["steps"], 8)
        failed = self.train_on_hosts("three", "host0:1,host1:2,host2:1", job, "--inject", "drift:rank=2,step=4", code=1)
        self.assertIn("the parameters of host host1 (workers 1, 2) differ from those of all others", failed.err)
        self.assertIn("[step 4]", failed.err)
        failed = self.train_on_hosts("two", "host0:1,host1:1", job, "--inject", "drift:rank=1,step=4", code=1)
        self.assertIn("host host0 (workers 0) and host host1 (workers 1) differ, and no majority", failed.err)

    def test_gpt_with_lamb_direct_and_central(self):
        self.assert_as_on_one_host(NOISY_GPT, (("host0:2,host1:2", "direct"), ("host0:1,host1:2", "central")))

    def test_checkpoints_move_between_one_host_and_two(self):
        job = {**ADAMW_MLP, "checkpoint.every_steps": 3, "checkpoint.every_epochs": 0, "checkpoint.keep": 9}
        reference = self.train_on_hosts("run", "host0:1,host1:2", job)["weights_sha256"]
        resume = [PROGRAM, "resume", self.scratch / "run"]
        for command in ([*resume, "--workers", 3],
                        [self.emulated_hosts, "run", 2, "--", *resume, "--hosts", "host0:2,host1:2"]):
            for step in (4, 6, 8):
                shutil.rmtree(self.scratch / "run" / "checkpoints" / f"step-{step:08}", ignore_errors=True)
            self.command(*command)
            self.assertEqual(self.summary("run")["weights_sha256"], reference)
        steps = [event["step"] for event in program.lines_of(self.scratch / "run" / "events.jsonl")
                 if event["event"] == "resumed"]
        self.assertEqual(steps, [3, 3])


if __name__ == "__main__":
    program.main()
