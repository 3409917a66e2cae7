"""Replicas with parameter servers whose workers are a mesh of their own: threads, stages of a pipeline, slices of a tensor
group. Servers see one network and one push of each replica; a replica that loses a worker begins again as a whole."""
import json
import os
import signal

import program
from program import ENDLESS, GPT, RESNET
from servers_test import JOB, OWN_STEPS, SERVED, ServersTest

SYNC = {**SERVED, "parallel.mode": "sync"}
PIPELINE = {"parallel.pipeline": 2}
TENSOR = {"parallel.tensor": 2}
DEEP = {"model.hidden": [24, 32, 16]}
# Four slices on the servers: both workers of a replica have some to push, and stages share some of them.
WIDE = {"model.hidden": [512, 1024, 256], "train.validate_every": 0}


class MeshesTest(ServersTest):
    def assert_same_bits(self, name, job, *meshes, alone=None):
        """Synchronous steps of two replicas have the bits of allreduce with the same lanes."""
        expected = self.train(f"{name}-allreduce", {**job, **(alone or {})},
                              "--workers", (alone or {}).get("parallel.tensor", 1))
        for mesh in meshes:
            served = self.train(f"{name}-{'-'.join(mesh)}", {**job, **SYNC, **mesh}, "--workers", 2)
            self.assertEqual(served["weights_sha256"], expected["weights_sha256"], name)
            self.assertEqual(served["final_train_loss"], expected["final_train_loss"], name)
            self.assertEqual(served.get("test_loss"), expected.get("test_loss"), name)
            self.assert_is_mesh(served, mesh)

    # A mesh that is ignored must fail.
    def assert_is_mesh(self, summary, mesh):
        shape = [mesh.get(f"parallel.{way}", 1) for way in ("data", "pipeline", "tensor")]
        self.assertEqual([summary["data"], summary["pipeline"], summary["tensor"]], shape)
        self.assertEqual(summary["workers"], shape[0] * shape[1] * shape[2])
        self.assertEqual(summary["threads"], mesh.get("parallel.threads", 1))
        chunks = 2 if mesh.get("parallel.schedule") == "interleaved" else 1
        places = [tuple(worker["stages"]) for worker in sorted(summary["per_worker"], key=lambda each: each["rank"])]
        self.assertEqual(places, [tuple(range(stage, shape[1] * chunks, shape[1])) for _ in range(shape[0])
                                  for stage in range(shape[1]) for _ in range(shape[2])])

    def kill_worker(self, name, replica, rank, after):
        """Waits until this worker has done a step beyond `after`, and kills it."""
        found = []

        def has_come_far():
            if (self.scratch / name / "events.jsonl").exists():
                found[:] = [worker for worker in self.status(name)["workers"] if worker["replica"] == replica
                            and worker["rank"] == rank and worker["step"] > after and worker["state"] == "training"]
            return bool(found)
        self.wait_until(has_come_far, f"worker {rank} of replica {replica} beyond step {after}")
        os.kill(found[0]["pid"], signal.SIGKILL)
        return found[0]


class SameBitsTest(MeshesTest):
    def test_threads_and_stages(self):
        self.assert_same_bits("resnet", {**RESNET, "train.max_steps": 4}, {"parallel.threads": 2}, PIPELINE)

    def test_slices(self):
        self.assert_same_bits("mlp", {**JOB, **DEEP}, TENSOR, alone=TENSOR)


class LostStageTest(MeshesTest):
    def test_a_killed_stage_brings_its_replica_down_and_nobody_else(self):
        job = {**ENDLESS, **OWN_STEPS, **WIDE, **PIPELINE, "parallel.mode": "async", "parallel.lanes": 4,
               "train.epochs": 10_000_000}
        run = self.start_training("killed", job, "--workers", 2)
        worker = self.kill_worker("killed", 1, 1, 20)
        self.assertEqual((worker["pipeline"], worker["tensor"]), (1, 0))
        self.wait_until(lambda: self.events("killed", "replica recovered"), "it is back")
        self.control("stop", "killed")
        self.assertEqual(self.finish(run).code, 130)
        self.assert_proven("killed")
        self.assertEqual([event["replica"] for event in self.events("killed", "replica lost")], [1])
        self.assertEqual({line["replica"] for line in self.updates("killed")}, {0, 1})


