"""Trains a random job and says whether it did what every job has to do: be refused before anything starts, or end with the
bits of one worker."""
import contextlib
import pathlib
import random
import signal
import subprocess
import tomllib

from faults.run import Failure, Run, require, wait_until
from random_jobs.draw import DEADLINE_SECONDS, is_served, mode_of, processes, toml
from random_jobs.networks import TEXTS, sentences

REFUSED, INTERRUPTED = 2, 130
# What only says how the work is spread, watched and kept. The rest is the job's arithmetic.
SPREAD = ("parallel.", "elastic.", "checkpoint.", "report.", "data.loader_threads", "data.prefetch", "data.cache",
          "train.accumulate", "train.verify_every")
# So much slower a lane is where a command has to find the run under way: steps take tens of milliseconds then.
SLOW = {"resnet18": 4, "wide_resnet": 8, "actor_critic": 8, "fbnet": 10, "fbnet_search": 8, "dcgan": 10, "unet": 10,
        "cnn": 25, "lenet": 25, "gpt": 15, "bert": 15, "frame_lstm": 8, "tree_lstm": 10, "lstm": 15, "gru": 15}
SLOW_OTHERS = 60


class Outcome:
    def __init__(self, verdict, note):
        self.verdict, self.note = verdict, note  # passed, refused or failed, and why


class JobRun(Run):
    """A run of a job file, in a folder of its own that is also the working directory."""

    def start(self, *arguments, environment=()):
        with open(self.folder / "output", "ab") as output:
            output.write(f"$ distbelief {' '.join(map(str, arguments))}\n".encode())
            output.flush()
            self.child = subprocess.Popen([self.program, *map(str, arguments)], cwd=self.folder,
                                          env={**self.environment, **dict(environment)},
                                          stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def code(self, *arguments, within):
        """Exit code of a command that is waited for."""
        self.start(*arguments)
        return self.wait(within)

    def wait(self, within):
        try:
            return self.child.wait(within)
        except subprocess.TimeoutExpired:
            raise Failure(f"still running after {within} s: {self.tail()}") from None

    def command(self, *arguments, within):
        """Exit code of a command beside the one that trains."""
        with open(self.folder / "output", "ab") as output:
            output.write(f"$ distbelief {' '.join(map(str, arguments))}\n".encode())
            output.flush()
            try:
                return subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, env=self.environment,
                                      timeout=within, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                      check=False).returncode
            except subprocess.TimeoutExpired:
                raise Failure(f"no answer after {within} s: distbelief {' '.join(map(str, arguments))}") from None

    def has_steps(self, within):
        """Waits for a first step. Whether the run is still under way then."""
        with contextlib.suppress(Failure):
            self.wait_for_steps(within=within)
        require(self.clock.best > 0 or self.child.poll() is not None, f"no step after {within} s")
        return self.child.poll() is None

    def last_line(self):
        lines = (self.folder / "output").read_text(errors="replace").strip().splitlines()
        return next((line for line in reversed(lines) if line.startswith("distbelief: ")), "")[len("distbelief: "):]


