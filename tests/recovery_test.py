"""Lost workers, launchers and supervisors: the run goes on, ends with the bits of one that nothing happened to, and
nothing is left behind. Also the commands that change a run while it trains."""
import collections
import glob
import json
import os
import pathlib
import signal
import time

import program
from program import ENDLESS, MLP, PROGRAM, settings

# Some seconds long, so that it is caught in the middle; what a restart has to bring back: weights, the optimizer's
# state, the schedule's place, randomness, the place in the epoch.
JOB = {**MLP, "data.samples": 128, "train.epochs": 400, "train.optimizer": "adamw", "train.lr": 0.001,
       "model.dropout": 0.2, "train.validate_every": 0, "checkpoint.every_epochs": 0, "report.interval_seconds": 0.02,
       "report.audit": True}
# For faults that are ordered: no need to wait for them.
SHORT = {**JOB, "train.epochs": 40}
# Goes on until it is stopped; a run of any length is the beginning of every longer one.
UNBOUNDED = {**ENDLESS, "train.optimizer": "adamw", "train.lr": 0.001, "train.schedule": "constant",
             "model.dropout": 0.2, "report.audit": True}

NO_BITS = ("elastic.", "checkpoint.", "report.", "parallel.deadline_seconds")  # settings that leave the bits alone
_weights = {}  # of undisturbed runs, by job


class RecoveryTest(program.ProgramTest):
    def undisturbed(self, job):
        """weights_sha256 of the job when nothing happens to it."""
        key = json.dumps({name: value for name, value in job.items() if not name.startswith(NO_BITS)}, sort_keys=True)
        if key not in _weights:
            _weights[key] = self.train("undisturbed", job, "--workers", 2)["weights_sha256"]
        return _weights[key]

    def wait_for_event(self, name, kind, count=1, within=30):
        self.wait_until(lambda: len(self.events(name, kind)) >= count, f"event '{kind}' number {count}", within)
        return self.events(name, kind)[count - 1]

    def assert_as_undisturbed(self, name, job, *, generations):
        summary = self.summary(name)
        self.assertEqual(summary["status"], "done")
        self.assertEqual(summary["weights_sha256"], self.undisturbed(job))
        self.assertEqual(summary["generations"], generations)
        self.assert_each_sample_once(name, summary["steps"])
        self.assertEqual([event["generation"] for event in self.events(name, "generation")],
                         list(range(1, generations + 1)))

    def assert_each_sample_once(self, name, steps):
        audit = json.loads(self.control("audit", name, "--json"))
        self.assertTrue(audit["proven"], audit)
        self.assertEqual(audit["steps"], steps)

    def assert_recovered(self, name, *, losses=1):
        """Losses in a row were answered by restarts, the last of which came to new steps."""
        lost = self.events(name, "lost")
        self.assertEqual([event["decision"] for event in lost], ["restart"] * losses, lost)
        [recovered] = self.events(name, "recovered")
        self.assertEqual(recovered["generation"], 1 + losses)
        self.assertGreater(recovered["seconds"], 0)
        self.assertEqual(recovered["from_step"], self.events(name, "resumed")[-1]["step"])
        self.assertGreater(recovered["step"], recovered["from_step"])
        return lost

    def assert_beginning_of_undisturbed(self, name):
        """A stopped run has the bits of one that was to end there."""
        summary = self.summary(name)
        self.assertEqual(summary["status"], "interrupted")
        whole = self.train("whole", {**UNBOUNDED, "train.max_steps": summary["steps"]}, "--workers", 1)
        self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
        self.assert_each_sample_once(name, summary["steps"])

    def launcher_of(self, supervisor):
        """Process id of the launcher that a supervisor has started."""
        for pid in self.processes():
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            if int(stat[1]) == supervisor.pid:
                return pid
        self.fail("the supervisor has no launcher")


