"""A network that is cut over workers ends with the bits of one process with the same lanes, whatever the cuts, the
schedule and the losses on the way."""
import json
import os
import signal

import program
from program import ENDLESS, GPT, MLP, RESNET, settings

DEEP_MLP = {**MLP, "model.hidden": [24, 32, 16], "model.dropout": 0.2, "train.optimizer": "adamw", "train.lr": 0.001}
# Ends with an empty lane: 19 samples in batches of 8 are 3 for 4 lanes at last.
NOISY_GPT = {**GPT, "model.dropout": 0.1, "train.clip_norm": 0.5, "train.optimizer": "adamw", "train.lr": 0.001}
TIED_GPT = {**NOISY_GPT, "model.tied": True}
LAMB_RESNET = {**RESNET, "train.optimizer": "lamb", "train.momentum": 0.9}

DP2 = (2, {})
PP2 = (2, {"parallel.pipeline": 2})
GPIPE = (2, {"parallel.pipeline": 2, "parallel.schedule": "gpipe"})
INTERLEAVED = (2, {"parallel.pipeline": 2, "parallel.schedule": "interleaved"})
RECOMPUTED = (2, {"parallel.pipeline": 2, "parallel.recompute": True})
PP4 = (4, {"parallel.pipeline": 4})
DP2_PP2 = (4, {"parallel.pipeline": 2})


class PipelineTest(program.ProgramTest):
    def trained(self, job, layout=(1, {}), *arguments):
        self.runs = getattr(self, "runs", 0) + 1
        workers, changes = layout
        return self.train(f"run{self.runs}", {**job, **changes}, "--workers", workers, *arguments)

    def parameters_of_stages(self, summary):
        """Parameters that the workers of each place of the pipeline update, all replicas together."""
        stages = {}
        for worker in summary["per_worker"]:
            place = tuple(worker["stages"])
            stages[place] = stages.get(place, 0) + worker["parameters"]
        return stages

    def assert_same(self, job, *layouts):
        whole = self.trained(job)
        for layout in layouts:
            with self.subTest(layout=layout):
                cut = self.trained(job, layout)
                self.assertEqual(cut["weights_sha256"], whole["weights_sha256"])
                self.assertEqual(cut["final_train_loss"], whole["final_train_loss"])
                self.assertEqual(cut["test_loss"], whole["test_loss"])
                self.assert_is_cut(cut, *layout)
        return whole

    # A layout that is ignored must fail.
    def assert_is_cut(self, summary, workers, changes):
        pipeline = changes.get("parallel.pipeline", 1)
        chunks = 2 if changes.get("parallel.schedule") == "interleaved" else 1
        self.assertEqual((summary["pipeline"], summary["data"]), (pipeline, workers // pipeline))
        self.assertEqual(len(summary["cuts"]), pipeline * chunks - 1)
        schedule = changes.get("parallel.schedule", "1f1b") if pipeline > 1 else None
        self.assertEqual((summary["schedule"], summary["chunks"], summary["recompute"]),
                         (schedule, chunks, changes.get("parallel.recompute", False)))
        stages = self.parameters_of_stages(summary)
        self.assertEqual(sorted(stages), [tuple(range(place, pipeline * chunks, pipeline)) for place in range(pipeline)])
        self.assertEqual(sum(stages.values()), summary["parameters"])
        self.assertTrue(all(stages.values()), stages)


class SameBitsTest(PipelineTest):
    def test_mlp(self):
        self.assert_same(DEEP_MLP, DP2, PP2, PP4, DP2_PP2, INTERLEAVED)

    def test_resnet18_with_lamb_and_an_empty_lane(self):
        self.assert_same(LAMB_RESNET, PP2, DP2_PP2, RECOMPUTED, INTERLEAVED)

    def test_gpt_with_dropout_and_clipping(self):
        whole = self.assert_same(NOISY_GPT, PP2, GPIPE, RECOMPUTED, PP4)
        other = self.trained({**NOISY_GPT, "model.dropout": 0.0})
        self.assertNotEqual(other["weights_sha256"], whole["weights_sha256"], "dropout has no effect")

    def test_gpt_with_a_weight_that_the_first_and_the_last_stage_share(self):
        self.assert_same(TIED_GPT, PP2, DP2_PP2, INTERLEAVED)

    def test_cuts_where_the_job_wants_them(self):
        for cut in (1, 3):
            summary = self.trained(DEEP_MLP, (2, {"parallel.pipeline": 2, "parallel.cuts": [cut]}))
            self.assertEqual(summary["cuts"], [cut])

    def test_the_model_file_is_the_one_of_a_whole_network(self):
        self.trained(TIED_GPT)
        self.trained(TIED_GPT, PP2)
        whole, cut = ((self.scratch / name / "model.safetensors").read_bytes() for name in ("run1", "run2"))
        self.assertEqual(whole, cut)
        scores = [json.loads(self.distbelief("eval", name, "--json").out) for name in ("run1", "run2")]
        self.assertEqual(scores[0]["weights_sha256"], scores[1]["weights_sha256"])


class LayoutsTest(PipelineTest):
    def assert_any_continues_any(self, layouts):
        job = {**TIED_GPT, "train.schedule": "constant", "train.max_steps": 3, "train.epochs": 9}
        longer = {**job, "train.max_steps": 5}
        whole = self.trained(longer)
        for number, (workers, changes) in enumerate(layouts):
            name = f"saved{number}"
            self.train(name, {**job, **changes}, "--workers", workers)
            for other, (others, other_changes) in enumerate(layouts):
                with self.subTest(saved=layouts[number], continued=layouts[other]):
                    copy = self.scratch / f"{name}-{other}"
                    self.command("cp", "-r", self.scratch / name, copy)
                    again = {"parallel.pipeline": 1, "parallel.schedule": "1f1b", **other_changes,
                             "train.max_steps": 5}
                    self.distbelief("resume", copy, *settings(again), "--workers", others)
                    summary = self.summary(copy.name)
                    self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
                    self.assertEqual(summary["final_train_loss"], whole["final_train_loss"])


class AnyLayoutTest(LayoutsTest):
    def test_saved_under_any_layout_and_continued_under_any_other(self):
        self.assert_any_continues_any(((1, {}), DP2_PP2, INTERLEAVED))


class EveryLayoutTest(LayoutsTest):
    def test_saved_under_each_of_six_layouts_and_continued_under_each(self):
        self.assert_any_continues_any(((1, {}), DP2, PP2, PP4, DP2_PP2, INTERLEAVED))


class FaultsTest(PipelineTest):
    JOB = {**DEEP_MLP, "data.samples": 128, "train.epochs": 40, "train.validate_every": 0, "report.audit": True}
    RANKS = (1, 2)

    def test_any_worker_of_a_two_by_two_mesh_may_die(self):
        whole = self.trained(self.JOB)
        for rank in self.RANKS:
            with self.subTest(rank=rank):
                summary = self.trained(self.JOB, DP2_PP2, "--inject", f"kill:rank={rank},step=37")
                self.assertEqual(summary["recoveries"], 1)
                self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
                self.assert_is_cut(summary, *DP2_PP2)
                audit = json.loads(self.distbelief("audit", f"run{self.runs}", "--json").out)
                self.assertTrue(audit["proven"], audit)

    def test_the_mesh_follows_the_number_of_workers(self):
        job = {**ENDLESS, "model.hidden": [24, 32, 16], "train.schedule": "constant", "parallel.pipeline": 2,
               "report.audit": True}
        child = self.start_training("run", job, "--workers", 4)
        for workers in (2, 3, 4):  # in stages, three whole ones, in stages again
            self.control("scale", "run", workers)
            self.wait_until(lambda: len(self.status("run")["workers"]) == workers, f"{workers} workers")
        os.kill(child.pid, signal.SIGINT)
        self.assertEqual(self.finish(child, 20).code, 130)
        summary = self.summary("run")
        self.assertEqual((summary["generations"], summary["pipeline"], summary["data"]), (4, 2, 2))
        whole = self.train("whole", {**job, "parallel.pipeline": 1, "train.max_steps": summary["steps"]}, "--workers", 1)
        self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])


