"""What every disturbed run has to show, whatever was done to it, and the table of all."""
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

from faults.run import DEADLINE_SECONDS, Failure, Run, require, wait_until

ENDLESS = {"train.epochs": 10_000_000, "train.schedule": "constant", "train.validate_every": 0,
           "checkpoint.every_epochs": 0, "parallel.lanes": 4, "elastic.restarts": 100, "report.audit": True,
           "report.interval_seconds": 0.0, "report.progress": "none"}
JOBS = {"cnn": {**ENDLESS, "model.name": "cnn", "data.name": "fashion_mnist", "train.batch_size": 64},
        "mlp": {**ENDLESS, "model.name": "mlp", "model.hidden": [64], "data.name": "synthetic", "data.samples": 1024,
                "data.test_samples": 32, "train.batch_size": 64}}


class Row:
    """What one line of the table says."""

    HEAD = ["fault", "count", "median s", "most s", "wanted s", "same bits", "audit", "generations", "left behind",
            "result"]

    def __init__(self, fault, limit=None, each=False):
        self.fault, self.limit, self.each = fault, limit, each  # seconds that the median, or each, may take
        self.count, self.seconds, self.notes = 0, [], []
        self.same_bits = self.audit = None
        self.generations, self.left, self.problem = "", [], ""
        self.shortfall = ""  # right, but not as fast as wanted

    def cells(self):
        def yes(value):
            return "-" if value is None else "yes" if value else "NO"

        times = [f"{value:.2f}" for value in (statistics.median(self.seconds), max(self.seconds))] \
            if self.seconds else ["-", "-"]
        left = "nothing" if not self.left else f"{len(self.left)}: {self.left[0]}"
        return [self.fault, str(self.count), *times, str(self.limit or "-"), yes(self.same_bits), yes(self.audit),
                str(self.generations), left,
                "; ".join([f"FAILED: {self.problem}" if self.problem else "ok", *self.notes])]


class Judge:
    """Runs what disturbs a run, and compares the outcome with that of one that was left alone."""

    def __init__(self, options, folder):
        self.options, self.folder, self.workers = options, pathlib.Path(folder), options.workers
        self.job = {**JOBS[options.model], **dict(setting.split("=", 1) for setting in options.set)}
        self.random = random.Random(options.seed)

    def run(self, **changes):
        return Run(self.options.program, self.folder, {**self.job, **changes})

    def say(self, text):
        print(f"chaos: {text}", file=sys.stderr, flush=True)

    def row(self, fault, body, *, workers=None, limit=None, each=False, **changes):
        """Runs `body(run, row)` on a run that trains, then judges what came out."""
        row, run = Row(fault, limit, each), self.run(**changes)
        self.say(f"{fault} ...")
        try:
            body(run, row)
            if run.child.poll() is None:
                self.check_lanes(run, workers or self.workers)
                run.stop()
            row.left = run.left_behind()
            self.compare(run, row)
            self.check_times(row)
            require(not row.shortfall, row.shortfall)
        except (Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as problem:
            row.problem = " ".join(str(problem).split())
        finally:
            run.end()
        return row

    def check_lanes(self, run, workers):
        """Process ids of the workers, which carry all lanes."""
        status = run.status()
        carried = [worker["lanes"] for worker in status["workers"]]
        require(len(carried) == workers and all(carried) and sum(carried, []) == run.lanes,
                f"{workers} workers were to carry the lanes {run.lanes}, but they carry {carried}")
        return {worker["pid"] for worker in status["workers"]}

    def undisturbed(self, run, steps):
        """The same job, left alone, for as many steps."""
        changes = {key: value for key, value in run.job.items() if not key.startswith(("elastic.", "checkpoint."))}
        whole = self.run(**{**changes, "train.max_steps": steps, "report.audit": False})
        self.say(f"the same {steps} steps undisturbed ...")
        try:
            whole.train(self.workers)
            whole.finish(0, within=DEADLINE_SECONDS + 2 * (self.options.soak or 0) + 0.2 * steps)
        finally:
            whole.end()
        return whole

    def compare(self, run, row):
        summary = run.summary()
        row.generations = len(run.events("generation"))
        row.audit = json.loads(run.control("audit", run.path, "--json"))["proven"]
        whole = self.undisturbed(run, summary["steps"])
        found = whole.summary()
        row.same_bits = found["weights_sha256"] == summary["weights_sha256"]
        row.step_seconds = found["wall_seconds"] / max(1, found["steps"])
        row.losses = self.loss_curve(run, whole)
        require(row.same_bits, f"other weights after {summary['steps']} steps; the runs are {run.path}, {whole.path}")
        require(row.audit, "a sample was lost or seen twice")
        require(not row.left, f"left behind: {', '.join(row.left)}")

    def loss_curve(self, run, whole):
        """Some (step, loss, undisturbed loss); every step that both runs tell of is compared."""
        ours, theirs = run.metrics(), whole.metrics()
        steps = sorted(ours.keys() & theirs.keys())
        require(len(steps) > 0.9 * len(theirs), f"the runs have {len(steps)} of {len(theirs)} steps in common")
        for step in steps:
            require(ours[step][1] == theirs[step][1],
                    f"step {step}: loss {ours[step][1]}, undisturbed {theirs[step][1]}")
        shown = sorted({steps[round(i * (len(steps) - 1) / 11)] for i in range(12)})
        return [(step, ours[step][1], theirs[step][1]) for step in shown]

    def check_times(self, row):
        if not row.limit or not row.seconds:
            return
        row.notes.append(f"{sum(value <= row.limit for value in row.seconds)} of {len(row.seconds)} within "
                         f"{row.limit} s")
        if row.each and max(row.seconds) > row.limit:
            row.shortfall = f"one took {max(row.seconds):.2f} s, each was to take at most {row.limit} s"
        elif statistics.median(row.seconds) > row.limit:
            row.shortfall = "half of them took longer than wanted"

    # ---- Waiting for what was done to have its effect

    def wait_a_while(self, run):
        """Until a random moment of the training."""
        run.wait_for_steps()
        time.sleep(self.random.uniform(0, 2))
        run.wait_for_steps()

    def wait_for_new_step(self, run, row, since):
        """The recovery time by our own clock: to a step that was not there before."""
        seen = len(run.clock.times)
        wait_until(lambda: len(run.clock.times) > seen or run.child.poll() is not None, "a new step")
        run.wait_for_steps()
        row.seconds.append(run.clock.times[seen] - since)
        wait_until(lambda: len(run.events("recovered")) == len(run.events("lost")), "the event 'recovered'")

    def check_generations(self, run, killed):
        """Each generation but the last was struck by us, and none came without a reason."""
        cohorts = [event["cohort"] for event in run.events("generation")]
        require(len(cohorts) > 1, "no new generation: nothing happened")
        require(set(cohorts[:-1]) <= set(killed), f"generations of launches {cohorts}, but struck were {killed}")
        require(not set(cohorts[-1:]) & set(killed), "a launch that was struck trains on")
        require(cohorts[-1] == 1 + len(set(killed)), f"launch {cohorts[-1]} after {len(set(killed))} losses")


def print_table(rows):
    table = [Row.HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]) - 1)]
    for line in table:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[-1]]))