class WorkerLossTest(RecoveryTest):
    def lose(self, name, strike, job=JOB, arguments=(), within=60):
        """Trains with two workers, strikes in the middle, and gives the process ids before it and the outcome."""
        child = self.start_training(name, job, "--workers", 2, *arguments)
        before = self.workers()
        self.assertEqual(sorted(before), [0, 1])
        strike(child, before)
        outcome = self.finish(child, within)
        self.assertEqual(outcome.code, 0, outcome.err)
        return before, outcome

    def pids_after(self, name):
        return {worker["rank"]: worker["pid"] for worker in self.summary(name)["per_worker"]}

    def kill_one(self, rank):
        name = f"run{rank}"
        before, outcome = self.lose(name, lambda _, workers: os.kill(workers[rank], signal.SIGKILL))
        self.assertRegex(outcome.err, rf"worker {rank} lost \(signal 9\) at step \d+; "
                                      r"continued with 2 workers from step \d+ after \d+\.\d s")
        self.assertFalse(set(before.values()) & set(self.pids_after(name).values()), "a process was kept")
        [lost] = self.assert_recovered(name)
        self.assertEqual((lost["worker"], lost["signal"]), (rank, signal.SIGKILL))
        self.assertTrue(0 < lost["step"] < self.summary(name)["steps"], lost)
        self.assert_as_undisturbed(name, JOB, generations=2)
        self.assertEqual(self.summary(name)["recoveries"], 1)

    def notice(self, number):
        """A worker is sent a signal, as by a scheduler that wants the machine back."""
        child = self.start_training("run", UNBOUNDED, "--workers", 2)
        os.kill(self.workers()[1], number)
        outcome = self.finish(child, 20)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertIn("about to go", outcome.err)
        self.assertEqual(self.events("run", "lost"), [])
        self.assert_beginning_of_undisturbed("run")

    def cohorts(self):
        """Process ids of the workers by the number of their launch."""
        found = collections.defaultdict(list)
        for pid in self.processes():
            try:
                arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            except OSError:
                continue
            if arguments[1:2] == ["worker"]:
                found[int(arguments[arguments.index("--cohort") + 1])].append(pid)
        return found


class LostWorkerTest(WorkerLossTest):
    def test_killed_worker_1_is_replaced(self):
        self.kill_one(1)

    def test_a_stopped_worker_is_named_and_replaced(self):
        job = {**JOB, "parallel.deadline_seconds": 2}
        before, outcome = self.lose("run", lambda _, workers: os.kill(workers[1], signal.SIGSTOP), job)
        [lost] = self.assert_recovered("run")
        self.assertEqual(lost["worker"], 1, "who is silent is lost, not who noticed")
        self.assertIn("worker 1 lost", outcome.err)
        self.assertRegex(lost["reason"], r"(worker|rank)s? 1\b")
        self.assertRegex(lost["reason"], r"2(\.0)? ?s")
        self.assertIn(lost["reason"], outcome.err)
        self.assertFalse(set(before.values()) & set(self.pids_after("run").values()), "a process was kept")
        self.assert_as_undisturbed("run", job, generations=2)

    def test_a_stopped_worker_that_is_alone_is_noticed_by_the_supervisor(self):
        job = {**UNBOUNDED, "parallel.deadline_seconds": 1.5}
        child = self.start_training("run", job, "--workers", 1)
        [worker] = self.workers().values()
        os.kill(worker, signal.SIGSTOP)
        self.wait_for_event("run", "recovered")
        self.assertNotIn(worker, self.workers().values())
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 10).code, 130)
        [lost] = self.assert_recovered("run")
        self.assertEqual(lost["worker"], 0)
        self.assertRegex(lost["reason"], r"no progress for \d+ s, in phase \w+")
        self.assert_beginning_of_undisturbed("run")

    def test_a_killed_launcher_is_replaced(self):
        before, outcome = self.lose("run", lambda child, _: os.kill(self.launcher_of(child), signal.SIGKILL))
        [lost] = self.assert_recovered("run")
        self.assertEqual((lost["launcher"], lost["worker"], lost["signal"]), (True, -1, signal.SIGKILL))
        self.assertIn("the launcher was lost (signal 9)", outcome.err)
        self.assertFalse(set(before.values()) & set(self.pids_after("run").values()), "a process was kept")
        self.assert_as_undisturbed("run", JOB, generations=2)

    def test_term_to_a_worker_is_a_notice(self):
        self.notice(signal.SIGTERM)

    def test_a_standby_takes_the_place_of_a_killed_worker(self):
        waiting = []

        def strike(_, workers):
            self.wait_until(lambda: len(self.cohorts().get(2, [])) == 2, "the next workers were started")
            waiting.extend(self.cohorts()[2])
            os.kill(self.cohorts()[1][0], signal.SIGKILL)

        job = {**JOB, "elastic.standby": True}
        self.lose("run", strike, job)
        self.assert_recovered("run")
        self.assertEqual(sorted(self.pids_after("run").values()), sorted(waiting))
        self.assert_as_undisturbed("run", job, generations=2)


