"""Parts that a program registers: a mode, a task, a data set and an optimizer of its own (tests/own_parts)."""
import json
import os
import pathlib

import program

OWN_PARTS = os.environ.get("DISTBELIEF_OWN_PARTS", "")
JOB = """
[model]
name = "mlp"
hidden = [16]
[data]
name = "stripes"
[train]
epochs = 2
batch_size = 32
lr = 0.125
momentum = 0.0
weight_decay = 0.0
[parallel]
workers = 2
lanes = 4
"""


class OwnPartsTest(program.ProgramTest):
    def train(self, name, *settings, expect=0):
        job = self.scratch / "job.toml"
        job.write_text(JOB, encoding="utf-8")
        folder = self.scratch / name
        sets = [part for setting in settings for part in ("--set", setting)]
        done = self.command(OWN_PARTS, "train", job, "--run-dir", folder, *sets, code=expect)
        if expect != 0:
            return done.err
        return json.loads((pathlib.Path(folder) / "summary.json").read_text(encoding="utf-8"))

    def test_a_data_set_is_learnt(self):
        self.assertGreater(self.train("stripes", "train.epochs=8")["test_accuracy"], 0.9)

    def test_a_task_is_what_its_loss_says(self):
        # Twice the loss at half the rate: exact in binary arithmetic.
        once, twice = self.train("once"), self.train("twice", "train.task=twice", "train.lr=0.0625")
        self.assertEqual(once["weights_sha256"], twice["weights_sha256"])

    def test_an_optimizer_has_the_same_bits_on_any_number_of_workers(self):
        signs = ("train.optimizer=signs", "train.lr=0.01")
        two, one = self.train("two", *signs), self.train("one", *signs, "parallel.workers=1")
        self.assertEqual(two["weights_sha256"], one["weights_sha256"])
        self.assertGreater(two["test_accuracy"], 0.5)

    def test_a_mode_trains_replicas_apart_and_averages_them(self):
        alone = self.train("alone", "parallel.sync=apart", "apart.replicas=1")
        self.assertEqual(alone["weights_sha256"], self.train("together")["weights_sha256"])
        apart = self.train("apart", "parallel.sync=apart", "train.epochs=8")
        self.assertEqual(apart["weights_sha256"],
                         self.train("again", "parallel.sync=apart", "train.epochs=8", "parallel.workers=4")["weights_sha256"])
        self.assertNotEqual(apart["weights_sha256"], self.train("eight", "train.epochs=8")["weights_sha256"])
        self.assertGreater(apart["test_accuracy"], 0.9)

    def test_what_a_mode_does_not_allow_is_refused_before_anything_starts(self):
        for settings, word in ((("parallel.sync=apart", "apart.replicas=3"), "must divide"),
                               (("parallel.sync=apart", "apart.replica=2"), "replicas"),
                               (("apart.replicas=2",), "is for parallel.sync"),
                               (("parallel.sync=apar",), "did you mean 'apart'")):
            self.assertIn(word, self.train("refused", *settings, expect=2))
            self.assertFalse((self.scratch / "refused").exists())


if __name__ == "__main__":
    program.main()