class Judge:
    def __init__(self, program, folder, deadline):
        self.program, self.folder, self.deadline = program, pathlib.Path(folder), deadline

    def judge(self, case):
        run = self.prepared(self.folder, case.job)
        try:
            outcome = self.outcome(case, run)
        except (Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as problem:
            outcome = Outcome("failed", " ".join(str(problem).split()))
        finally:
            run.end()
        return outcome, run.folder

    def prepared(self, folder, job):
        run = JobRun(self.program, folder, job)
        (run.folder / "job.toml").write_text(toml(job))
        if job["model.name"] in TEXTS:
            (run.folder / "words.txt").write_text(sentences(random.Random(1)))
        return run

    def outcome(self, case, run):
        checked = run.code("check", "job.toml", within=self.deadline)
        require(checked in (0, REFUSED), f"check ended with {checked}: {run.last_line()}")
        if checked == REFUSED:
            return self.refused(run)
        require(not case.wrong, f"check accepts {case.wrong} = {case.job.get(case.wrong)}, against the reference")
        notes = [note for note in [self.disturbed(case, run)] if note]
        self.require_nothing_left(run)
        self.require_nobody_else_lost(case, run)
        summary = run.summary()
        require(summary["status"] == "done", f"the run ended, but its summary says {summary['status']}")
        self.audit(case, run)
        if not summary["reproducible"]:
            return Outcome("passed", "; ".join([*notes, "has no bits of its own"]))
        self.compare(case, run, summary)
        return Outcome("passed", "; ".join(notes))

    def refused(self, run):
        reason = run.last_line()
        trained = run.code("train", "job.toml", "--run-dir", "run", within=self.deadline)
        require(trained == REFUSED, f"check refuses the job ({reason}), train ends with {trained}: {run.last_line()}")
        require(not run.path.exists(), f"a refused job leaves a run folder ({reason})")
        self.require_nothing_left(run)
        return Outcome("refused", reason)

    def require_nothing_left(self, run):
        # Shared memory of somebody else's run may have no owner for a moment.
        with contextlib.suppress(Failure):
            wait_until(lambda: not run.left_behind(), "nothing is left behind", 5)
        left = run.left_behind()
        require(not left, f"left behind: {', '.join(left)}")

    def require_nobody_else_lost(self, case, run):
        """A hang that ends at a deadline is made good by a restart, and shows here alone."""
        lost = run.events("lost") + run.events("replica lost") + run.events("server lost")
        most = 1 if case.disturbance[0] == "kill" else 0
        others = [event for event in lost if event.get("signal") != signal.SIGKILL] or lost[most:]
        require(not others, f"a process was lost that nobody killed: {others[:1]}")

    # ---- Disturbances

    def disturbed(self, case, run):
        """Trains to the end, whatever is done meanwhile. Gives what is to be told of it."""
        kind, what = case.disturbance
        train = ["train", "job.toml", "--run-dir", "run"]
        if kind in ("scale", "stop", "pause"):
            factor = SLOW.get(case.job["model.name"], SLOW_OTHERS)
            train += [flag for rank in slowed(case.job) for flag in ("--inject", f"slow:rank={rank},factor={factor}")]
        if kind == "kill":
            train += ["--inject", f"kill:rank={what['rank']},step={what['step']}"]
        run.start(*train)
        note = getattr(self, f"after_{kind}")(run, what)
        code = run.wait(self.deadline)
        require(code == 0, f"a sound job, but the run ended with {code}{f' ({note})' if note else ''}: {run.last_line()}")
        return note

    def after_none(self, run, what):
        return ""

    def after_kill(self, run, what):
        run.wait(self.deadline)
        lost = run.events("lost") + run.events("replica lost")
        return f"worker {what['rank']} killed at step {what['step']}" if lost else "the kill did not happen"

    def after_scale(self, run, what):
        if not run.has_steps(self.deadline):
            return "ended before it was scaled"
        [(name, value)] = what.items()
        size = [value] if name == "workers" else [f"--{name}", value]
        code = run.command("scale", "run", *size, within=self.deadline)
        if code not in (0, REFUSED):
            require(run.wait(self.deadline) == 0, f"scale ended with {code}: {run.last_line()}")
            return "ended while it was scaled"
        return f"{'scaled to' if code == 0 else 'refused to scale to'} {value} {name}"

    def after_pause(self, run, what):
        if not run.has_steps(self.deadline):
            return "ended before it was paused"
        code = run.command("pause", "run", "--worker", what["worker"], within=self.deadline)
        if code == 0:
            run.command("resume", "run", "--worker", what["worker"], within=self.deadline)
        return f"{'paused' if code == 0 else 'did not pause'} worker {what['worker']}"

    def after_stop(self, run, what):
        if not run.has_steps(self.deadline) or run.command("stop", "run", within=self.deadline) != 0:
            return "ended before it was stopped"
        code = run.wait(self.deadline)
        if code == 0:
            return "ended while it was stopped"
        require(code == INTERRUPTED, f"a stopped run ended with {code}: {run.last_line()}")
        stopped = f"stopped at step {run.summary()['steps']}"
        if not what["workers"]:
            run.start("resume", "run")
            return f"{stopped}, resumed"
        run.start("resume", "run", "--workers", what["workers"])
        if run.wait(self.deadline) != REFUSED:
            return f"{stopped}, resumed with {what['workers']} workers"
        run.start("resume", "run")
        return f"{stopped}, {what['workers']} workers refused, resumed"

    # ---- What came out

    def audit(self, case, run):
        if not is_served(case.job) and not case.job.get("report.audit"):
            return
        code = run.command("audit", "run", within=self.deadline)
        require(code == 0, f"audit ended with {code}: {run.last_line()}")

    def compare(self, case, run, summary):
        resolved = tomllib.loads((run.path / "job.toml").read_text())
        alone = self.prepared(run.folder, alone_of(case.job, resolved, summary))
        try:
            code = alone.code("train", "job.toml", "--run-dir", "run", within=self.deadline)
            require(code == 0, f"the same job on one worker ended with {code}: {alone.last_line()}")
            expected = alone.summary()
        finally:
            alone.end()
        for key in ("weights_sha256", "steps", "final_train_loss", "test_loss"):
            require(summary.get(key) == expected.get(key),
                    f"{key} is {summary.get(key)}, of the same job on one worker {expected.get(key)}")


def slowed(job):
    """Ranks that are slow so that the run lasts: the first one where all wait for each other, else one of each replica.
    Two slow workers that wait for each other would count the waiting as their own slowness."""
    if mode_of(job) in (None, "sync"):
        return [0]
    return range(0, processes(job), processes(job) // job["parallel.workers"])


def alone_of(job, resolved, summary):
    """The same arithmetic on one worker: as many as `tensor` says, whose additions are the job's own; of a model that is
    decomposed one for each sub-network."""
    plain = {name: value for name, value in job.items() if not name.startswith(SPREAD)}
    plain.update({f"model.{name}": value for name, value in resolved["model"].items()})  # with what the run measured
    plain.update({"parallel.lanes": resolved["parallel"]["lanes"], "parallel.deadline_seconds": DEADLINE_SECONDS})
    if job.get("parallel.mode") == "decomposed":
        kept = ("parallel.sync", "parallel.mode", "parallel.sub_networks", "parallel.cuts")
        return {**plain, **{name: job[name] for name in kept if name in job},
                "parallel.workers": job.get("parallel.sub_networks", 2)}
    tensor = summary.get("tensor", 1)
    return {**plain, "parallel.workers": tensor, "parallel.tensor": tensor}
