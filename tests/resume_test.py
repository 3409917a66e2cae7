"""A resumed run ends with the bits of one that was never stopped; checkpoints come, stay and go as asked."""
import json
import os
import shutil
import signal

import program
from program import ENDLESS, MLP

# 8 steps per epoch; long enough to be caught in the middle.
JOB = {**MLP, "data.samples": 128, "train.epochs": 150, "train.optimizer": "adamw", "train.lr": 0.001,
       "model.dropout": 0.2, "train.validate_every": 50, "checkpoint.every_epochs": 50,
       "report.interval_seconds": 0.02}


class ResumeTest(program.ProgramTest):
    def resume(self, name, *arguments, **options):
        return self.distbelief("resume", self.scratch / name, *arguments, **options)

    def steps_kept(self, name):
        return sorted(int(path.name.removeprefix("step-"))
                      for path in (self.scratch / name / "checkpoints").glob("step-*"))


class SameBitsTest(ResumeTest):
    def test_interrupted_and_resumed_with_other_numbers_of_workers(self):
        whole = self.train("whole", JOB, "--workers", 2)
        child = self.start_training("parts", JOB, "--workers", 2)
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertIn("distbelief resume", outcome.err)
        stopped = self.summary("parts")
        self.assertEqual(stopped["status"], "interrupted")
        self.assertTrue(0 < stopped["steps"] < whole["steps"], stopped["steps"])
        self.resume("parts", "--workers", 3)
        resumed = self.summary("parts")
        self.assertEqual(resumed["status"], "done")
        self.assertEqual(resumed["workers"], 3)
        for key in ("weights_sha256", "steps", "samples", "epochs", "test_accuracy", "final_train_loss"):
            self.assertEqual(resumed[key], whole[key], key)
        self.assertEqual(self.events("parts", "resumed")[0]["step"], stopped["steps"])

    def test_resumed_in_the_middle_of_an_epoch_with_batch_norm(self):
        job = {**program.RESNET, "data.augment": ["flip"], "train.epochs": 2, "checkpoint.every_steps": 2,
               "checkpoint.keep": 9}
        whole = self.train("whole", job, "--workers", 2)
        self.assertEqual(self.steps_kept("whole"), [2, 4, 6])
        for name in ("step-00000004", "step-00000006"):
            for path in sorted((self.scratch / "whole" / "checkpoints" / name).iterdir()):
                path.unlink()
            (self.scratch / "whole" / "checkpoints" / name).rmdir()
        self.resume("whole", "--workers", 1)
        self.assertEqual(self.events("whole", "resumed")[0]["step"], 2)
        self.assertEqual(self.summary("whole")["weights_sha256"], whole["weights_sha256"])

    def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(self):
        job = {**MLP, "checkpoint.every_steps": 3, "checkpoint.every_epochs": 0, "checkpoint.keep": 9}
        whole = self.train("run", job)
        self.assertEqual(self.steps_kept("run")[-2:], [6, 8])
        state = self.scratch / "run" / "checkpoints" / "step-00000008" / "state.safetensors"
        content = bytearray(state.read_bytes())
        content[-5] ^= 1
        state.write_bytes(content)
        outcome = self.resume("run")
        self.assertIn("step-00000008", outcome.err)
        self.assertIn("damaged", outcome.err)
        self.assertEqual(self.events("run", "resumed")[0]["step"], 6)
        self.assertEqual(self.summary("run")["weights_sha256"], whole["weights_sha256"])

    def test_no_whole_checkpoint_is_an_error(self):
        self.train("run", MLP)
        for state in (self.scratch / "run" / "checkpoints").glob("*/state.safetensors"):
            state.write_bytes(b"")
        outcome = self.resume("run", code=2)
        self.assertIn("checkpoint", outcome.err)

    def test_a_folder_that_is_no_run_is_refused(self):
        outcome = self.resume("nothing", code=2)
        self.assertIn("there is no run folder", outcome.err)
        self.assertFalse((self.scratch / "nothing").exists())