class MoreLostWorkersTest(WorkerLossTest):
    def test_killed_worker_0_is_replaced(self):
        self.kill_one(0)

    def test_each_of_two_losses_in_a_row_is_told_once(self):
        def strike(child, workers):
            os.kill(workers[1], signal.SIGKILL)
            self.wait_until(lambda: len(self.cohorts().get(2, [])) == 2, "the next workers were started")
            os.kill(self.launcher_of(child), signal.SIGKILL)

        _, outcome = self.lose("run", strike)
        self.assertEqual(len(self.events("run", "lost")), 2)
        self.assertEqual(outcome.err.count("worker 1 lost (signal 9)"), 1, outcome.err)
        self.assertEqual(outcome.err.count("the launcher was lost (signal 9)"), 1, outcome.err)
        self.assertEqual(outcome.err.count("continued with 2 workers"), 1, outcome.err)

    def test_usr1_to_a_worker_is_a_notice(self):
        self.notice(signal.SIGUSR1)

    def test_killed_worker_of_a_network_with_batch_norm(self):
        job = {**program.RESNET, "report.audit": True}
        self.train("run", job, "--workers", 2, "--inject", "kill:rank=1,step=4")
        self.assert_recovered("run")
        self.assert_as_undisturbed("run", job, generations=2)

    def test_workers_that_leave_unasked_are_not_said_to_have_got_a_signal(self):
        _, outcome = self.lose("run", lambda _, workers: [os.kill(pid, signal.SIGINT) for pid in workers.values()])
        [lost] = self.assert_recovered("run")
        self.assertEqual((lost["signal"], lost["exit_code"]), (0, 130))
        self.assertIn("saved and left", outcome.err)


class NamedPointsTest(RecoveryTest):
    def kill_at(self, *faults, job=SHORT, generations=2):
        flags = [flag for fault in faults for flag in ("--inject", fault)]
        self.train("run", job, "--workers", 2, *flags)
        lost = self.assert_recovered("run", losses=generations - 1)
        self.assertEqual({event["signal"] for event in lost}, {signal.SIGKILL})
        self.assert_as_undisturbed("run", job, generations=generations)

    def any_step(self, fault, first, count):
        """A fault at the first of these steps that passes its point: when snapshots are taken is a matter of time."""
        return [f"{fault},step={step}" for step in range(first, first + count)]

    def test_between_two_steps(self):
        self.kill_at("kill:rank=1,step=37")

    def test_in_the_middle_of_backward(self):
        self.kill_at("kill:rank=0,step=37,point=mid-bucket")

    def test_in_the_middle_of_the_first_snapshot(self):
        self.kill_at("kill:rank=1,step=1,point=mid-snapshot")

    def test_in_the_middle_of_a_later_snapshot(self):
        self.kill_at(*self.any_step("kill:rank=0,point=mid-snapshot", 30, 200))

    def test_in_the_middle_of_renaming_a_checkpoint(self):
        job = {**SHORT, "checkpoint.every_steps": 100, "checkpoint.keep": 9}
        self.kill_at("kill:rank=0,step=200,point=mid-rename", job=job)
        kept = {path.name for path in (self.scratch / "run" / "checkpoints").glob("step-*")}
        self.assertLessEqual({"step-00000100", "step-00000300"}, kept)

    def test_with_the_newest_snapshot_damaged(self):
        self.kill_at("corrupt-snapshot:rank=1,step=60")
        [resumed] = self.events("run", "resumed")
        self.assertGreater(resumed["step"], 0, "the snapshot before it was not used")
        self.assertLess(resumed["step"], 60, "the damaged snapshot, the first from step 60 on, was used")

    def test_in_the_middle_of_a_restart(self):
        self.kill_at("kill:rank=1,step=40", *self.any_step("kill:rank=0,generation=2,point=mid-restart", 0, 41),
                     generations=3)


