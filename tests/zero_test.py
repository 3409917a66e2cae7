"""What workers share out (parallel.zero) leaves the bits of a run alone, and each worker holds what its level says."""
import shutil

import program
import read_safetensors
from program import GPT, MLP, PROGRAM, RESNET, SOURCE, settings

DEEP_MLP = {**MLP, "model.hidden": [48, 96, 32], "model.dropout": 0.2, "train.optimizer": "adamw", "train.lr": 0.001,
            "parallel.bucket_mb": 0.005}
# Ends with an empty lane: 19 samples in batches of 8 are 3 for 4 lanes at last.
NOISY_GPT = {**GPT, "model.dropout": 0.1, "train.clip_norm": 0.5, "train.optimizer": "adamw", "train.lr": 0.001,
             "parallel.bucket_mb": 0.05}
TIED_GPT = {**NOISY_GPT, "model.tied": True}
ACTOR = {**MLP, "model.name": "actor_critic", "model.environments": 8, "model.rollout": 8, "model.hidden": [16],
         "data.name": "cartpole", "data.samples": 32, "data.test_samples": 300, "train.batch_size": 8}
for key in ("data.height", "data.width"):
    ACTOR.pop(key)
LAMB_RESNET = {**RESNET, "train.optimizer": "lamb", "train.momentum": 0.9}

ZERO2 = {"parallel.zero": 2}
ZERO3 = {"parallel.zero": 3}
INSIDE = {"parallel.zero": 3, "parallel.zero_inside_host": True}


