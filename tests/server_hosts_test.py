"""Parameter servers and replicas on several hosts: they find each other over TLS, and neither bits nor updates depend on
where they are. The hosts are emulated (tools/emulated_hosts); this module runs itself on the first of them."""
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