class DriftTest(RecoveryTest):
    job = {**program.RESNET, "train.verify_every": 2, "report.audit": True}

    def drift(self, rank):
        self.train("run", self.job, "--workers", 3, "--inject", f"drift:rank={rank},step=4")
        [lost] = self.assert_recovered("run")
        self.assertEqual(lost["worker"], rank, "who drifted is to blame, not who noticed")
        self.assertRegex(lost["reason"], rf"the buffers of worker {rank} on host \S+ differ from those of all others")
        self.assert_as_undisturbed("run", self.job, generations=2)
        [resumed] = self.events("run", "resumed")
        return resumed["step"]

    def test_a_worker_whose_buffers_differ_is_named_and_replaced(self):
        self.assertGreater(self.drift(1), 0, "its buffers are in no snapshot")

    def test_snapshots_that_hold_what_drifted_are_not_used(self):
        self.assertEqual(self.drift(0), 0)


class ErrorInAStepTest(RecoveryTest):
    def test_one_that_comes_again_stops_the_run_with_the_reason(self):
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", "--workers", 2, *settings(SHORT),
                                  "--inject", "throw:rank=1,step=20,generation=0", code=1)
        self.assertRegex(outcome.err, r"the same fault 3 times at step 20: .*injected fault")
        self.assertEqual([event["decision"] for event in self.events("run", "lost")],
                         ["restart", "restart", "give up"])
        self.assertEqual(len(self.events("run", "generation")), 3)

    def test_a_loss_that_is_no_number_ends_the_run_at_once_and_is_told_once(self):
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", "--workers", 2, *settings(SHORT),
                                  "--set", "train.optimizer=sgd", "--set", "train.lr=1e30", code=1)
        self.assertEqual(outcome.err.count("the loss became"), 1, outcome.err)
        self.assertNotIn("lost", outcome.err)
        [lost] = self.events("run", "lost")
        self.assertEqual((lost["decision"], lost["why"]), ("give up", "the job is at fault"))
        self.assertEqual(len(self.events("run", "generation")), 1)

    def test_one_that_does_not_come_again_is_survived(self):
        self.train("run", SHORT, "--workers", 2, "--inject", "throw:rank=1,step=20")
        [lost] = self.assert_recovered("run")
        self.assertEqual((lost["worker"], lost["step"]), (1, 20))
        self.assertIn("injected fault", lost["reason"])
        self.assert_as_undisturbed("run", SHORT, generations=2)


class LostSupervisorTest(RecoveryTest):
    def test_the_workers_save_and_end_and_the_run_can_be_resumed(self):
        child = self.start_training("run", JOB, "--workers", 2)
        os.kill(child.pid, signal.SIGKILL)
        self.finish(child, 5)
        self.assert_all_gone(within=5)
        self.assert_nothing_left()
        stopped = self.summary("run")
        self.assertEqual(stopped["status"], "interrupted")
        self.assertTrue((self.scratch / "run" / "checkpoints" / f"step-{stopped['steps']:08}").is_dir())
        self.distbelief("resume", "run")
        self.assertEqual(self.events("run", "resumed")[0]["step"], stopped["steps"])
        self.assertEqual(self.summary("run")["weights_sha256"], self.undisturbed(JOB))
        self.assert_each_sample_once("run", self.summary("run")["steps"])


class ControlledTest(RecoveryTest):
    def lanes(self, name):
        return [worker["lanes"] for worker in self.status(name)["workers"]]