class MoreSameBitsTest(MeshesTest):
    def test_every_mesh(self):
        tied = {**GPT, "model.tied": True, "model.dropout": 0.1, "train.optimizer": "adamw", "train.lr": 0.001}
        for name, job, mesh, alone in (
                ("threads", RESNET, {"parallel.threads": 2, "parallel.data": 1}, {}),
                ("data-threads", {**JOB, "parallel.lanes": 8}, {"parallel.threads": 2, "parallel.data": 2}, {}),
                ("tied", tied, PIPELINE, {}),
                ("interleaved", {**RESNET, "parallel.lanes": 8}, {**PIPELINE, "parallel.schedule": "interleaved"}, {}),
                ("recomputed", {**JOB, **DEEP}, {**PIPELINE, "parallel.schedule": "gpipe", "parallel.recompute": True}, {}),
                ("data-pipeline", {**JOB, **DEEP, **WIDE}, {**PIPELINE, "parallel.data": 2}, {}),
                ("sliced-tied", tied, TENSOR, TENSOR),
                ("sliced-resnet", RESNET, TENSOR, TENSOR),
                ("sliced-stages", {**JOB, **WIDE}, {**PIPELINE, **TENSOR}, TENSOR)):
            with self.subTest(name):
                self.assert_same_bits(name, job, mesh, alone=alone)

    def test_a_killed_stage_comes_back_to_the_step_it_was_in(self):
        job = {**ENDLESS, **JOB, **WIDE, "train.epochs": 10_000_000, "train.schedule": "constant"}
        run = self.start_training("killed", {**job, **SYNC, **PIPELINE}, "--workers", 2)
        for times, rank in enumerate((1, 0), start=1):
            self.kill_worker("killed", 1, rank, 20)
            self.wait_until(lambda: len(self.events("killed", "replica recovered")) == times, "it is back")
        self.control("stop", "killed")
        self.assertEqual(self.finish(run).code, 130)
        self.assert_proven("killed")
        stopped = self.summary("killed")
        expected = self.train("undisturbed", {**job, "train.max_steps": stopped["steps"]}, "--workers", 1)
        self.assertEqual(stopped["weights_sha256"], expected["weights_sha256"])


class EveryModeTest(MeshesTest):
    """Replicas that take steps of their own: each piece of work counts once in every slice."""

    def test_each_piece_of_work_counts_once(self):
        for name, mesh, mode in (
                ("threads", {"parallel.threads": 2}, {"parallel.mode": "async"}),
                ("stages", PIPELINE, {"parallel.mode": "async", "parallel.push_every": 3, "parallel.fetch_every": 2}),
                ("bounded", PIPELINE, {"parallel.mode": "bounded", "parallel.staleness": 1,
                                       "parallel.delay_compensation": 0.1}),
                ("slices", TENSOR, {"parallel.mode": "async", "train.clip_norm": 1.0}),
                ("both", {**PIPELINE, **TENSOR}, {"parallel.mode": "hybrid"})):
            with self.subTest(name):
                job = {**OWN_STEPS, **WIDE, **mesh, **mode, "parallel.lanes": 4, "train.epochs": 6}
                summary = self.train(name, job, "--workers", 2)
                self.assertEqual(summary["steps"], 48)
                self.assert_each_ticket_once(name, -(-48 // mode.get("parallel.push_every", 1)))
                self.assertEqual(len({line["slice"] for line in self.updates(name)}), 4)
                self.assert_is_mesh(summary, mesh)

    def test_one_replica_has_the_bits_of_one_process(self):
        """Nobody else updates what it computes from, so the mesh must not be seen in the result."""
        job = {**OWN_STEPS, **DEEP, "parallel.mode": "async", "parallel.lanes": 4}
        whole = self.train("whole", job, "--workers", 1)
        for name, mesh in (("threads", {"parallel.threads": 2}), ("stages", PIPELINE)):
            self.assertEqual(self.train(name, {**job, **mesh}, "--workers", 1)["weights_sha256"], whole["weights_sha256"])

    def test_a_run_goes_on_from_its_checkpoint_in_another_mesh(self):
        job = {**OWN_STEPS, **DEEP, **PIPELINE, "parallel.mode": "async", "parallel.lanes": 4, "train.epochs": 4}
        self.train("run", job, "--workers", 2)
        for mesh in (("--set", "parallel.pipeline=1"), ("--set", "parallel.pipeline=3")):
            found = json.loads(self.distbelief("eval", self.scratch / "run", "--json").out)
            self.assertEqual(found["test_loss"], self.summary("run")["test_loss"])
            epochs = self.summary("run")["epochs"] + 2
            self.distbelief("resume", self.scratch / "run", "--set", f"train.epochs={epochs}", *mesh)
            self.assertEqual(self.summary("run")["epochs"], epochs)
            self.assert_proven("run")


if __name__ == "__main__":
    program.main()