def padded(count):
    """Elements that a parameter takes in the arena."""
    return -(-count // 1024) * 1024


class ZeroTest(program.ProgramTest):
    def trained(self, job, workers, changes, *arguments):
        self.runs = getattr(self, "runs", 0) + 1
        return self.train(f"run{self.runs}", {**job, **changes}, "--workers", workers, *arguments)

    def assert_same(self, job, *layouts):
        whole = self.trained(job, 1, {})
        for workers, changes in layouts:
            with self.subTest(workers=workers, changes=changes):
                shared = self.trained(job, workers, changes)
                for key in ("weights_sha256", "final_train_loss", "test_loss"):
                    self.assertEqual(shared[key], whole[key], key)
                first_stage = [worker for worker in shared["per_worker"] if 0 in worker["stages"]]
                self.assertEqual(sorted(lane for worker in first_stage for lane in worker["lanes"]),
                                 list(range(job["parallel.lanes"])))
        return whole


class SameBitsTest(ZeroTest):
    def test_mlp(self):
        self.assert_same(DEEP_MLP, (3, ZERO2), (2, ZERO3), (3, INSIDE))

    def test_gpt_with_dropout_and_clipping(self):
        self.assert_same(NOISY_GPT, (2, ZERO2), (3, INSIDE))


class MoreSameBitsTest(ZeroTest):
    def test_mlp_on_more_numbers_of_workers(self):
        self.assert_same(DEEP_MLP, (2, ZERO2), (4, ZERO2), (2, INSIDE))
        self.assert_same({**DEEP_MLP, "parallel.lanes": 2}, (2, ZERO2), (2, INSIDE))

    def test_resnet18_with_lamb_and_an_empty_lane(self):
        self.assert_same(LAMB_RESNET, (2, ZERO2), (2, INSIDE))

    def test_gpt_with_a_weight_that_two_blocks_share(self):
        self.assert_same(TIED_GPT, (2, INSIDE))

    def test_threads(self):
        self.assert_same(DEEP_MLP, (2, {**ZERO2, "parallel.threads": 2}), (2, {**INSIDE, "parallel.threads": 2}),
                         (1, {**INSIDE, "parallel.threads": 2}))


class HeldTest(ZeroTest):
    """A level that is ignored must fail."""

    # An mlp for 8 x 8 pixels and 10 classes; every matrix fills a bucket of its own, with the bias after it.
    JOB = {**MLP, "model.hidden": [512, 512, 512], "train.optimizer": "adam", "train.epochs": 1, "parallel.lanes": 2,
           "parallel.bucket_mb": 0.001}
    LAYERS = [(64, 512), (512, 512), (512, 512), (512, 10)]

    def test_bytes_of_each_level(self):
        weights = [padded(a * b) + padded(b) for a, b in self.LAYERS]
        arena, largest = sum(weights), padded(512 * 512)
        neighbours = max(a + b for a, b in zip(weights, weights[1:]))
        for changes, own in (({}, arena), (ZERO2, 2 * largest), (ZERO3, 2 * largest),
                             (INSIDE, 2 * largest + neighbours)):
            with self.subTest(changes=changes):
                summary = self.trained(self.JOB, 2, changes)
                self.assertEqual(summary["zero"], changes.get("parallel.zero", 1))
                self.assertEqual(sum(worker["parameters"] for worker in summary["per_worker"]), summary["parameters"])
                for worker in summary["per_worker"]:
                    self.assertAlmostEqual(worker["parameters"] / summary["parameters"], 0.5, delta=0.01)
                    self.assertEqual(worker["bytes_held"], 4 * (own + 3 * worker["parameters"]))

    # With four lanes on two workers each keeps one partial sum of its half from the first round to the second.
    def test_partial_sums_of_several_rounds(self):
        summary = self.trained({**self.JOB, "parallel.lanes": 4}, 2, ZERO2)
        self.assertEqual([worker["lanes"] for worker in summary["per_worker"]], [[0, 2], [1, 3]])
        for worker in summary["per_worker"]:
            self.assertEqual(worker["bytes_held"], 4 * (2 * padded(512 * 512) + 4 * worker["parameters"]))

    # Beyond what a worker touches of its own a worker that shares out parameters has less resident.
    def test_workers_that_share_out_parameters_have_less_in_memory(self):
        job = {**self.JOB, "model.hidden": [2048] * 8, "train.max_steps": 2, "data.samples": 32,
               "train.validate_every": 0, "checkpoint.snapshots": False}
        peak = {}
        for name, changes in (("zero1", {}), ("inside", INSIDE)):
            summary = self.trained(job, 2, changes)
            peak[name] = summary["per_worker"][1]["peak_rss_bytes"]
        parameters = 4 * 7 * 2048 * 2048
        self.assertLess(peak["inside"], peak["zero1"] - parameters)


class CutNetworkTest(ZeroTest):
    """A network that is cut into stages or slices, and what each part's workers share out of it."""

    PIPELINE = {"parallel.pipeline": 2}
    TENSOR = {"parallel.tensor": 2}


class CutTest(CutNetworkTest):
    def test_stages(self):
        self.assert_same({**DEEP_MLP, "parallel.lanes": 8}, (4, {**self.PIPELINE, **ZERO2}),
                         (4, {**self.PIPELINE, **INSIDE, "parallel.recompute": True}),
                         (4, {**self.PIPELINE, **INSIDE, "parallel.schedule": "gpipe"}))

    def test_checkpoints_and_faults(self):
        job = {**DEEP_MLP, "parallel.lanes": 8, "checkpoint.every_steps": 3, "checkpoint.keep": 9, "train.epochs": 4}
        whole = self.trained(job, 1, {})
        for rank in (0, 3):
            summary = self.trained(job, 4, {**self.PIPELINE, **INSIDE}, "--inject", f"kill:rank={rank},step=7")
            self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
            self.assertEqual(summary["recoveries"], 1)
        run = self.scratch / f"run{self.runs}"
        for folder in (run / "checkpoints").glob("step-*"):
            if folder.name > "step-00000003":
                shutil.rmtree(folder)
        self.distbelief("resume", run, "--workers", 2, *settings({"parallel.zero_inside_host": False, **ZERO2}))
        self.assertEqual(self.summary(run.name)["weights_sha256"], whole["weights_sha256"])


class MoreCutTest(CutNetworkTest):
    def test_stages_in_turn_with_tied_weights_and_clipping(self):
        turns = {**self.PIPELINE, "parallel.schedule": "interleaved", "parallel.chunks": 2}
        self.assert_same({**TIED_GPT, "model.layers": 4, "parallel.lanes": 8, "train.batch_size": 16},
                         (4, {**turns, **ZERO2}), (4, {**turns, **INSIDE}))

    # Sums over slices have an order of their own: the same on every level, and close to those of one process.
    def test_slices(self):
        for job, mesh in (({**NOISY_GPT, "model.dropout": 0.0}, self.TENSOR),
                          ({**DEEP_MLP, "parallel.lanes": 8}, {**self.TENSOR, **self.PIPELINE})):
            workers = 8 if "parallel.pipeline" in mesh else 4
            first = self.trained(job, workers, mesh)
            for level in (ZERO2, INSIDE):
                with self.subTest(mesh=mesh, level=level):
                    summary = self.trained(job, workers, {**mesh, **level})
                    self.assertEqual(summary["weights_sha256"], first["weights_sha256"])
                    self.assertEqual(summary["test_loss"], first["test_loss"])

    def test_each_level_holds_less(self):
        job = {**HeldTest.JOB, "model.hidden": [512] * 5, "parallel.lanes": 4}
        held = []
        for level in ({}, ZERO2, INSIDE):
            summary = self.trained(job, 4, {**self.PIPELINE, **level})
            self.assertEqual([worker["stages"] for worker in summary["per_worker"]], [[0], [1], [0], [1]])
            held.append(sum(worker["bytes_held"] for worker in summary["per_worker"]))
        arena = 4 * summary["parameters"]  # bytes
        self.assertLess(held[1], held[0] - arena)  # two replicas' gradients, two windows instead


class StateTest(ZeroTest):
    def test_checkpoints_of_each_level_go_on_under_each_other(self):
        job = {**NOISY_GPT, "checkpoint.every_steps": 2, "checkpoint.keep": 9}
        whole = self.trained(job, 1, {})
        levels = [(2, {}), (2, ZERO2), (2, INSIDE)]
        for saved, going_on in ((levels[0], levels[2]), (levels[2], levels[1]), (levels[1], levels[2]),
                                (levels[2], levels[0])):
            with self.subTest(saved=saved, going_on=going_on):
                summary = self.trained(job, *saved)
                self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
                run = self.scratch / f"run{self.runs}"
                for folder in (run / "checkpoints").glob("step-*"):
                    if folder.name > "step-00000002":
                        shutil.rmtree(folder)
                self.distbelief("resume", run, "--workers", going_on[0],
                                *settings({"parallel.zero": 1, "parallel.zero_inside_host": False, **going_on[1]}))
                self.assertEqual(self.summary(run.name)["weights_sha256"], whole["weights_sha256"])

    def test_eval_and_verification(self):
        summary = self.trained({**DEEP_MLP, "train.verify_every": 1}, 2, INSIDE)
        answer = self.distbelief("eval", self.scratch / "run1").out
        self.assertIn(summary["weights_sha256"], answer)
        self.assertIn(f"test loss {summary['test_loss']:.4f}", answer)

    def test_optimizer_state_in_a_file(self):
        folder = self.scratch / "state"
        folder.mkdir()
        self.assert_same(DEEP_MLP, (2, {"parallel.state_dir": str(folder)}), (1, {"parallel.state_dir": str(folder)}),
                         (2, {**INSIDE, "parallel.state_dir": str(folder)}))
        self.assertEqual(list(folder.iterdir()), [])


class FaultsTest(ZeroTest):
    def test_a_killed_worker_is_replaced(self):
        job = {**DEEP_MLP, "train.epochs": 6}
        whole = self.trained(job, 1, {})
        for rank in (0, 1):
            summary = self.trained(job, 2, INSIDE, "--inject", f"kill:rank={rank},step=9")
            self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
            self.assertEqual(summary["recoveries"], 1)
        summary = self.trained(job, 3, ZERO2, "--inject", "kill:rank=1,step=9,point=mid-bucket")
        self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])


