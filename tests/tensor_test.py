"""Workers that compute layers together train as one does, up to the order of additions, in any mesh, through losses and
from any checkpoint."""
import os
import signal

import program
import read_safetensors
from pipeline_test import DEEP_MLP, LAMB_RESNET, NOISY_GPT, TIED_GPT, LayoutsTest, PipelineTest
from program import GPT, ENDLESS, RESNET, settings

TP2 = (2, {"parallel.tensor": 2})
TP4 = (4, {"parallel.tensor": 4})
DP2_TP2 = (4, {"parallel.tensor": 2})
TP2_PP2 = (4, {"parallel.tensor": 2, "parallel.pipeline": 2})
# A sum that is nearly 0 has one sign or the other, by the order of additions: where a ReLU then lets a gradient through or
# does not, and which sums those are, differs between instruction sets.
SMOOTH_RESNET = {**LAMB_RESNET, "model.activation": "gelu"}
# Gradient descent: an optimizer that divides by small numbers would blow up what the order of additions makes.
PLAIN = {"train.optimizer": "sgd", "train.momentum": 0.9, "train.lr": 0.01}


class TensorTest(PipelineTest):
    def weights(self, run):
        return read_safetensors.read(self.scratch / run / "model.safetensors")[0]

    def distance(self, run, other):
        """The largest relative distance of a tensor."""
        mine, theirs = self.weights(run), self.weights(other)
        self.assertEqual(sorted(mine), sorted(theirs))
        distances = []
        for name, tensor in theirs.items():
            self.assertEqual(mine[name].shape, tensor.shape, name)
            norm = float((tensor.astype("f8") ** 2).sum() ** 0.5)
            distances.append(float(((mine[name].astype("f8") - tensor) ** 2).sum() ** 0.5) / max(norm, 1e-12))
        return max(distances)

    def assert_near(self, job, *layouts, tolerance=1e-4):
        whole = self.trained(job)
        first = f"run{self.runs}"
        for layout in layouts:
            with self.subTest(layout=layout):
                sliced = self.trained(job, layout)
                self.assertLess(self.distance(f"run{self.runs}", first), tolerance)
                self.assertAlmostEqual(sliced["final_train_loss"], whole["final_train_loss"], delta=1e-3)
                self.assertAlmostEqual(sliced["test_loss"], whole["test_loss"], delta=1e-3)
                self.assert_is_sliced(sliced, *layout)

    # A layout that is ignored must fail.
    def assert_is_sliced(self, summary, workers, changes):
        tensor, pipeline = changes["parallel.tensor"], changes.get("parallel.pipeline", 1)
        self.assertEqual((summary["tensor"], summary["pipeline"]), (tensor, pipeline))
        self.assertEqual(summary["data"], workers // tensor // pipeline)
        held = [worker["parameters"] for worker in summary["per_worker"]]
        # Some layers are whole on every worker of a group, most are sliced.
        self.assertGreaterEqual(sum(held), summary["parameters"])
        self.assertLess(sum(held), 1.5 * summary["parameters"])
        replicas = workers // tensor // pipeline
        self.assertLess(max(held) * replicas * tensor, 1.6 * summary["parameters"])


class NearTest(TensorTest):
    def test_mlp_whose_workers_read_only_their_columns(self):
        job = {**DEEP_MLP, **PLAIN, "data.channels": 3}
        split = {"parallel.split_features": True}
        self.assert_near(job, (2, {**TP2[1], **split}), (4, {**TP4[1], **split}), (4, {**TP2_PP2[1], **split}))

    def test_resnet18(self):
        # Two samples a lane under batch norm make six steps of single precision chaotic; tensor_group_test has twenty
        # in double precision.
        self.assert_near({**SMOOTH_RESNET, **PLAIN, "train.validate_every": 1, "train.max_steps": 2}, TP2, TP2_PP2)

    def test_layers_are_measured_over_all_slices(self):
        # Within one step: lamb divides by norms of whole layers.
        self.assert_near({**SMOOTH_RESNET, "train.max_steps": 1, "train.validate_every": 1}, TP2, tolerance=1e-4)


class MoreNearTest(TensorTest):
    def test_mlp_with_dropout(self):
        self.assert_near({**DEEP_MLP, **PLAIN}, TP2, TP4, DP2_TP2, TP2_PP2)

    def test_gpt_with_a_weight_that_both_ends_share(self):
        self.assert_near({**TIED_GPT, **PLAIN}, TP2, TP2_PP2)

    def test_bert(self):
        # Which tokens are hidden is drawn on every worker of a group.
        self.assert_near({**NOISY_GPT, **PLAIN, "model.name": "bert", "data.vocabulary": 33}, TP2, TP2_PP2)

    def test_replicas_and_stages_leave_the_bits_of_slices_alone(self):
        hashes = {self.trained(NOISY_GPT, layout)["weights_sha256"] for layout in (TP2, TP2_PP2, DP2_TP2)}
        self.assertEqual(len(hashes), 1)

    def test_gpt_with_dropout_and_clipping(self):
        self.assert_near({**NOISY_GPT, **PLAIN}, TP2, TP4, TP2_PP2)


class CheckpointsTest(LayoutsTest, TensorTest):
    def test_the_next_loss_is_the_same_whatever_was_saved_and_whatever_goes_on(self):
        job = {**TIED_GPT, **PLAIN, "train.schedule": "constant", "train.max_steps": 3, "train.epochs": 9}
        layouts = ((1, {}), TP2, TP2_PP2)
        again = {"parallel.pipeline": 1, "parallel.tensor": 1, "train.max_steps": 4}
        losses = []
        for number, (workers, changes) in enumerate(layouts):
            self.train(f"saved{number}", {**job, **changes}, "--workers", workers)
            for other, (others, other_changes) in enumerate(layouts):
                copy = self.scratch / f"saved{number}-{other}"
                self.command("cp", "-r", self.scratch / f"saved{number}", copy)
                self.distbelief("resume", copy, *settings({**again, **other_changes}), "--workers", others)
                losses.append(self.summary(copy.name)["final_train_loss"])
        self.assertLess(max(losses) - min(losses), 1e-5)

    def test_what_is_saved_in_slices_is_what_one_worker_reads(self):
        job = {**LAMB_RESNET, "checkpoint.every_epochs": 1}
        self.trained(job, TP2)
        sliced = self.summary("run1")
        self.distbelief("eval", "run1", "--json")
        self.distbelief("resume", "run1", "--workers", 1, *settings({"parallel.tensor": 1}))
        self.assertEqual(self.summary("run1")["weights_sha256"], sliced["weights_sha256"])


class X(TensorTest):
    JOB = {**DEEP_MLP, "data.samples": 128, "train.epochs": 40, "train.validate_every": 0, "report.audit": True}


class FaultsTest(X):
    def test_workers_of_a_two_by_two_mesh_may_die(self):
        whole = self.trained(self.JOB, TP2_PP2)
        for rank in (0, 3):  # one of each place and part; tests/pipeline_test.py tries all four of its mesh
            with self.subTest(rank=rank):
                summary = self.trained(self.JOB, TP2_PP2, "--inject", f"kill:rank={rank},step=37")
                self.assertEqual(summary["recoveries"], 1)
                self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
                audit = program.json.loads(self.distbelief("audit", f"run{self.runs}", "--json").out)
                self.assertTrue(audit["proven"], audit)


class FollowTest(X):
    def test_the_mesh_follows_the_number_of_workers(self):
        job = {**ENDLESS, "model.hidden": [24, 32, 16], "train.schedule": "constant", "parallel.tensor": 2,
               "parallel.pipeline": 2}
        child = self.start_training("run", job, "--workers", 4)
        for workers in (2, 3, 4):  # in slices, whole, in slices of stages again
            self.control("scale", "run", workers)
            self.wait_until(lambda: len(self.status("run")["workers"]) == workers, f"{workers} workers")
        os.kill(child.pid, signal.SIGINT)
        self.assertEqual(self.finish(child, 20).code, 130)
        summary = self.summary("run")
        self.assertEqual((summary["tensor"], summary["reproducible"]), (2, False))
        self.assertIn("changed", summary["reproducible_note"])
        summary = self.summary("run")
        self.assertEqual((summary["generations"], summary["tensor"], summary["pipeline"]), (4, 2, 2))


class LanesTest(TensorTest):
    def test_a_number_of_workers_for_which_there_are_no_lanes_is_refused(self):
        job = {**ENDLESS, "parallel.tensor": 2, "parallel.lanes": 2, "model.hidden": [24, 32]}
        child = self.start_training("run", job, "--workers", 4)
        said = self.control("scale", "run", 3, code=2)
        self.assertRegex(said, "2 can")
        self.control("scale", "run", 2)
        self.wait_until(lambda: len(self.status("run")["workers"]) == 2, "2 workers")
        os.kill(child.pid, signal.SIGINT)
        self.assertEqual(self.finish(child, 20).code, 130)


class RefusalTest(TensorTest):
    def refused(self, changes, workers, job=DEEP_MLP):
        outcome = self.distbelief("train", "--run-dir", "run", *settings({**job, **changes}), "--workers", workers,
                                  code=2)
        self.assertFalse((self.scratch / "run").exists())
        return outcome.err

    def test_a_width_that_is_not_divisible(self):
        said = self.refused({"parallel.tensor": 3, "model.hidden": [32], "parallel.lanes": 1}, 3)
        self.assertRegex(said, r"fc1.* 32.* tensor may be 2, 4, 8")

    def test_a_model_without_such_layers(self):
        said = self.refused({"parallel.tensor": 2, "model.name": "cnn", "model.hidden": 32, "model.channels": [8]}, 2)
        self.assertRegex(said, r"cnn.*pipeline")

    def test_a_vocabulary_smaller_than_the_group(self):
        said = self.refused({"parallel.tensor": 4, "data.vocabulary": 3, "parallel.lanes": 1}, 4, job=GPT)
        self.assertRegex(said, r"vocabulary of 3.* at most")

    def test_workers_that_it_does_not_divide(self):
        self.assertRegex(self.refused({"parallel.tensor": 2}, 3), r"2 or 4 workers")

    def test_columns_without_a_group_of_readers_or_of_a_model_that_needs_all(self):
        split = {"parallel.split_features": True}
        self.assertIn("parallel.tensor", self.refused(split, 2))
        self.assertIn("data.augment", self.refused({**split, **TP2[1], "data.augment": ["flip"]}, 2))
        said = self.refused({**split, **TP2[1]}, 2, job=RESNET)
        self.assertRegex(said, "resnet18.*whole samples")

    def test_threads(self):
        self.assertIn("parallel.threads", self.refused({"parallel.tensor": 2, "parallel.threads": 2}, 2))


if __name__ == "__main__":
    program.main()