class ControlTest(ControlledTest):
    def test_another_number_of_workers_while_it_trains(self):
        child = self.start_training("run", UNBOUNDED, "--workers", 2)
        self.assertIn("1 to 4 workers", self.control("scale", "run", 5, code=2))
        pids = set(self.workers().values())
        for generation, lanes in ((2, [[0], [1], [2], [3]]), (3, [[0, 1, 2, 3]]), (4, None)):
            workers = len(lanes) if lanes else 3
            self.control("scale", "run", workers)
            self.wait_for_event("run", "generation", generation)
            # Workers tell of themselves one after the other: while a lane moves to a faster one both may have it.
            status = {}

            def is_carried():
                status.update(self.status("run"))
                carried = [worker["lanes"] for worker in status["workers"]]
                return all(carried) and sum(carried, []) == [0, 1, 2, 3]
            self.wait_until(is_carried, "every worker carries lanes, and every lane is carried once")
            self.assertEqual((status["generation"], status["workers_wanted"]), (generation, workers))
            self.assertEqual([worker["rank"] for worker in status["workers"]], list(range(workers)))
            carried = [worker["lanes"] for worker in status["workers"]]
            self.assertTrue(lanes in (None, carried) and all(carried), carried)
            now = {worker["pid"] for worker in status["workers"]}
            self.assertFalse(now & pids, "a process was kept")
            pids |= now
        self.control("stop", "run")
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        summary = self.summary("run")
        self.assertEqual((summary["workers"], summary["generations"], summary["recoveries"]), (3, 4, 0))
        self.assertEqual([event["workers"] for event in self.events("run", "generation")], [2, 4, 1, 3])
        self.assert_beginning_of_undisturbed("run")

    def test_pause_resume_and_stop(self):
        child = self.start_training("run", UNBOUNDED, "--workers", 2)
        pids = self.workers()
        self.control("pause", "run")
        self.wait_until(lambda: self.status("run")["workers"][0]["state"] == "paused", "the workers wait")
        paused = self.status("run")
        self.assertEqual(paused["state"], "paused")
        self.assertEqual(self.status("run")["step"], paused["step"])
        self.control("resume", "run")
        self.wait_until(lambda: self.status("run")["step"] > paused["step"], "it goes on")
        self.assertEqual(self.workers(), pids)
        self.control("stop", "run")
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertIn("distbelief resume run", outcome.err)
        self.assert_beginning_of_undisturbed("run")

    def test_a_finished_run_says_so(self):
        summary = self.train("run", SHORT, "--workers", 2)
        self.assertIn(f"finished (done), {summary['steps']} steps", self.control("status", "run"))
        status = self.status("run")
        self.assertEqual((status["state"], status["step"]), ("finished", summary["steps"]))
        for command in (["stop", "run"], ["pause", "run"], ["scale", "run", 2]):
            self.assertIn(f"run is finished: done, {summary['steps']} steps", self.control(*command, code=1))

    def test_a_run_whose_processes_were_all_killed_is_not_being_trained(self):
        child = self.start_training("run", {**UNBOUNDED, "checkpoint.snapshots": False}, "--workers", 2)
        launcher = self.launcher_of(child)
        for pid in (child.pid, launcher, *self.workers().values()):
            os.kill(pid, signal.SIGKILL)
        self.finish(child, 5)
        self.assert_all_gone(within=5)
        for command in ("status", "stop"):
            self.assertRegex(self.control(command, "run", code=1), "run is not being trained now; (newest checkpoint step "
                             r"\d+; go on with: distbelief resume run|nothing was saved yet to go on from)")
        self.train("other", SHORT)  # removes what is left

    def test_status_tells_all_about_a_run_and_of_none(self):
        child = self.start_training("run", UNBOUNDED, "--workers", 2)
        status = self.status("run")
        workers = self.workers()
        self.assertEqual({key: status[key] for key in ("run", "state", "generation", "recoveries", "workers_wanted")},
                         {"run": "run", "state": "training", "generation": 1, "recoveries": 0, "workers_wanted": 2})
        for key in ("step", "snapshot_step", "samples_per_second", "loss"):
            self.assertGreater(status[key], 0, key)
        self.assertEqual({worker["rank"]: worker["pid"] for worker in status["workers"]}, workers)
        self.assertEqual([worker["lanes"] for worker in status["workers"]], [[0, 1], [2, 3]])
        for worker in status["workers"]:
            self.assertEqual(worker["state"], "training")
            self.assertGreater(worker["step_seconds"], 0)
        self.assertIn("generation 1", self.control("status", "run"))
        os.kill(child.pid, signal.SIGINT)
        self.assertEqual(self.finish(child, 10).code, 130)
        for command in (["status", "run"], ["pause", "run"], ["scale", "run", 2]):
            self.assertRegex(self.control(*command, code=1), r"run is not being trained now; interrupted at step (\d+); "
                             r"newest checkpoint step \1; go on with: distbelief resume run")
        status = json.loads(self.control("status", "run", "--json", code=1, on_failure="out"))
        self.assertEqual((status["state"], status["status"]), ("not running", "interrupted"))
        self.assertEqual((status["step"], status["checkpoint_step"]), (self.summary("run")["steps"],) * 2)
        self.assertIn("nowhere", self.control("status", "nowhere", code=2))


