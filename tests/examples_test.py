"""The example jobs of the features: the command at the head of each does what the lines below it expect."""
import re
import shlex

import program
from program import SOURCE

JOBS = SOURCE / "examples" / "jobs"
COMMAND = re.compile(r"^#   distbelief (train examples/jobs/.*)$", re.MULTILINE)
SCORE = re.compile(r"[Ee]xpect an? (\w+) (above|below) ([\d.]+\d)")
SAME = re.compile(r"the weights of ([\w.]+\.toml)")
LAYOUTS = ("zero_1", "zero_2", "zero_3", "pipeline", "mesh", "tensor", "elastic", "servers_sync")
MODES = ("servers_async", "servers_bounded", "servers_hybrid", "servers_spare_replicas", "servers_decomposed",
         "servers_tables")
WHOLE_BATCH = ("lbfgs", "servers_sandblaster")
HOSTS = ("spare_hosts",)


class ExamplesTest(program.ProgramTest):
    def expectations(self, name):
        """(command, score, above or below, bound) of a job's first lines."""
        head = (JOBS / f"{name}.toml").read_text().split("\n[")[0]
        command, score = COMMAND.search(head), SCORE.search(head.replace("\n# ", " "))
        self.assertTrue(command and score, f"{name}.toml does not begin with a command and what to expect of it")
        return (shlex.split(command[1].replace("examples/jobs", str(JOBS))), *score.groups())

    def assert_as_expected(self, *names):
        """Trains each job once; those that promise each other's weights have the same ones."""
        weights = {}
        for name in names:
            with self.subTest(job=name):
                command, score, side, bound = self.expectations(name)
                self.distbelief(*command, "--run-dir", name)
                summary = self.summary(name)
                found = summary["test_metrics"].get(score, summary.get(score))
                self.assertTrue(found > float(bound) if side == "above" else found < float(bound),
                                f"{score} is {found}, expected {side} {bound}")
                weights[f"{name}.toml"] = summary["weights_sha256"]
        for name in names:
            for other in SAME.findall((JOBS / f"{name}.toml").read_text()):
                self.assertEqual(weights[f"{name}.toml"], weights[other], f"{name} and {other}")


class LayoutsTest(ExamplesTest):
    def test_every_layout_of_one_job(self):
        self.assert_as_expected(*LAYOUTS)
        self.assertEqual([event["worker"] for event in self.events("elastic", "lost")], [1])


class ServersTest(ExamplesTest):
    def test_every_mode_of_parameter_servers(self):
        self.assert_as_expected(*MODES)

    def test_the_whole_batch_with_servers_and_without(self):
        self.assert_as_expected(*WHOLE_BATCH)

    def test_every_job_that_says_what_to_expect_is_run(self):
        heads = {path.stem: path.read_text().split("\n[")[0].replace("\n# ", " ") for path in JOBS.glob("*.toml")}
        self.assertEqual({name for name, head in heads.items() if SCORE.search(head)},
                         {*LAYOUTS, *MODES, *WHOLE_BATCH, *HOSTS})


class HostsTest(ExamplesTest):
    def command_of(self, name):
        """Below tools/emulated_hosts, as its first lines say."""
        words = shlex.split(re.search(r"^#   tools/(emulated_hosts .*)$", (JOBS / f"{name}.toml").read_text(), re.MULTILINE)[1])
        whole = {"emulated_hosts": SOURCE / "tools" / "emulated_hosts", "distbelief": program.PROGRAM}
        return [whole.get(word, word.replace("examples/jobs", str(JOBS))) for word in words]

    def test_spare_hosts(self):
        check = self.finish(self.start([SOURCE / "tools" / "emulated_hosts", "check"]))
        if check.code == 77:
            program.cannot((check.out + check.err).strip().replace(program.EXCUSE, ""))
        self.command(*self.command_of("spare_hosts"), "--run-dir", self.scratch / "spare_hosts")
        found = self.summary("spare_hosts")
        self.assertGreater(found["test_accuracy"], 0.75)
        self.assert_as_expected("zero_1")
        self.assertEqual(found["weights_sha256"], self.summary("zero_1")["weights_sha256"])


if __name__ == "__main__":
    program.main()
