"""Every layout against one process, over 20 steps: the bits where they are promised, slices as near as additions allow."""
import program
from pipeline_test import DEEP_MLP, DP2, DP2_PP2, INTERLEAVED, LAMB_RESNET, NOISY_GPT, PP2
from tensor_test import PLAIN, TP2, TP2_PP2, TensorTest

ZERO1 = (2, {"parallel.zero": 1})
ZERO2 = (2, {"parallel.zero": 2})
ZERO3 = (2, {"parallel.zero": 3, "parallel.zero_inside_host": True})
DP4_ZERO3 = (4, {"parallel.zero": 3})
DP2_PP2_ZERO2 = (4, {**DP2_PP2[1], "parallel.zero": 2})
DP2_PP2_ZERO3 = (4, {**DP2_PP2[1], "parallel.zero": 3, "parallel.zero_inside_host": True})
SAME_BITS = {"dp2": DP2, "pp2": PP2, "zero1": ZERO1, "zero2": ZERO2, "zero3": ZERO3, "dp2.pp2": DP2_PP2,
             "dp4.zero3": DP4_ZERO3, "interleaved": INTERLEAVED, "dp2.pp2.zero2": DP2_PP2_ZERO2,
             "dp2.pp2.zero3": DP2_PP2_ZERO3}
DP2_TP2_ZERO3 = (4, {**TP2[1], "parallel.zero": 3, "parallel.zero_inside_host": True})
SLICED = {"tp2": TP2, "tp2.pp2": TP2_PP2, "dp2.tp2.zero3": DP2_TP2_ZERO3}
LONG = {"train.epochs": 0, "train.max_steps": 20, "train.schedule": "constant", "train.validate_every": 0}


class MatrixTest(TensorTest):
    def assert_matrix(self, job):
        whole = self.trained({**job, **LONG})
        for name, layout in SAME_BITS.items():
            with self.subTest(layout=name):
                summary = self.trained({**job, **LONG}, layout)
                self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
        # A first step of plain descent from the same weights: biases that began at 0 are the gradients.
        first = {**job, **PLAIN, "train.momentum": 0.0, "train.clip_norm": 0.0, "train.epochs": 0, "train.max_steps": 1}
        self.trained(first)
        reference = f"run{self.runs}"
        for name, layout in SLICED.items():
            with self.subTest(layout=name):
                self.trained(first, layout)
                self.assertLess(self.distance(f"run{self.runs}", reference), 1e-5)

    def test_mlp(self):
        self.assert_matrix(DEEP_MLP)

    def test_resnet18(self):
        self.assert_matrix(LAMB_RESNET)

    def test_gpt(self):
        self.assert_matrix(NOISY_GPT)


class CheckpointMatrixTest(TensorTest):
    def test_saved_under_each_of_six_layouts_and_continued_under_each(self):
        """In slices the next loss is the same but for the order of additions, else to the bit."""
        layouts = {"alone": (1, {}), "pp2": PP2, "tp2": TP2, "zero3": ZERO3, "dp2.pp2": DP2_PP2, "tp2.pp2": TP2_PP2}
        job = {**NOISY_GPT, **PLAIN, **LONG, "train.max_steps": 3}
        again = {"parallel.pipeline": 1, "parallel.tensor": 1, "parallel.zero": 1, "parallel.zero_inside_host": False,
                 "train.max_steps": 4}
        losses = {}
        for saved, (workers, changes) in layouts.items():
            self.train(saved, {**job, **changes}, "--workers", workers)
            for name, (others, other_changes) in layouts.items():
                copy = self.scratch / f"{saved}-{name}"
                self.command("cp", "-r", self.scratch / saved, copy)
                self.distbelief("resume", copy, *program.settings({**again, **other_changes}), "--workers", others)
                losses[saved, name] = self.summary(copy.name)["final_train_loss"]
        self.assertLess(max(losses.values()) - min(losses.values()), 1e-5, losses)
        whole = {losses[pair] for pair in losses if "tp2" not in "".join(pair)}
        self.assertEqual(len(whole), 1, losses)


if __name__ == "__main__":
    program.main()