class MoreControlTest(ControlledTest):
    def test_a_change_that_is_taken_back_leaves_no_workers_waiting(self):
        child = self.start_training("run", UNBOUNDED, "--workers", 2)
        before = set(self.processes())
        self.control("scale", "run", 4)
        # One of them stops, so that they are not ready before the change is taken back, however long commands take.
        self.wait_until(lambda: set(self.workers().values()) - before, "the next workers were started")
        for pid in set(self.workers().values()) - before:
            os.kill(pid, signal.SIGSTOP)
        self.assertNotEqual(self.status("run")["standby"], "none")
        self.control("scale", "run", 2)
        self.wait_until(lambda: self.status("run")["standby"] == "none", "they are gone again", 20)
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 10).code, 130)
        self.assertEqual(len(self.events("run", "generation")), 1)
        self.assert_beginning_of_undisturbed("run")

    def test_ctrl_c_while_others_are_about_to_take_over_loses_nothing(self):
        child = self.start_training("run", UNBOUNDED, "--workers", 2)
        self.control("pause", "run")
        self.wait_until(lambda: {one["state"] for one in self.status("run")["workers"][:2]} == {"paused"}, "all pause")
        paused_at = self.status("run")["step"]
        self.control("scale", "run", 3)
        self.wait_until(lambda: self.status("run")["standby"] == "ready", "the next workers are ready")
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertIn("distbelief resume run", outcome.err)
        self.distbelief("resume", "run", "--set", f"train.max_steps={paused_at + 20}")
        self.assertGreaterEqual(self.events("run", "resumed")[-1]["step"], paused_at)

    def test_more_and_fewer_threads_in_the_same_processes(self):
        child = self.start_training("run", UNBOUNDED, "--workers", 2)
        pids = self.workers()
        self.assertIn("4 lanes cannot keep 2 workers x 3 threads busy",
                      self.control("scale", "run", "--threads", 3, code=2))
        self.assertIn("--threads", self.control("scale", "run", code=2))
        for count, threads in enumerate((2, 1, 2)):
            self.control("scale", "run", "--threads", threads)
            changed = self.wait_for_event("run", "lanes", count + 1)
            self.assertEqual((changed["threads"], changed["lanes"]), (threads, [2, 2]))
            self.assertEqual(self.status("run")["threads"], threads)
            self.assertEqual(self.events("run", "scale")[-1]["threads"], threads)
            step = self.status("run")["step"]
            self.wait_until(lambda: self.status("run")["step"] > step, "it goes on")
        self.assertEqual(self.workers(), pids)
        self.assertIn("1 to 2 workers", self.control("scale", "run", 3, code=2))
        os.kill(pids[1], signal.SIGKILL)
        self.wait_for_event("run", "recovered")
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 10).code, 130)
        summary = self.summary("run")
        self.assertEqual((summary["threads"], summary["generations"]), (2, 2), "the next generation has them too")
        self.assert_beginning_of_undisturbed("run")

    def test_status_knows_checkpoints_of_earlier_generations(self):
        child = self.start_training("run", {**UNBOUNDED, "checkpoint.every_steps": 10**6}, "--workers", 2)
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 10).code, 130)
        saved = self.summary("run")["steps"]
        child = self.start([PROGRAM, "resume", "run"])
        self.wait_for_event("run", "resumed")
        self.assertEqual(self.status("run")["checkpoint_step"], saved)
        self.wait_until(lambda: self.status("run")["step"] > saved, "it goes on")
        refused = self.control("resume", "run", "--workers", 1, code=2)
        self.assertIn("distbelief scale run", refused)
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 10).code, 130)

    def test_a_run_that_is_starting_has_no_step(self):
        child = self.start([PROGRAM, "train", "--run-dir", "run", *settings(UNBOUNDED)])
        self.wait_until(lambda: any(self.temporary.rglob("control.sock")), "the supervisor listens")
        shown = self.control("status", "run")
        self.assertTrue("no step yet" in shown or "training" in shown, shown)
        self.assertNotIn("step -1,", shown)
        os.kill(child.pid, signal.SIGINT)
        self.assertEqual(self.finish(child, 10).code, 130)

    def test_one_worker_is_paused_while_the_others_train(self):
        child = self.start_training("run", {**UNBOUNDED, "elastic.rebalance": False}, "--workers", 3)
        pids = self.workers()
        self.control("pause", "run", "--worker", 1)
        self.wait_until(lambda: self.lanes("run") == [[0, 1], [], [2, 3]], "worker 1 gave its lanes away")
        self.wait_until(lambda: self.status("run")["workers"][1]["state"] == "paused", "worker 1 rests")
        self.assertEqual(self.status("run")["state"], "training")
        self.control("pause", "run", "--worker", 0)
        self.wait_until(lambda: self.lanes("run") == [[], [], [0, 1, 2, 3]], "worker 0 rests too")
        step, snapshot = (self.status("run")[key] for key in ("step", "snapshot_step"))
        self.wait_until(lambda: self.status("run")["step"] > step + 100, "it goes on")
        self.wait_until(lambda: self.status("run")["snapshot_step"] > snapshot, "snapshots go on")
        self.assertIn("last", self.control("pause", "run", "--worker", 2, code=2))
        self.assertIn("0 to 2", self.control("pause", "run", "--worker", 3, code=2))
        self.control("resume", "run", "--worker", 0)
        self.wait_until(lambda: self.lanes("run") == [[0, 1], [], [2, 3]], "worker 0 is back")
        os.kill(pids[2], signal.SIGKILL)
        self.wait_for_event("run", "recovered")
        self.wait_until(lambda: self.lanes("run") == [[0, 1], [], [2, 3]], "worker 1 rests in the next generation too")
        self.control("resume", "run")
        self.wait_until(lambda: all(self.lanes("run")), "all have lanes")
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 10).code, 130)
        self.assert_beginning_of_undisturbed("run")