class OnHostsTest(ZeroTest):
    """Two emulated hosts: network, UTS and mount namespaces on one machine."""

    emulated_hosts = SOURCE / "tools" / "emulated_hosts"

    def setUp(self):
        super().setUp()
        check = self.finish(self.start([self.emulated_hosts, "check"]))
        if check.code == 77:
            program.cannot((check.out + check.err).strip().replace(program.EXCUSE, ""))
        self.assertEqual(check.code, 0, check.err)

    def assert_same_on_hosts(self, job, *layouts):
        whole = self.trained(job, 1, {})
        for hosts, changes in layouts:
            index = self.on_hosts = getattr(self, "on_hosts", -1) + 1
            with self.subTest(hosts=hosts, changes=changes):
                self.command(self.emulated_hosts, "run", 2, "--", PROGRAM, "train", "--run-dir",
                             self.scratch / f"hosts{index}", "--hosts", hosts, "--progress", "none",
                             *settings({**job, **changes}))
                summary = self.summary(f"hosts{index}")
                for key in ("weights_sha256", "final_train_loss", "test_loss"):
                    self.assertEqual(summary[key], whole[key], key)

    def held_by(self, index):
        return [worker["bytes_held"] for worker in self.summary(f"hosts{index}")["per_worker"]]


class HostsTest(OnHostsTest):
    def test_mlp(self):
        self.assert_same_on_hosts(DEEP_MLP, ("host0:1,host1:1", ZERO2), ("host0:1,host1:1", ZERO3),
                                  ("host0:2,host1:1", ZERO3), ("host0:2,host1:2", INSIDE), ("host0:2,host1:1", INSIDE))
        parameters = 4 * self.summary("hosts0")["parameters"]
        self.assertEqual(sum(self.held_by(0)) - sum(self.held_by(1)), parameters)  # there once, not on each host

    # A step, and each chunk of a validation, runs the network many times.
    def test_actors(self):
        self.assert_same_on_hosts(ACTOR, ("host0:1,host1:1", ZERO3), ("host0:2,host1:1", ZERO3),
                                  ("host0:2,host1:1", INSIDE))