def contents(folder):
    """Of all files in it."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class LostBitsTest(ResumeTest):
    """State that is not kept: the summary says that the bits are not those of an undisturbed run."""

    def stopped_and_resumed(self, job):
        self.train("run", {**job, "train.epochs": 2})
        self.resume("run", "--set", "train.epochs=4")
        return self.summary("run")

    def test_servers_begin_with_empty_state_of_the_rule(self):
        served = {**MLP, "parallel.sync": "parameter_server", "parallel.mode": "sync", "parallel.lanes": 2}
        summary = self.stopped_and_resumed({**served, "train.optimizer": "adam", "train.lr": 0.001})
        self.assertFalse(summary["reproducible"])
        self.assertIn("state of the update rule", summary["reproducible_note"])

    def test_a_search_begins_without_its_history(self):
        summary = self.stopped_and_resumed({**MLP, "train.optimizer": "lbfgs", "train.momentum": 0,
                                            "train.validate_every": 1})
        self.assertFalse(summary["reproducible"])
        self.assertIn("history", summary["reproducible_note"])


class EveryOptimizerTest(ResumeTest):
    """Stopped within an epoch and the warm-up, and gone on with by another number of workers."""

    def resumes_to_the_same_bits(self, name, **optimizer):
        job = {**MLP, "train.epochs": 3, "train.warmup_steps": 7, "train.schedule": "step", "train.lr_step_epochs": 1,
               "train.lr_gamma": 0.5, "train.clip_norm": 1.0, "train.lr": 0.01, "train.momentum": 0,
               **{f"train.{key}": value for key, value in optimizer.items()}}
        whole = self.train(f"{name}-whole", job, "--workers", 1)
        self.train(f"{name}-parts", {**job, "train.max_steps": 5}, "--workers", 2)
        self.resume(f"{name}-parts", "--workers", 3, "--set", "train.max_steps=0")
        self.assertEqual(self.events(f"{name}-parts", "resumed")[0]["step"], 5)
        resumed = self.summary(f"{name}-parts")
        self.assertEqual((resumed["weights_sha256"], resumed["steps"]), (whole["weights_sha256"], 12))

    def test_lamb(self):
        self.resumes_to_the_same_bits("lamb", optimizer="lamb", weight_decay=0.01)

    def test_nesterov(self):
        self.resumes_to_the_same_bits("nesterov", optimizer="sgd", momentum=0.9, nesterov=True)

    def test_the_others(self):
        self.resumes_to_the_same_bits("sgd", optimizer="sgd")
        for name in ("adam", "adamw", "adagrad"):
            self.resumes_to_the_same_bits(name, optimizer=name)
        self.resumes_to_the_same_bits("lars", optimizer="lars", momentum=0.9, weight_decay=0.01)


class RefusedTest(ResumeTest):
    def test_momentum_that_there_was_none_of(self):
        self.train("run", {**MLP, "train.momentum": 0})
        before = contents(self.scratch / "run")
        outcome = self.resume("run", "--set", "train.epochs=3", "--set", "train.momentum=0.9", code=2)
        self.assertIn("cannot change whether there is train.momentum", outcome.err)
        self.assertEqual(contents(self.scratch / "run"), before)

    def wider_checkpoints(self, name):
        """A run whose checkpoints are another network's, which only its workers find."""
        self.train(name, MLP)
        self.train(f"{name}-wider", {**MLP, "model.hidden": [48]})
        shutil.rmtree(self.scratch / name / "checkpoints")
        shutil.copytree(self.scratch / f"{name}-wider" / "checkpoints", self.scratch / name / "checkpoints")
        return [(self.scratch / name / file).read_bytes() for file in ("job.toml", "data.json")]

    def test_what_only_the_workers_find_leaves_the_run_as_it_was(self):
        for launcher in ((), program.mpirun(2)):
            with self.subTest(launcher=launcher):
                name = "launched" if launcher else "supervised"
                before = self.wider_checkpoints(name)
                outcome = self.command(*launcher, program.PROGRAM, "resume", name, "--set", "train.epochs=3",
                                       "--set", "data.samples=63", code=2)
                self.assertIn("is it a checkpoint of another model?", outcome.err)
                after = [(self.scratch / name / file).read_bytes() for file in ("job.toml", "data.json")]
                self.assertEqual(after, before)
                self.assertFalse((self.scratch / name / "snapshots.memory").exists(), "nothing was in memory")
                self.assert_nothing_left()