class AutoscaleTest(RecoveryTest):
    def test_the_run_finds_its_number_of_workers_and_keeps_it(self):
        job = {**UNBOUNDED, "elastic.auto": True, "elastic.auto_seconds": 0.3, "elastic.max": 2}
        child = self.start_training("run", job, "--workers", 1)
        self.wait_until(lambda: any(event["settled"] for event in self.events("run", "autoscale")), "it settles")
        found = self.events("run", "autoscale")
        self.assertEqual((found[0]["before"], found[0]["workers"]), (1, 2), "two were not tried")
        for event in found:
            self.assertGreater(event["steps_per_second"], 0)
            self.assertRegex(event["reason"], r"\d workers")
        self.assertLessEqual(len(found), 3)
        step = self.status("run")["step"]
        self.wait_until(lambda: self.status("run")["step"] > step + 100, "it goes on")
        self.assertEqual(len(self.status("run")["workers"]), found[-1]["workers"])
        self.control("stop", "run")
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertIn("autoscale: 1 workers take", outcome.err)
        self.assertEqual(len(self.events("run", "generation")), len(found))
        self.assert_beginning_of_undisturbed("run")


class SlowWorkerTest(RecoveryTest):
    def test_lanes_move_to_the_fast_worker_without_a_restart(self):
        job = {**JOB, "parallel.lanes": 8, "model.hidden": [512, 512], "train.epochs": 60}
        self.train("run", job, "--workers", 2, "--inject", "slow:rank=1,step=0,factor=8")
        straggler = self.events("run", "straggler")[0]
        self.assertEqual(straggler["worker"], 1)
        moved = self.events("run", "rebalanced")[0]
        self.assertEqual(moved["before"], [4, 4])
        self.assertEqual(sum(moved["lanes"]), 8)
        self.assertGreater(moved["lanes"][0], moved["lanes"][1])
        lanes = [worker["lanes"] for worker in self.summary("run")["per_worker"]]
        self.assertEqual(sorted(lane for some in lanes for lane in some), list(range(8)))
        self.assertGreater(len(lanes[0]), len(lanes[1]))
        self.assert_as_undisturbed("run", job, generations=1)

    def test_a_straggler_is_shown_where_lanes_cannot_be_moved(self):
        job = {**UNBOUNDED, "parallel.lanes": 2, "model.hidden": [512, 512]}
        child = self.start_training("run", job, "--workers", 2, "--inject", "slow:rank=1,step=0,factor=8")
        self.wait_until(lambda: self.status("run")["workers"][1]["straggler"], "status has the straggler")
        first, second = self.status("run")["workers"]
        self.assertEqual((first["straggler"], first["slowness"]), (False, 1))
        self.assertGreater(second["slowness"], 1.5)
        marked = [line.split()[0] for line in self.control("status", "run").splitlines() if "straggler" in line]
        self.assertEqual(marked, ["1"])
        self.wait_until(lambda: (self.metrics("run")[-1].get("straggler") or {}).get("worker") == 1, "metrics name it")
        self.assertEqual(self.events("run", "straggler")[0]["worker"], 1)
        self.assertFalse(self.events("run", "rebalanced"))
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 10).code, 130)

    def metrics(self, name):
        return program.lines_of(self.scratch / name / "metrics.jsonl")


