"""Parameter servers and replicas on several hosts: they find each other over TLS, and neither bits nor updates depend on
where they are. The hosts are emulated (tools/emulated_hosts); this module runs itself on the first of them."""
import json
import os
import signal
import subprocess
import sys

import program
import servers_test
from program import ENDLESS, SOURCE

HOSTS = 2
EMULATED_HOSTS = SOURCE / "tools" / "emulated_hosts"


class ServerHostsTest(servers_test.ServersTest):
    def test_synchronous_steps_have_the_bits_of_allreduce(self):
        job = {**servers_test.JOB, "train.epochs": 20, "train.validate_every": 0}
        expected = self.train("allreduce", job, "--workers", 2)
        served = self.train("served", {**job, **servers_test.SERVED, "parallel.mode": "sync"}, "--hosts",
                            "host0:1,host1:1")
        self.assertEqual(served["weights_sha256"], expected["weights_sha256"])

    def test_so_do_those_of_replicas_that_are_pipelines(self):
        job = {**servers_test.JOB, "model.hidden": [512, 1024], "train.validate_every": 0}  # three slices
        expected = self.train("allreduce", job, "--workers", 1)
        served = self.train("served", {**job, **servers_test.SERVED, "parallel.mode": "sync", "parallel.pipeline": 2},
                            "--hosts", "host0:2,host1:2")
        self.assertEqual(served["weights_sha256"], expected["weights_sha256"])
        self.assertEqual((served["workers"], served["pipeline"]), (2, 2))

    def test_a_killed_replica_and_a_killed_server_on_another_host_lose_nothing(self):
        # However long the kills take: it goes on until it is stopped.
        job = {**ENDLESS, **servers_test.OWN_STEPS, "parallel.mode": "hybrid", "parallel.lanes": 2,
               "train.epochs": 10_000_000}
        run = self.start_training("killed", job, "--hosts", "host0:2,host1:1")
        self.wait_until(lambda: len(self.status("killed")["workers"]) == 3, "all workers are there")
        status = self.status("killed")
        self.assertEqual({server["host"] for server in status["servers"]}, {"host0", "host1"})
        self.assertEqual([worker["host"] for worker in status["workers"]], ["host0", "host0", "host1"])
        at = self.kill("killed", 1, 20)
        [server] = [server for server in status["servers"] if server["host"] == "host1"]
        os.kill(server["pid"], signal.SIGKILL)
        at = self.kill("killed", 0, at + 20)
        self.wait_until(lambda: len(self.events("killed", "replica recovered")) == 2, "both replicas are back")
        self.wait_until(lambda: {line["replica"] for line in self.updates("killed") if line["ticket"] > at} == {0, 1},
                        "both take part again")
        self.control("stop", "killed")
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertIn("its backups have taken over", outcome.err)
        self.assertEqual(len(self.events("killed", "replica lost")), 2)
        self.assert_proven("killed")


class StandingHostsTest(servers_test.StandingServersTest):
    """Servers that stand on two hosts and are used by their addresses."""

    def start_at(self, targets, name, job, *arguments):
        with open(self.scratch / f"{name}.err", "wb") as err:
            child = subprocess.Popen([program.PROGRAM, "train", "--run-dir", name, *program.settings(job), "--servers-at",
                                      targets, *map(str, arguments)], cwd=self.scratch, env=self.environment,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                                     start_new_session=True)
        self.children.append(child)
        return child

    def assert_proven_at(self, name):
        """The run knows addresses; where the logs are it has to be told."""
        path = self.scratch / name / "standing.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "servers_at": str(self.scratch / "standing")}))
        return self.assert_proven(name)

    def test_two_runs_over_tls_have_their_bits_and_a_job_beyond_the_quota_is_refused(self):
        self.distbelief("certs", "certs")
        job = {**servers_test.JOB, "train.epochs": 40, "train.validate_every": 0}
        expected = self.train("alone", job, "--workers", 1)
        served = {**servers_test.SERVED, "elastic.certs": str(self.scratch / "certs")}
        servers = self.start_servers("--servers", 2, "--hosts", "host0,host1", "--certs", "certs", "--job-mb", 8)
        standing = self.status("standing")["servers"]
        self.assertEqual({server["host"] for server in standing}, {"host0", "host1"})
        targets = ",".join(server["target"] for server in standing)
        self.assertNotIn("unix:", targets)

        large = self.start_at(targets, "large", {**job, **served, "parallel.mode": "sync", "model.hidden": [512, 1024]},
                              "--workers", 1)  # three slices of 5 MiB, on both servers
        self.assertEqual(large.wait(60), 2)
        self.assertRegex((self.scratch / "large.err").read_text(), r"takes 64 jobs, 8388608 bytes each")

        runs = {"sync": self.start_at(targets, "sync", {**job, **served, "parallel.mode": "sync"}, "--hosts",
                                      "host0:1,host1:1"),
                "async": self.start_at(targets, "async", {**servers_test.OWN_STEPS, **served, "parallel.mode": "async",
                                                          "train.epochs": 40, "train.validate_every": 0}, "--workers", 2)}
        for name, run in runs.items():
            self.assertEqual(run.wait(120), 0, (self.scratch / f"{name}.err").read_text())
            self.assertEqual(self.assert_proven_at(name)["updates"], self.summary(name)["steps"])  # of one slice
        self.assertEqual(self.summary("sync")["weights_sha256"], expected["weights_sha256"])

        bare = self.start_at(targets, "bare", {**job, **servers_test.SERVED, "parallel.mode": "sync"}, "--workers", 1)
        self.assertEqual(bare.wait(60), 2)
        self.assertIn("no CA certificate is given", (self.scratch / "bare.err").read_text())
        self.stop_servers(servers)


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
