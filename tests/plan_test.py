"""`distbelief plan` says which layouts of a job there are, and parallel.mesh = "auto" trains the first of them."""
import json
import re

import program
from program import GPT, MLP, settings

AUTO = {**GPT, "parallel.lanes": 0, "parallel.mesh": "auto", "train.max_steps": 3, "train.validate_every": 0}


class PlanTest(program.ProgramTest):
    def planned(self, job, *arguments):
        return json.loads(self.distbelief("plan", "--json", *settings(job), *arguments).out)

    def test_the_answer_for_programs_has_every_mesh_once_planned_or_left_out(self):
        plan = self.planned(GPT, "--workers", 2)
        meshes = {(each["data"], each["pipeline"], each["tensor"]) for each in plan["layouts"] + plan["left_out"]}
        self.assertEqual(meshes, {(2, 1, 1), (1, 2, 1), (1, 1, 2)})
        times = [each["step_seconds"] for each in plan["layouts"]]
        for earlier, later in zip(times, times[1:]):
            self.assertLessEqual(earlier, later * 1.01)
        for each in plan["layouts"]:
            parts = each["bytes"]
            self.assertEqual(each["worker_bytes"], sum(parts.values()) - parts["mapped"])
            self.assertEqual(each["lanes"], 4)
        blocks = plan["measured"]["lanes"][0]["blocks"]
        self.assertTrue(all(block["forward_seconds"] > 0 and block["activation_bytes"] > 0 for block in blocks), blocks)

    def test_the_table_and_the_least_memory(self):
        shown = self.distbelief("plan", *settings(MLP), "--workers", 1)
        self.assertRegex(shown.out, r"(?m)^mesh +schedule +lanes +step ms +samples/s +per worker +note$")
        self.assertRegex(shown.out, r"(?m)^data 1 +- +4 +\d+\.\d+ ")
        self.assertIn("measuring mlp on 1 worker", shown.err)
        refused = self.distbelief("plan", *settings(MLP), "--workers", 1, "--memory-per-worker", "1M", code=2).err
        self.assertRegex(refused, r"no layout fits 1\.0 MiB per worker; data 1, 4 lanes needs least, [\d.]+ [MG]iB")
        refused = self.distbelief("plan", *settings(MLP), "--memory-per-worker", "much", code=2).err
        self.assertIn("wants a size like 1.2G or 800M, found 'much'", refused)


class AutoTest(program.ProgramTest):
    def test_trains_what_it_says_and_goes_on_so(self):
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", *settings(AUTO), "--workers", 2)
        said = re.search(r'"auto" takes data (\d)(?: x pipeline (\d))?(?: x tensor (\d))?.*?, (\d+) lanes?: [\d.]+ ms',
                         outcome.err)
        self.assertIsNotNone(said, outcome.err)
        mesh = {"data": int(said[1]), "pipeline": int(said[2] or 1), "tensor": int(said[3] or 1), "lanes": int(said[4])}
        summary = self.summary("run")
        self.assertEqual({key: summary[key] for key in mesh}, mesh)
        self.assertIn('mesh = "given"', (self.scratch / "run" / "job.toml").read_text())
        resumed = self.distbelief("resume", "run", "--set", "train.max_steps=5")
        self.assertNotIn("measuring", resumed.err)
        self.assertEqual({key: self.summary("run")[key] for key in mesh}, mesh)

    def test_what_it_chooses_cannot_be_given_too(self):
        outcome = self.distbelief("check", *settings({**AUTO, "parallel.pipeline": 2}), code=2)
        self.assertIn('parallel.mesh = "auto" chooses parallel.pipeline itself', outcome.err)
        self.distbelief("check", *settings(AUTO))


if __name__ == "__main__":
    program.main()