class ClockTest(RecoveryTest):
    HOUR = 3600

    def moved_clock(self):
        """Environment of a program whose clock is as far from the real one as the file `clock` says. As when somebody
        sets the machine's clock, the one that only counts (CLOCK_MONOTONIC) goes on."""
        found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not found:
            self.skipTest("libfaketime is not installed: tools/install_packages.sh test")
        # jemalloc asks for the time before libfaketime can answer: the C library's allocator takes its place.
        return {"LD_PRELOAD": f"{found[0]}:libc.so.6:libstdc++.so.6", "FAKETIME_NO_CACHE": "1",
                "FAKETIME_TIMESTAMP_FILE": str(self.scratch / "clock"), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def set_clock(self, seconds):
        (self.scratch / "clock.new").write_text(f"{seconds:+d}\n")
        (self.scratch / "clock.new").rename(self.scratch / "clock")

    def train_on(self, seconds):
        """Until it has trained for so long by its own clock: heartbeats and reports have come some times."""
        def trained():
            return program.lines_of(self.scratch / "run" / "metrics.jsonl")[-1]["seconds"]

        begin = trained()
        self.wait_until(lambda: trained() > begin + seconds, "it trains on")

    def assert_clock(self, event, seconds):
        self.assertAlmostEqual(event["unix_seconds"] - time.time(), seconds, delta=60)

    def test_set_back_and_forward_by_an_hour_is_no_alarm(self):
        self.set_clock(0)
        plain, self.environment = self.environment, {**self.environment, **self.moved_clock()}
        child = self.start_training("run", UNBOUNDED, "--workers", 2)
        self.environment = plain
        # libfaketime takes its own away again, but not when the program has become another by exec.
        for name in (f"faketime_shm_{child.pid}", f"sem.faketime_sem_{child.pid}"):
            self.addCleanup((program.SHARED_MEMORY / name).unlink, missing_ok=True)
        pids = self.workers()
        for number, seconds in enumerate((-self.HOUR, self.HOUR), start=1):
            self.set_clock(seconds)
            self.control("pause", "run")
            self.assert_clock(self.wait_for_event("run", "pause", number), seconds)
            self.control("resume", "run")
            self.train_on(1.5)
        self.assertEqual(self.workers(), pids)
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 10).code, 130)
        self.assert_clock(self.wait_for_event("run", "finished"), self.HOUR)  # a worker's own clock
        self.assertEqual((self.events("run", "lost"), len(self.events("run", "generation"))), ([], 1))
        self.assert_beginning_of_undisturbed("run")


class FullDiskTest(RecoveryTest):
    def test_training_goes_on_and_saves_again_when_there_is_room(self):
        job = {**SHORT, "checkpoint.every_steps": 50, "checkpoint.keep": 9}
        self.train("run", job, "--workers", 2, "--inject", "disk-full:step=100,steps=100")
        self.assertEqual([event["step"] for event in self.events("run", "checkpoint failed")], [100, 150])
        self.assertIn("no space", self.events("run", "checkpoint failed")[0]["reason"])
        self.assertEqual(sorted(path.name for path in (self.scratch / "run" / "checkpoints").glob("step-*")),
                         [f"step-{step:08}" for step in (50, 200, 250, 300, 320)])
        self.assert_as_undisturbed("run", job, generations=1)


class PlainLauncherTest(RecoveryTest):
    def test_without_a_supervisor_it_checkpoints_and_resumes(self):
        launch = [*program.mpirun(2), PROGRAM]
        job = {**JOB, "checkpoint.every_steps": 100}
        child = self.start([*launch, "train", "--run-dir", "run", *settings(job)])
        checkpoints = self.scratch / "run" / "checkpoints"
        self.wait_until(lambda: list(checkpoints.glob("step-*/manifest.json")), "a checkpoint was written", 30)
        os.kill(self.workers()[1], signal.SIGKILL)
        self.assertNotEqual(self.finish(child, 20).code, 0)
        self.assert_nothing_left()
        self.command(*launch, "resume", "run")
        self.assertGreaterEqual(self.events("run", "resumed")[0]["step"], 100)
        summary = self.summary("run")
        self.assertEqual((summary["status"], summary["workers"]), ("done", 2))
        self.assertEqual(summary["weights_sha256"], self.undisturbed(job))


if __name__ == "__main__":
    program.main()