class FinishedTest(ResumeTest):
    def test_a_finished_run_says_so_and_stays_as_it_is(self):
        self.train("run", MLP)
        before = contents(self.scratch / "run")
        outcome = self.resume("run")
        self.assertIn("finished", outcome.out + outcome.err)
        self.assertEqual(contents(self.scratch / "run"), before)

    def test_more_epochs_go_on_from_the_end(self):
        job = {**MLP, "train.schedule": "constant"}
        longer = self.train("longer", {**job, "train.epochs": 4})
        self.train("run", job)
        self.assertNotIn("same bits", self.resume("run", "--set", "train.epochs=4").err)
        resumed = self.summary("run")
        self.assertEqual((resumed["steps"], resumed["status"]), (16, "done"))
        self.assertEqual(resumed["weights_sha256"], longer["weights_sha256"])
        if resumed["isa"] == "baseline":
            program.cannot("use another instruction set than baseline")
        self.environment["DISTBELIEF_ISA"] = "baseline"
        self.assertRegex(self.resume("run", "--set", "train.epochs=5").err,
                         f"saved by .*{resumed['isa']}.*, this is .*baseline.*: the result will not have the same bits")
        self.assertEqual(self.summary("run")["isa"], "baseline")
        self.assertNotIn("same bits", self.resume("run", "--set", "train.epochs=6").err)
        self.assertFalse(self.summary("run")["reproducible"], "some of its steps were another processor's")
        self.assertRegex(self.summary("run")["reproducible_note"], "saved by .* went on with .*baseline")


class LauncherTest(ResumeTest):
    """Under mpirun, where no supervisor looks first."""

    def resume(self, name, *arguments, **options):
        return self.command(*program.mpirun(2), program.PROGRAM, "resume", self.scratch / name, *arguments, **options)

    def test_a_finished_run_says_so_once_and_stays_as_it_is(self):
        self.train("run", MLP, "--workers", 2)
        before = contents(self.scratch / "run")
        self.assertEqual(self.resume("run").out.count("is finished"), 1)
        self.assertEqual(contents(self.scratch / "run"), before)

    def test_no_whole_checkpoint_is_an_error(self):
        self.train("run", MLP)
        for state in (self.scratch / "run" / "checkpoints").glob("*/state.safetensors"):
            state.write_bytes(b"")
        summary = self.summary("run")
        outcome = self.resume("run", "--set", "train.epochs=4", code=2)
        self.assertEqual(outcome.err.count("no whole checkpoint"), 1, outcome.err)
        self.assertEqual(self.summary("run"), summary)

    def test_what_was_set_is_kept(self):
        job = {**MLP, "train.schedule": "constant"}
        self.train("run", job)
        self.resume("run", "--set", "train.epochs=4")
        self.assertEqual(self.summary("run")["steps"], 16)
        self.assertIn("finished: 16 of 16 steps", self.distbelief("resume", self.scratch / "run").out)


