"""A loop of one's own under `distbelief launch`: examples/elastic_loop.cc killed, scaled, paused, stopped, and run
without a supervisor. It ends with the bits of an undisturbed run of as many workers, and deals each sample once per
epoch whatever happens."""
import collections
import os
import re
import signal

import program
from program import PROGRAM, SOURCE

LOOP = os.environ.get("DISTBELIEF_ELASTIC_LOOP", "")
SAMPLES, BATCH = 4003, 64
STEPS_PER_EPOCH = -(-SAMPLES // BATCH)
EPOCHS = 48  # several times as long as asking for the status takes
ENDLESS = 10_000_000
DONE = re.compile(r"^done after (\d+) steps, weights (\w{64})$", re.M)

_weights = {}  # of undisturbed runs, by number of workers


class LaunchTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.given = self.scratch / "given"

    def start_loop(self, name, *flags, workers=2, epochs=EPOCHS):
        self.given.unlink(missing_ok=True)
        return self.start([PROGRAM, "launch", "--workers", workers, "--run-dir", name, *flags, "--", LOOP, epochs,
                           self.given])

    def lines(self):
        """Epoch, step, workers, worker, samples of each batch that somebody has worked on."""
        text = self.given.read_text() if self.given.exists() else ""
        return [list(map(int, line.split())) for line in text.split("\n")[:-1]]

    def wait_for_step(self, step, child):
        self.wait_until(lambda: child.poll() is not None or any(line[1] >= step for line in self.lines()),
                        f"step {step}")
        self.assertIsNone(child.poll(), f"it ended by itself\n{self.shown()}")

    def ended(self, child, code=0):
        outcome = self.finish(child)
        self.assertEqual(outcome.code, code, outcome.out + outcome.err)
        return outcome

    def undisturbed(self, workers):
        if workers not in _weights:
            outcome = self.ended(self.start_loop(f"undisturbed{workers}", workers=workers))
            self.assert_each_sample_once()
            _weights[workers] = DONE.search(outcome.out)[2]
        return _weights[workers]

    def assert_each_sample_once(self, steps_done=EPOCHS * STEPS_PER_EPOCH):
        """In each whole epoch. Of a step that was done again, the last time counts: what was done before it was lost."""
        steps = collections.defaultdict(dict)
        for epoch, step, workers, rank, *samples in self.lines():
            steps[step][rank] = (epoch, workers, samples)
            steps[step] = {one: done for one, done in steps[step].items() if done[1] == workers}
        self.assertEqual(sorted(steps), list(range(steps_done)))
        dealt = collections.defaultdict(list)
        for step, ranks in steps.items():
            self.assertEqual(sorted(ranks), list(range(next(iter(ranks.values()))[1])), f"step {step}")
            for epoch, _, samples in ranks.values():
                self.assertEqual(epoch, step // STEPS_PER_EPOCH)
                dealt[epoch] += samples
        for epoch in range(steps_done // STEPS_PER_EPOCH):
            self.assertEqual(sorted(dealt[epoch]), list(range(SAMPLES)), f"epoch {epoch}")

    def assert_done(self, outcome):
        found = DONE.findall(outcome.out)
        self.assertEqual(len(found), 1, f"somebody else was done too, or nobody\n{outcome.out}\n{outcome.err}")
        self.assertEqual(int(found[0][0]), EPOCHS * STEPS_PER_EPOCH)
        self.assert_each_sample_once()
        return found[0][1]


class LostWorkerTest(LaunchTest):
    def kill(self, name, victim, *flags):
        child = self.start_loop(name, *flags)
        self.wait_for_step(2 * STEPS_PER_EPOCH + 7, child)
        self.wait_until(lambda: child.poll() is not None or self.status(name)["snapshot_step"] > 1, "a second snapshot")
        before = self.status(name)
        self.assertEqual([worker["rank"] for worker in before["workers"]], [0, 1])
        os.kill(before["workers"][victim]["pid"], signal.SIGKILL)
        outcome = self.ended(child)
        weights = self.assert_done(outcome)
        self.assertRegex(outcome.err, r"worker \d lost \(signal 9\) at step \d+; continued with 2 workers from step")
        self.assertEqual([event["generation"] for event in self.events(name, "generation")], [1, 2])
        [resumed] = self.events(name, "resumed")
        self.assertGreater(resumed["step"], 1, "it did not go on from a snapshot but began anew")
        self.assertEqual(weights, self.undisturbed(2))

    def test_a_killed_worker_is_replaced_and_the_weights_have_the_same_bits(self):
        self.kill("run", 1)

    def test_a_killed_first_worker_is_replaced_by_a_standby(self):
        self.kill("standby", 0, "--set", "elastic.standby=true")


class ControlTest(LaunchTest):
    def test_scales_from_2_to_1_to_2_while_it_runs(self):
        child = self.start_loop("run", epochs=ENDLESS)
        self.wait_for_step(20, child)
        for workers in (1, 2):
            self.control("scale", "run", workers)
            begun = self.lines()[-1][1]
            self.wait_until(lambda: self.lines()[-1][2] == workers or child.poll() is not None, f"{workers} workers")
            self.wait_for_step(max(begun, self.lines()[-1][1]) + 2 * STEPS_PER_EPOCH, child)
        self.control("stop", "run")
        self.ended(child, code=130)
        self.assert_each_sample_once(self.lines()[-1][1] + 1)
        self.assertEqual([event["workers"] for event in self.events("run", "generation")], [2, 1, 2])
        self.assertEqual(self.events("run", "lost"), [])
        self.assertEqual({line[2] for line in self.lines()}, {1, 2}, "one of the sizes did nothing")

    def test_pauses_stops_and_goes_on_to_the_same_bits(self):
        child = self.start_loop("run")
        self.wait_for_step(30, child)
        self.control("pause", "run")
        self.wait_until(lambda: {one["state"] for one in self.status("run")["workers"]} == {"paused"}, "all pause")
        paused_at = self.status("run")["step"]
        self.assertEqual(self.status("run")["step"], paused_at)
        self.control("resume", "run")
        self.wait_for_step(paused_at + 10, child)
        self.control("stop", "run")
        outcome = self.ended(child, code=130)
        self.assertIn("distbelief resume run", outcome.err)
        self.assertEqual(len(list((self.scratch / "run" / "checkpoints").glob("step-*"))), 1)
        self.control("status", "run", code=1)
        outcome = self.ended(self.start([PROGRAM, "resume", "run"]))
        self.assertEqual(self.assert_done(outcome), self.undisturbed(2))
        self.assertIn("finished (done)", self.control("status", "run"))

    def test_ctrl_c_saves_and_ends(self):
        child = self.start_loop("run")
        self.wait_for_step(30, child)
        os.kill(child.pid, signal.SIGINT)
        self.ended(child, code=130)
        self.assertEqual(len(list((self.scratch / "run" / "checkpoints").glob("step-*"))), 1)

    def test_a_killed_supervisor_takes_its_workers_along_and_they_save(self):
        child = self.start_loop("run")
        self.wait_for_step(30, child)
        child.kill()
        child.wait(10)
        self.assert_all_gone(10)
        self.assertEqual(len(list((self.scratch / "run" / "checkpoints").glob("step-*"))), 1)


class RefusalTest(LaunchTest):
    def test_what_cannot_work_is_refused_with_a_reason(self):
        refused = self.distbelief("launch", "--", "./no_such_program", code=2)
        self.assertIn("./no_such_program is not a program", refused.err)
        refused = self.distbelief("launch", "--set", "train.lr=1", "--", LOOP, code=2)
        self.assertIn("distbelief launch knows elastic.min", refused.err)
        self.assertFalse((self.scratch / "runs").exists())

    def test_a_program_without_tracking_is_told_so(self):
        failed = self.distbelief("launch", "--run-dir", "run", "--", "true", code=1)
        self.assertIn("distbelief::elastic::Tracked", failed.err)
        self.assertIn("holds a run already", self.distbelief("launch", "--run-dir", "run", "--", "true", code=2).err)


class WithoutSupervisorTest(LaunchTest):
    def run_loop(self, workers, *arguments):
        self.environment["OMP_NUM_THREADS"] = "1"
        return self.command(*(program.mpirun(workers) if workers > 1 else []), LOOP, *arguments)

    def test_alone_and_under_plain_mpirun_as_ever(self):
        self.assertLess(len((SOURCE / "examples" / "elastic_loop.cc").read_text().splitlines()), 100)
        for workers in (1, 2):
            self.given.unlink(missing_ok=True)
            outcome = self.run_loop(workers, 2, self.given)
            self.assertEqual(len(DONE.findall(outcome.out)), 1, outcome.out)
            self.assert_each_sample_once(2 * STEPS_PER_EPOCH)

    def test_goes_on_from_its_folder_with_another_number_of_workers(self):
        for workers, epochs in ((2, 1), (1, 2), (3, 3)):
            outcome = self.run_loop(workers, epochs, self.given, "kept")
            self.assertEqual(int(DONE.search(outcome.out)[1]), epochs * STEPS_PER_EPOCH)
        self.assertEqual(len(self.lines()), (2 + 1 + 3) * STEPS_PER_EPOCH, "some steps were done twice")
        self.assert_each_sample_once(3 * STEPS_PER_EPOCH)


if __name__ == "__main__":
    program.main()
