"""Tables on parameter servers: rows are learnt, saved, loaded again and used; a lost server loses none of them."""
import json
import os
import random
import signal

import program
from program import settings

SERVED = {"parallel.sync": "parameter_server", "parallel.servers": 2, "parallel.mode": "async", "parallel.lanes": 1,
          "train.optimizer": "adagrad", "train.weight_decay": 0, "report.interval_seconds": 0.05}
CLICKS = {**SERVED, "model.name": "click_through", "model.width": 8, "model.hidden": [16], "data.name": "synthetic_clicks",
          "data.samples": 60000, "data.test_samples": 4000, "train.batch_size": 200, "train.epochs": 1, "train.lr": 0.05}
KINDS = {"animal": ["cat", "dog", "horse", "cow", "sheep"], "fruit": ["apple", "pear", "plum", "cherry", "grape"],
         "tool": ["hammer", "saw", "drill", "file", "wrench"]}
CONTEXTS = {"animal": ["runs", "sleeps", "barks", "field", "tail", "fur"], "fruit": ["sweet", "ripe", "tree", "juice", "eaten", "peel"],
            "tool": ["iron", "handle", "workshop", "repairs", "steel", "bench"]}


def sentences(count, seed=1):
    """Words of one kind stand among the same words."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        kind = draw.choice(list(KINDS))
        words = [draw.choice(KINDS[kind])] + draw.sample(CONTEXTS[kind], 3) + [draw.choice(["the", "a", "and", "of"])]
        draw.shuffle(words)
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


class TablesTest(program.ProgramTest):
    def saved(self, name):
        newest = max((self.scratch / name / "tables").glob("step-*"))
        return json.loads((newest / "tables.json").read_text())

    def assert_proven(self, name):
        """The logs prove that every push counts once. Gives how many of rows there were."""
        found = json.loads(self.control("audit", self.scratch / name, "--json"))
        self.assertTrue(found["proven"], found["finding"])
        self.assertGreater(found["acknowledged"], 0)
        return found["row_pushes"]

    def evaluated(self, name, *arguments):
        return json.loads(self.distbelief("eval", name, "--json", *arguments).out)


class ClicksTest(TablesTest):
    def test_ids_are_learnt_beyond_what_no_ids_could(self):
        summary = self.train("clicks", CLICKS, "--workers", 2)
        self.assertGreater(summary["test_metrics"]["auc"], 0.57)  # 0.5 without ids; 0.009 either way on 4000 samples
        rows = self.saved("clicks")["ids"]
        self.assertGreater(rows["rows"], 50000)  # of 100 million possible
        self.assertEqual(rows["gone"], 0)
        evaluated = self.evaluated("clicks")
        self.assertAlmostEqual(evaluated["test_metrics"]["auc"], summary["test_metrics"]["auc"], places=9)
        self.assertAlmostEqual(evaluated["test_loss"], summary["test_loss"], places=9)
        answers = json.loads(self.distbelief("predict", "clicks", "test:0-3", "--json").out)
        self.assertEqual(len(answers), 4)
        self.assertGreater(len({answer["classes"][0]["probability"] for answer in answers}), 1)

    def test_a_bound_is_kept(self):
        self.train("bounded", {**CLICKS, "model.most_rows": 6400, "data.samples": 20000}, "--workers", 2)
        rows = self.saved("bounded")["ids"]
        self.assertLessEqual(rows["rows"], 6400)
        self.assertGreater(rows["gone"], 1000)
        said = self.events("bounded", "rows saved")[-1]
        self.assertEqual((said["rows"], said["gone"]), (rows["rows"], rows["gone"]))
        piece = next((self.scratch / "bounded" / "tables").glob("step-*/ids-00000.safetensors"))
        damaged = bytearray(piece.read_bytes())
        damaged[-5] ^= 1
        piece.write_bytes(damaged)
        self.assertIn("not what was saved", self.distbelief("eval", "bounded", code=2).err)


class KeptTest(TablesTest):
    def test_a_lost_server_loses_no_row(self):
        run = self.start_training("lost", {**CLICKS, "data.samples": 160000}, "--workers", 2)
        server = self.status("lost")["servers"][0]
        os.kill(server["pid"], signal.SIGKILL)
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertGreater(self.summary("lost")["test_metrics"]["auc"], 0.57)
        self.assertGreater(self.saved("lost")["ids"]["rows"], 100000)
        self.assertEqual(self.assert_proven("lost"), 800)

    def test_servers_come_and_go(self):
        run = self.start_training("scaled", {**CLICKS, "data.samples": 100000, "train.epochs": 1000}, "--workers", 2)
        for servers in (4, 1, 2):
            self.control("scale", "scaled", "--servers", servers)
            self.wait_until(lambda count=servers: [server["primary"] for server in self.status("scaled")["servers"]
                                                   if server["state"] == "serving"] == [64 // count] * count,
                            f"{servers} servers with as many parts each")
        self.control("stop", "scaled")
        self.assertEqual(self.finish(run).code, 130)
        self.assertGreater(self.saved("scaled")["ids"]["rows"], 20000)
        self.assert_proven("scaled")
        self.assertEqual(len(self.events("scaled", "server left")), 3)
        self.assertEqual(self.events("scaled", "server lost") + self.events("scaled", "replica lost"), [])

    def test_a_resumed_run_goes_on_with_its_rows(self):
        job = {**CLICKS, "data.samples": 100000, "checkpoint.every_steps": 40, "train.epochs": 50}
        run = self.start_training("stopped", job, "--workers", 2)
        self.wait_until(lambda: list((self.scratch / "stopped" / "checkpoints").glob("step-*")), "a checkpoint")
        self.control("stop", "stopped")
        self.finish(run)
        before = self.saved("stopped")["ids"]["rows"]
        step = max(int(path.name[5:]) for path in (self.scratch / "stopped" / "checkpoints").glob("step-*"))
        # What follows takes one step: it could not make as many rows by itself.
        self.distbelief("resume", "stopped", *settings({"train.max_steps": step + 1, "train.validate_every": 0,
                                                        "checkpoint.every_epochs": 0, "checkpoint.every_steps": 0}))
        self.assertGreater(before, 20000)
        self.assertGreaterEqual(self.saved("stopped")["ids"]["rows"], before)
        self.assertGreater(max((self.scratch / "stopped" / "tables").glob("step-*")).name, f"step-{step:08}")


class WordsTest(TablesTest):
    def test_words_of_a_kind_are_nearest(self):
        (self.scratch / "text.txt").write_text(sentences(4000))
        job = {**SERVED, "model.name": "word2vec", "model.width": 16, "model.window": 4, "data.name": "text",
               "data.path": str(self.scratch / "text.txt"), "data.level": "sentences", "data.length": 6,
               "train.batch_size": 50, "train.epochs": 6, "train.lr": 0.05}
        summary = self.train("words", job, "--workers", 2)
        self.assertGreater(summary["test_metrics"]["recognised"], 0.5)
        self.assertEqual(self.assert_proven("words"), 2 * summary["steps"])  # of two tables
        all_words = [word for kind in KINDS.values() for word in kind]
        answers = json.loads(self.distbelief("nearest", "words", *all_words, "--top", 4, "--json").out)
        right = [each["word"] in KINDS[kind] for answer in answers for kind in KINDS if answer["word"] in KINDS[kind]
                 for each in answer["nearest"]]
        self.assertEqual(len(right), 60)
        self.assertGreater(sum(right), 54, answers)
        self.assertIn("cat:", self.distbelief("nearest", "words", "cat").out)
        self.assertIn("no word", self.distbelief("nearest", "words", "submarine", code=2).err)
        self.assertIn("nearest", self.distbelief("predict", "words", "test:0", code=2).err)


class RefusalTest(TablesTest):
    def test_what_cannot_be_is_refused_before_anything_starts(self):
        for changes, key in (({"parallel.mode": "sync"}, "parallel.mode"), ({"parallel.push_every": 2}, "push_every"),
                             ({"parallel.data": 2, "parallel.lanes": 2}, "parallel.data"),
                             ({"parallel.sync": "allreduce", "parallel.servers": 1, "parallel.mode": "sync"}, "parallel.sync")):
            outcome = self.distbelief("check", *settings({**CLICKS, **changes}), code=2)
            self.assertIn(key, outcome.err)


if __name__ == "__main__":
    program.main()