class MoreFaultsTest(FaultsTest):
    RANKS = (0, 3)

    def test_a_killed_worker_without_snapshots_goes_on_from_the_parts_on_the_disk(self):
        job = {**self.JOB, "checkpoint.snapshots": False, "checkpoint.every_steps": 10}
        summary = self.trained(job, PP2, "--inject", "kill:rank=1,step=37")
        self.assertEqual(summary["recoveries"], 1)
        self.assertEqual(summary["weights_sha256"], self.trained(self.JOB)["weights_sha256"])


class RefusalTest(PipelineTest):
    def refused(self, changes, workers):
        outcome = self.distbelief("train", "--run-dir", "run", *settings({**DEEP_MLP, **changes}), "--workers", workers,
                                  code=2)
        self.assertFalse((self.scratch / "run").exists())
        return outcome.err

    def test_workers_that_the_pipeline_does_not_divide(self):
        said = self.refused({"parallel.pipeline": 3}, 4)
        self.assertRegex(said, r"3 or 6 workers")

    def test_lanes_that_do_not_fit_the_schedule(self):
        said = self.refused({"parallel.pipeline": 2, "parallel.schedule": "interleaved", "parallel.lanes": 5}, 2)
        self.assertRegex(said, r"4 or 6")

    def test_more_stages_than_blocks(self):
        said = self.refused({"parallel.pipeline": 5, "parallel.lanes": 8}, 5)
        self.assertRegex(said, r"4 blocks")

    def test_a_cut_outside_the_network(self):
        said = self.refused({"parallel.pipeline": 2, "parallel.cuts": [4]}, 2)
        self.assertIn("parallel.cuts", said)

    def test_threads_and_pipeline(self):
        self.assertIn("parallel.threads", self.refused({"parallel.pipeline": 2, "parallel.threads": 2}, 2))

    def test_a_wrong_number_of_cuts(self):
        self.assertIn("parallel.cuts", self.refused({"parallel.pipeline": 2, "parallel.cuts": [1, 2]}, 2))


if __name__ == "__main__":
    program.main()
