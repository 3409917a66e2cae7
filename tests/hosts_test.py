"""Runs on several hosts that lose hosts, get them back, get others: they go on and end with the bits of a run that
nothing happened to. The hosts are emulated (tools/emulated_hosts); this module runs itself on the first of them."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import program
from program import ENDLESS, PROGRAM, SOURCE

HOSTS = 3
EMULATED_HOSTS = SOURCE / "tools" / "emulated_hosts"

# Goes on until it is stopped; what a restart has to bring back: weights, the optimizer's state, randomness, the place.
JOB = {**ENDLESS, "train.optimizer": "adamw", "train.lr": 0.001, "train.schedule": "constant", "model.dropout": 0.2,
       "report.audit": True, "parallel.lanes": 6, "elastic.silence_seconds": 2, "elastic.discovery_seconds": 0.3}


class OnHostsTest(program.ProgramTest):
    def wait_for_event(self, kind, count=1, within=60):
        self.wait_until(lambda: len(self.events("run", kind)) >= count, f"event '{kind}' number {count}", within)
        return self.events("run", kind)[count - 1]

    def wait_for_steps(self, more=20):
        """The present generation takes steps."""
        metrics = self.scratch / "run" / "metrics.jsonl"
        steps = lambda: max((line.get("step", 0) for line in program.lines_of(metrics)), default=0)
        before = steps()
        self.wait_until(lambda: steps() > before + more, "the run took steps")

    def link(self, host, state):
        subprocess.run([EMULATED_HOSTS, "link", host, state], check=True, timeout=20)
        if state == "down":
            self.addCleanup(subprocess.run, [EMULATED_HOSTS, "link", host, "up"], check=False, timeout=20)

    def processes_of(self, host):
        """Ids of workers on a host, by its network namespace; all hosts share one view of processes."""
        keeper = pathlib.Path(os.environ["EMULATED_HOSTS"], f"{host}.pid").read_text().strip()
        wanted = os.readlink(f"/proc/{keeper}/ns/net")
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
                if os.readlink(folder / "ns/net") == wanted and arguments[1:2] == [b"worker"]:
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def shared_memory_of(self, host):
        return set(subprocess.run([EMULATED_HOSTS, "on", host, "ls /dev/shm"], check=True, timeout=20,
                                  capture_output=True, text=True).stdout.split())

    def setUp(self):
        super().setUp()
        self.memory_before = {f"host{index}": self.shared_memory_of(f"host{index}") for index in range(HOSTS)}

    def assert_nothing_left_on(self, host):
        self.wait_until(lambda: not self.processes_of(host), f"no worker is left on {host}", 15)
        self.assertEqual(self.shared_memory_of(host) - self.memory_before[host], set(), f"{host} keeps shared memory\n{self.shown()}")

    def start_run(self, *arguments):
        return self.start_training("run", JOB, *arguments)

    def stop_run(self, child, *, generations, hosts):
        """Stops the run where it is; there it has the bits of one on one host that was to end there."""
        self.wait_until(lambda: len(self.events("run", "resumed")) + len(self.events("run", "started")) == generations,
                        f"generation {generations} trains")
        self.wait_for_steps()
        self.control("stop", "run")
        outcome = self.finish(child, 30)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertEqual([event["generation"] for event in self.events("run", "generation")],
                         list(range(1, generations + 1)), outcome.err)
        summary = self.summary("run")
        self.assertEqual({worker["host"] for worker in summary["per_worker"]}, set(hosts))
        self.assert_bits(summary)
        for index in range(HOSTS):
            self.assert_nothing_left_on(f"host{index}")
        return outcome

    def assert_bits(self, summary):
        quiet = {name: value for name, value in JOB.items() if not name.startswith("elastic.")}
        steps = summary["steps"]
        whole = self.train(f"whole{steps}", {**quiet, "train.max_steps": steps}, "--workers", 1)
        self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
        audit = json.loads(self.control("audit", "run", "--json"))
        self.assertTrue(audit["proven"], audit)
        self.assertEqual(audit["steps"], steps)


class HostsTest(OnHostsTest):
    def test_a_host_that_does_not_answer_is_named_and_leaves_nothing(self):
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", "--hosts", "host0:1,nowhere:1", code=1)
        self.assertIn("no answer from nowhere", outcome.err)
        self.assertFalse((self.scratch / "run").exists())

    def test_a_host_with_too_little_shared_memory_is_named_before_the_start(self):
        size = lambda text: subprocess.run([EMULATED_HOSTS, "on", "host1", f"mount -o remount,size={text} /dev/shm"],
                                           check=True, timeout=20)
        size("1m")  # one worker on each host shares nothing, but each has a copy of the snapshots
        self.addCleanup(size, "1g")
        job = {**program.MLP, "model.hidden": [256, 256]}
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", "--hosts", "host0:1,host1:1",
                                  *program.settings(job), code=1)
        self.assertRegex(outcome.err, r"/dev/shm of host1 has 1\.\d MB free, mlp with 1 worker needs [\d.]+ MB")
        spare = self.distbelief("train", "--run-dir", self.scratch / "run", "--hosts", "host0:1,host2:1",
                                "--set", 'elastic.spares=["host1:1"]', *program.settings(job), code=1)
        self.assertRegex(spare.err, r"/dev/shm of host1 has 1\.\d MB free, mlp with 1 worker needs [\d.]+ MB")
        self.assertFalse((self.scratch / "run").exists())
        self.assert_nothing_left_on("host1")

    def test_all_use_the_instruction_set_of_the_weakest_host(self):
        if self.distbelief("host").out.startswith("baseline "):
            program.cannot("use another instruction set than baseline")
        # On host1 another program stands in its place: one that says, unless told otherwise, that it is weak.
        weak, own = self.scratch / "weak", self.scratch / "bin"
        weak.write_text(f"#!/bin/sh\nDISTBELIEF_ISA=${{DISTBELIEF_ISA-baseline}} exec {own}/distbelief \"$@\"\n")
        weak.chmod(0o755)
        own.mkdir()
        binds = [(PROGRAM, own / "distbelief"), (f"{PROGRAM}-torch", own / "distbelief-torch"), (weak, PROGRAM)]
        for _, place in binds[:2]:
            place.touch()
        on_host1 = lambda command: subprocess.run([EMULATED_HOSTS, "on", "host1", command], check=True, timeout=20)
        on_host1(" && ".join(f"mount --bind {what} {place}" for what, place in binds))
        try:
            summary = self.train("run", program.MLP, "--hosts", "host0:1,host1:1")
        finally:
            on_host1(" && ".join(f"umount {place}" for _, place in reversed(binds)))
        self.assertEqual(summary["isa"], "baseline")
        self.environment["DISTBELIEF_ISA"] = "baseline"
        self.assertEqual(self.train("baseline", program.MLP, "--workers", 2)["weights_sha256"], summary["weights_sha256"])

    def test_a_killed_worker_on_another_host_is_replaced(self):
        child = self.start_run("--hosts", "host0:1,host1:2")
        before = self.processes_of("host1")
        self.assertEqual(len(before), 2)
        os.kill(before[0], signal.SIGKILL)
        outcome = self.stop_run(child, generations=2, hosts=["host0", "host1"])
        self.assertRegex(outcome.err, r"worker [12] lost \(.*\) at step \d+; continued with 3 workers")
        self.assertEqual(self.events("run", "host lost"), [])

    def test_a_stopped_worker_that_leads_no_host_is_named_with_operation_and_step(self):
        job = {**JOB, "parallel.deadline_seconds": 2, "elastic.silence_seconds": 20, "elastic.restarts": 0}
        named = r"worker 1 did not get to '([\w -]+)' within 2\.0 s.*\[in \1\] \[step \d+\]"
        child = self.start_training("run", job, "--hosts", "host0:2,host1:1")
        os.kill(self.workers()[1], signal.SIGSTOP)
        outcome = self.finish(child, 30)
        self.assertEqual(outcome.code, 1, outcome.err)
        self.assertRegex(outcome.err, rf"worker 1 lost \(rank 1: {named}\) at step \d+; given up")
        for host in ("host0", "host1"):
            self.assert_nothing_left_on(host)
        launched = self.start_training("launched", {**ENDLESS, "parallel.deadline_seconds": 2}, launcher=[
            *program.mpirun(3), "--host", "host0:2,host1:1"])
        os.kill(self.workers()[1], signal.SIGSTOP)
        outcome = self.finish(launched, 30)
        self.assertEqual(outcome.code, 1, outcome.err)
        # The launcher needs a moment to end the others, who then give up too.
        self.assertRegex(re.search("(?m)^distbelief: worker .*", outcome.err)[0], "worker [02]: rank 1: " + named)

    def test_a_cut_link_is_survived_by_the_other_hosts(self):
        child = self.start_run("--hosts", "host0:1,host1:1,host2:1")
        behind = self.processes_of("host2")
        self.link("host2", "down")
        recovered = self.wait_for_event("recovered", within=30)
        self.assertLess(recovered["seconds"] + JOB["elastic.silence_seconds"], 10)
        self.wait_until(lambda: not self.processes_of("host2"), "workers behind the cut link end by themselves", 15)
        outcome = self.stop_run(child, generations=2, hosts=["host0", "host1"])
        self.assertRegex(outcome.err, r"host host2 lost \(silent for [12].0 s\) at step \d+; continued with 2 workers")
        self.assertEqual(len(behind), 1)
        [lost] = self.events("run", "lost")
        self.assertEqual((lost["host"], lost["decision"]), ("host2", "restart"))

    def test_a_killed_supervisor_with_a_host_cut_off_leaves_nothing(self):
        child = self.start_run("--hosts", "host0:1,host1:1,host2:1")
        self.link("host2", "down")
        os.kill(child.pid, signal.SIGKILL)  # before it has noticed
        child.wait(10)
        self.wait_until(lambda: not self.processes(), "workers and launchers are gone", 20)
        for host in ("host0", "host1", "host2"):
            self.assert_nothing_left_on(host)
        self.assertEqual([str(path) for path in self.temporary.rglob("*")], [], "keys, or a launcher's files")


class InterruptTest(OnHostsTest):
    def test_ctrl_c_saves_and_ends_the_workers_of_all_hosts_within_two_seconds(self):
        self.environment["DISTBELIEF_ISA"] = "baseline"  # of one host, which the others then use too
        child = self.start_run("--hosts", "host0:1,host1:1")
        self.assertEqual(len(self.processes_of("host1")), 1)
        began = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        for host in ("host0", "host1"):
            self.wait_until(lambda host=host: not self.processes_of(host), f"no worker is left on {host}",
                            max(0.1, began + 2 - time.monotonic()))
        self.wait_until(lambda: not self.processes(), "supervisor and launchers are gone too",
                        max(0.1, began + 2 - time.monotonic()))
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        summary = self.summary("run")
        self.assertEqual((summary["status"], summary["isa"]), ("interrupted", "baseline"))
        for host in ("host0", "host1"):
            self.assert_nothing_left_on(host)


class MoreHostsTest(OnHostsTest):
    def test_a_host_whose_worker_was_stopped_keeps_nothing(self):
        child = self.start_run("--hosts", "host0:1,host1:1")
        [stopped] = self.processes_of("host1")
        os.kill(stopped, signal.SIGSTOP)  # it cannot clear up after itself
        self.wait_for_event("host lost", within=30)
        self.wait_for_event("recovered", within=30)
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 30).code, 130)
        for host in ("host0", "host1"):
            self.assert_nothing_left_on(host)

    def test_a_stopped_worker_beside_another_is_silent_to_the_supervisor_and_replaced(self):
        child = self.start_run("--hosts", "host0:2,host1:1")
        os.kill(self.workers()[1], signal.SIGSTOP)
        outcome = self.stop_run(child, generations=2, hosts=["host0", "host1"])
        self.assertRegex(outcome.err, r"worker 1 lost \(silent for \d\.\d s, in phase \w+\) at step \d+; continued with 3 workers")

    def test_ctrl_c_with_a_stopped_worker_puts_the_newest_state_into_the_run_folder(self):
        child = self.start_run("--hosts", "host1:1,host2:1")  # none where the supervisor is
        [stopped] = self.processes_of("host2")
        os.kill(stopped, signal.SIGSTOP)
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 20)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertIn("the newest state is in run/snapshots.memory", outcome.err)
        for host in ("host1", "host2"):
            self.assert_nothing_left_on(host)
        # Beyond whatever was done: the last lines of the metrics may be of steps before.
        steps = 1 + max(int(line.split()[0]) for path in (self.scratch / "run" / "audit").iterdir()
                        for line in path.read_text().splitlines())
        self.distbelief("resume", "run", "--hosts", "host1:1,host2:1", "--set", f"train.max_steps={steps}")
        self.assertGreater(self.events("run", "resumed")[0]["step"], 0)
        self.assert_bits(self.summary("run"))

    def test_a_host_that_comes_back_is_used_again(self):
        child = self.start_run("--hosts", "host0:1,host1:1")
        self.link("host1", "down")
        self.wait_for_event("recovered", within=30)
        self.link("host1", "up")
        self.wait_for_event("host back", within=40)
        self.wait_for_event("generation", 3)
        self.stop_run(child, generations=3, hosts=["host0", "host1"])

    def start_stages(self):
        """A network whose stages lie on two hosts, with no checkpoint on the disk to go on from."""
        job = {**JOB, "model.hidden": [24, 32, 16], "parallel.pipeline": 2}
        return self.start_training("run", job, "--hosts", "host0:1,host1:1")

    def test_a_killed_worker_that_alone_has_a_stage_is_replaced_from_a_snapshot(self):
        child = self.start_stages()
        os.kill(self.processes_of("host1")[0], signal.SIGKILL)
        self.wait_for_event("recovered", within=30)
        self.assertGreater(self.events("run", "resumed")[0]["step"], 0)
        self.stop_stages(child, ["host0", "host1"])

    def test_a_lost_host_that_alone_has_a_stage_takes_nothing_along(self):
        child = self.start_stages()
        self.link("host1", "down")
        self.wait_for_event("recovered", within=30)
        self.assertGreater(self.events("run", "resumed")[0]["step"], 0)
        self.stop_stages(child, ["host0"])

    def stop_stages(self, child, hosts):
        self.wait_for_steps()
        self.control("stop", "run")
        self.assertEqual(self.finish(child, 30).code, 130)
        summary = self.summary("run")
        self.assertEqual({worker["host"] for worker in summary["per_worker"]}, set(hosts))
        whole = self.train("whole", {**JOB, "model.hidden": [24, 32, 16], "train.max_steps": summary["steps"]},
                           "--workers", 1)
        self.assertEqual(summary["weights_sha256"], whole["weights_sha256"])
        self.assertTrue(json.loads(self.control("audit", "run", "--json"))["proven"])
        for index in range(HOSTS):
            self.assert_nothing_left_on(f"host{index}")

    def test_a_spare_takes_the_place_of_a_lost_host(self):
        child = self.start_run("--hosts", "host0:1,host1:1", "--set", "elastic.spares=[\"host2:1\"]")
        self.assertEqual(self.processes_of("host2"), [])
        self.link("host1", "down")
        self.wait_for_event("recovered", within=30)
        self.stop_run(child, generations=2, hosts=["host0", "host2"])

    def test_below_the_least_number_it_waits_and_says_so(self):
        child = self.start_run("--hosts", "host0:1,host1:1", "--set", "elastic.min=2")
        self.link("host1", "down")
        self.wait_for_event("waiting", within=30)
        self.assertEqual(self.status("run")["state"], "waiting for hosts")
        self.link("host1", "up")
        outcome = self.stop_run(child, generations=2, hosts=["host0", "host1"])
        self.assertIn("waiting for hosts", outcome.err)
        self.assertRegex(outcome.err, r"host1 \(silent for [12]\.0 s\)")

    def test_a_discovery_command_is_asked_again_and_again(self):
        script = self.scratch / "discover"
        script.write_text("#!/bin/sh\necho host0:2\n")
        script.chmod(0o755)
        child = self.start_run("--set", f"elastic.discovery={script}")
        script.write_text("#!/bin/sh\nexit 3\n")  # a failing command does not take hosts away
        self.wait_until(lambda: "going on with the hosts known so far" in self.shown(), "the failure is told")
        script.write_text("#!/bin/sh\necho host0:1\necho host2:1\n")
        self.wait_for_event("generation", 2)
        self.stop_run(child, generations=2, hosts=["host0", "host2"])

    def test_a_host_that_is_told_to_go_hands_its_work_over_first(self):
        child = self.start_run("--hosts", "host0:1,host1:2")
        os.kill(self.processes_of("host1")[0], signal.SIGTERM)
        self.wait_for_event("host leaving")
        self.stop_run(child, generations=2, hosts=["host0"])
        self.assertEqual(self.events("run", "lost"), [])

    def test_a_killed_supervisor_leaves_a_saved_run_and_nothing_else(self):
        child = self.start_run("--hosts", "host0:1,host1:1")
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        for host in ("host0", "host1"):
            self.wait_until(lambda host=host: not self.processes_of(host), f"workers on {host} are gone", 5)
        saved = max(path.name for path in (self.scratch / "run" / "checkpoints").glob("step-*"))
        last = program.lines_of(self.scratch / "run" / "metrics.jsonl")[-1]["step"]
        self.assertGreaterEqual(int(saved.removeprefix("step-")), last, "what was done was not saved")
        for host in ("host0", "host1"):
            self.assert_nothing_left_on(host)
        self.assert_bits(self.summary("run"))
        more = str(self.summary("run")["steps"] + 50)
        resumed = self.start([PROGRAM, "resume", "run", "--hosts", "host1:2", "--set", f"train.max_steps={more}"])
        self.assertEqual(self.finish(resumed).code, 0, self.shown())
        self.assert_bits(self.summary("run"))

    def test_hosts_of_a_file_come_and_go(self):
        hostfile = self.scratch / "hosts"
        hostfile.write_text("host0:1\n")
        child = self.start_run("--hostfile", hostfile)
        hostfile.write_text("host0:1\nhost1 slots=2\n")
        self.wait_for_event("generation", 2)
        self.wait_for_steps()
        hostfile.write_text("host1:2\n")
        self.wait_for_event("generation", 3)
        self.wait_for_steps()
        hostfile.write_text("# none\n")
        self.wait_for_event("waiting")
        saved = sorted((self.scratch / "run" / "checkpoints").glob("step-*"))
        self.assertTrue(saved, "who leaves the last host saves first")
        hostfile.write_text("host1:2\n")
        self.wait_for_event("generation", 4)
        self.stop_run(child, generations=4, hosts=["host1"])
        self.assertEqual([event["hosts"] for event in self.events("run", "generation")],
                         ["host0:1", "host0:1,host1:2", "host1:2", "host1:2"])
        self.assertEqual(self.events("run", "lost"), [])


def move_to_emulated_hosts():
    """Starts this module anew on the first of the emulated hosts."""
    check = subprocess.run([EMULATED_HOSTS, "check"], capture_output=True, text=True, timeout=60, check=False)
    if check.returncode == 77:
        print(check.stdout + check.stderr, flush=True)
        sys.exit(77)
    os.execv(EMULATED_HOSTS, [str(EMULATED_HOSTS), "run", str(HOSTS), "--", sys.executable, __file__, *sys.argv[1:]])


if __name__ == "__main__":
    if "EMULATED_HOSTS" not in os.environ:
        move_to_emulated_hosts()
    program.main()