class CheckpointsTest(ResumeTest):
    def test_every_few_steps_the_last_ones_and_the_best_are_kept(self):
        job = {**MLP, "train.epochs": 3, "checkpoint.every_steps": 1, "checkpoint.keep": 3,
               # The weights stay as they are: no validation is better than the first, after an epoch of 4 steps.
               "train.lr": 1e-60}
        self.train("run", job)
        best = json.loads((self.scratch / "run" / "checkpoints" / "best.json").read_text())
        self.assertEqual(best["step"], 4)
        self.assertEqual(self.steps_kept("run"), [4, 10, 11, 12])

    def test_every_few_seconds(self):
        job = {**ENDLESS, "checkpoint.every_seconds": 0.2, "checkpoint.keep": 2}
        child = self.start_training("run", job)
        self.wait_until(lambda: len(self.steps_kept("run")) >= 2, "two checkpoints were written")
        os.kill(child.pid, signal.SIGINT)
        self.assertEqual(self.finish(child).code, 130)
        self.assertEqual(len(self.steps_kept("run")), 2)

    def test_a_checkpoint_of_a_deeper_network_is_refused(self):
        self.train("run", {**MLP, "model.hidden": [16, 16], "train.max_steps": 2})
        job = self.scratch / "run" / "job.toml"
        job.write_text(job.read_text().replace("hidden = [ 16, 16 ]", "hidden = [ 16 ]").replace("hidden = [16, 16]", "hidden = [16]")
                       .replace("max_steps = 2", "max_steps = 4"))
        refused = self.distbelief("resume", "run", code=2)
        self.assertRegex(refused.err, "tensor 'model.*(wants|is not part of the model)")

    def test_eval_of_the_best_checkpoint(self):
        summary = self.train("run", MLP)
        answer = json.loads(self.distbelief("eval", self.scratch / "run", "--best", "--json").out)
        self.assertAlmostEqual(answer["test_accuracy"], summary["best_test_accuracy"], 6)


class StoppingRulesTest(ResumeTest):
    def test_a_target_accuracy_ends_the_run(self):
        summary = self.train("run", {**MLP, "train.epochs": 50, "train.target": 0.2, "data.noise": 0.1})
        self.assertEqual(summary["status"], "stopped early")
        self.assertGreaterEqual(summary["test_accuracy"], 0.2)
        self.assertLess(summary["epochs"], 50)
        self.assertIn("test accuracy", self.events("run", "stopped early")[0]["reason"])
        outcome = self.resume("run")
        self.assertIn("finished", outcome.out + outcome.err)
        self.assertEqual(self.summary("run"), summary)

    def test_a_target_of_another_metric_ends_the_run_and_one_that_the_task_lacks_is_refused(self):
        job = {**MLP, "data.name": "synthetic_table", "data.target": "value", "train.epochs": 200,
               "train.optimizer": "adam", "train.lr": 0.01, "train.target": 0.9}
        for key in ("data.height", "data.width"):
            job.pop(key)
        refused = self.distbelief("train", "--run-dir", self.scratch / "refused", *program.settings(job), code=2)
        self.assertRegex(refused.err, "train.target_metric is .accuracy.*loss, rmse, mae")
        self.assertFalse((self.scratch / "refused").exists())
        summary = self.train("run", {**job, "train.target_metric": "rmse"})
        self.assertEqual(summary["status"], "stopped early")
        self.assertLessEqual(summary["test_metrics"]["rmse"], 0.9)
        self.assertLess(summary["epochs"], 200)

    def test_no_better_loss_ends_the_run(self):
        # Without a learning rate to speak of, no validation after the first can be better by much.
        summary = self.train("run", {**MLP, "train.epochs": 50, "train.lr": 1e-60, "train.early_stop_patience": 3,
                                     "report.interval_seconds": 1000})
        steps = [line for line in program.lines_of(self.scratch / "run" / "metrics.jsonl") if "loss" in line]
        self.assertEqual([line["step"] for line in steps], [summary["steps"]], "a line is left of the last interval")
        self.assertEqual(summary["status"], "stopped early")
        self.assertEqual(summary["epochs"], 4)
        self.assertIn("early_stop_patience", self.events("run", "stopped early")[0]["reason"])


if __name__ == "__main__":
    program.main()
