"""Rows on three emulated hosts: tools/emulated_hosts run 3 -- tools/chaos --rows link"""
import os
import pathlib
import subprocess
import time

from faults.run import DEADLINE_SECONDS, require, wait_until

EMULATED_HOSTS = pathlib.Path(__file__).resolve().parent.parent / "emulated_hosts"
HOSTS = ["host0:1", "host1:1", "host2:1"]


def set_link(host, state):
    subprocess.run([EMULATED_HOSTS, "link", host, state], check=True, timeout=DEADLINE_SECONDS)


def link(judge):
    def body(run, row):
        require("EMULATED_HOSTS" in os.environ,
                "this row needs hosts: tools/emulated_hosts run 3 -- tools/chaos --rows link")
        run.train_on(HOSTS)
        judge.wait_a_while(run)
        before, since = judge.check_lanes(run, len(HOSTS)), time.time()
        set_link("host2", "down")
        try:
            time.sleep(0.05)  # what was under way may still be written
            judge.wait_for_new_step(run, row, since)
            row.count = 1
            after = judge.check_lanes(run, 2)
            require(not after & before, "a process was kept")
            judge.check_generations(run, [1])
            [lost] = run.events("lost")
            require(lost["host"] == "host2", f"lost was {lost}")
            require(run.events("generation")[-1]["hosts"] == ",".join(HOSTS[:2]), "other hosts go on")
            wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in before),
                       "workers behind the cut link end by themselves")
        finally:
            set_link("host2", "up")

    return [judge.row("link of one of three hosts cut", body, workers=2, limit=10, **{"parallel.lanes": 6})]


ROWS = {"link": link}