class MoreHostsTest(OnHostsTest):
    def test_tied_gpt_with_clipping(self):
        self.assert_same_on_hosts({**TIED_GPT, "checkpoint.every_steps": 2}, ("host0:1,host1:2", ZERO3))

    # No host ever has the whole state: not when it is saved, not when it is read.
    def test_each_host_saves_and_reads_its_own(self):
        job = {**DEEP_MLP, "train.schedule": "constant", "train.epochs": 9}
        whole = self.trained({**job, "train.max_steps": 6}, 1, {})
        hosts = [self.emulated_hosts, "run", 2, "--", PROGRAM]
        run = self.scratch / "parts"
        self.command(*hosts, "train", "--run-dir", run, "--hosts", "host0:2,host1:1", "--progress", "none",
                     *settings({**job, **ZERO3, "train.max_steps": 3}))
        parts = [read_safetensors.read(file)[0] for file in sorted((run / "checkpoints").glob("*3/state-*-of-00002.*"))]
        weights = [sum(values.size for name, values in part.items() if name.startswith("model.")) for part in parts]
        self.assertEqual(sum(weights), whole["parameters"])
        self.assertLess(max(weights), 0.8 * whole["parameters"])
        self.assertTrue(any("@" in name for part in parts for name in part), "no tensor lies on both hosts")
        shutil.copytree(run, self.scratch / "alone")
        self.command(*hosts, "resume", run, "--hosts", "host0:2,host1:1", "--set", "train.max_steps=6")
        self.distbelief("resume", "alone", "--workers", 1, "--set", "train.max_steps=6", "--set", "parallel.zero=1")
        for name in ("parts", "alone"):
            self.assertEqual(self.summary(name)["weights_sha256"], whole["weights_sha256"], name)

    # Lanes are dealt in turns inside a host: stages of one replica would get others.
    def test_hosts_that_share_replicas_unevenly_are_refused(self):
        run = self.command(self.emulated_hosts, "run", 2, "--", PROGRAM, "train", "--run-dir", self.scratch / "run",
                           "--hosts", "host0:3,host1:1", *settings({**DEEP_MLP, **ZERO2, "parallel.pipeline": 2}), code=2)
        self.assertIn("hosts with 3, 1 workers share replicas of 2 unevenly", run.err)

    # A replica on each host: its stages are neighbours, their parameters are gathered from the other host.
    def test_stages(self):
        cut = {"parallel.pipeline": 2}
        self.assert_same_on_hosts({**TIED_GPT, "checkpoint.every_steps": 2}, ("host0:2,host1:2", {**cut, **ZERO3}),
                                  ("host0:2,host1:2", {**cut, **ZERO3, "parallel.recompute": True}))
        turns = {**cut, "parallel.schedule": "interleaved", "parallel.chunks": 2}
        self.assert_same_on_hosts(DEEP_MLP, ("host0:2,host1:2", turns), ("host0:2,host1:2", {**turns, **ZERO3}))


class RefusalTest(ZeroTest):
    def refused(self, changes, *words, code=2):
        outcome = self.distbelief("train", "--workers", 2, *settings({**MLP, **changes}), code=code)
        for word in words:
            self.assertIn(word, outcome.err)

    def test_what_cannot_be(self):
        self.refused({"parallel.zero_inside_host": True}, "parallel.zero = 3")
        self.refused({"parallel.state_dir": str(self.scratch / "nowhere")}, "parallel.state_dir", "nowhere", code=1)


if __name__ == "__main__":
    program.main()
