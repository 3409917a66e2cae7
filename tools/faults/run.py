"""One run of the program, watched from outside: its processes, its files, and when its steps appear."""
import bisect
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

SHARED_MEMORY = pathlib.Path("/dev/shm")
MARK = "DISTBELIEF_CHAOS_MARK"  # inherited by everything that is started, so that it can be found again
DEADLINE_SECONDS = 60  # of every wait but that for a run of known length
POLL_SECONDS = 0.005
IDLE_SECONDS = 0.5  # so long have waiting workers used next to no processor time
# Memory that is named after its run: nobody maps it while the next workers start, also that of somebody else's run.
SNAPSHOTS = re.compile(r"distbelief-\d+-[0-9a-f]{16}")


class Failure(Exception):
    """What was to be shown did not happen."""


def require(condition, what):
    if not condition:
        raise Failure(what)


def wait_until(condition, what, within=DEADLINE_SECONDS):
    end = time.monotonic() + within
    while not condition():
        require(time.monotonic() < end, f"waited {within} s in vain: {what}")
        time.sleep(POLL_SECONDS)


def mapped_segments():
    names = set()
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            names |= set(re.findall(r"/dev/shm/(\S+)", maps.read_text()))
    return names


def ownerless_segments():
    found = {path.name for path in SHARED_MEMORY.iterdir()
             if path.name.startswith(("distbelief-", "vader_segment.", "faketime_"))}
    return found - mapped_segments() if found else set()


def processor_ticks(pids):
    """Used so far by these processes."""
    ticks = 0
    for pid in pids:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(stat[11]) + int(stat[12])
    return ticks


class StepClock(threading.Thread):
    """Notes when each new step appears in the metrics: a clock that the program under test has no part in."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.best, self.times, self.offset = path, 0, [], 0
        self.ended = threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(POLL_SECONDS):
            with contextlib.suppress(OSError):
                self.look()

    def look(self):
        size = self.path.stat().st_size
        if size == self.offset:
            return
        with open(self.path, "rb") as file:
            file.seek(self.offset if size > self.offset else 0)  # a restart cuts off what is done again
            text = file.read()
            self.offset = file.tell()
        steps = [int(step) for step in re.findall(rb'"step":(\d+)[,}]', text)]
        if steps and max(steps) > self.best:
            self.best = max(steps)
            self.times.append(time.time())

    def first_after(self, moment):
        later = bisect.bisect_right(self.times, moment)
        return self.times[later] if later < len(self.times) else None

    def last_until(self, moment):
        return self.times[max(0, bisect.bisect_right(self.times, moment) - 1)]

    def longest_gap(self, begin, end):
        times = [at for at in self.times if begin <= at <= end]
        return max((later - at for at, later in zip(times, times[1:])), default=float("nan"))


class EventTail:
    """The lines of events.jsonl; each is read once, so that looking often costs little."""

    def __init__(self, path):
        self.path, self.offset, self.found = path, 0, []

    def all(self):
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_size > self.offset:
                with open(self.path, "rb") as file:
                    file.seek(self.offset)
                    text = file.read()
                whole = text[:text.rfind(b"\n") + 1]  # a line still being written does not count
                self.offset += len(whole)
                self.found += [json.loads(line) for line in whole.splitlines()]
        return self.found


class Run:
    """One run of the program in a folder of its own, below `folder`."""

    def __init__(self, program, folder, job):
        self.program, self.job = program, job
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="", dir=folder))  # short: sockets have short names
        self.path = self.folder / "run"
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.segments_before = ownerless_segments()
        self.environment = {**os.environ, MARK: str(self.folder), "TMPDIR": str(self.temporary),
                            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.child = None
        self.snapshots = set()  # names of this run's
        self.clock = StepClock(self.path / "metrics.jsonl")
        self.tail_of_events = EventTail(self.path / "events.jsonl")

    @property
    def lanes(self):
        return list(range(int(self.job["parallel.lanes"])))

    # ---- Starting and ending

    def start(self, *arguments, environment=()):
        with open(self.folder / "output", "ab") as output:
            self.child = subprocess.Popen([self.program, *map(str, arguments)],
                                          env={**self.environment, **dict(environment)},
                                          stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def train(self, workers, *arguments, environment=()):
        self.start("train", "--run-dir", self.path, "--workers", workers, *self.flags(), *arguments,
                   environment=environment)

    def train_on(self, hosts):
        self.start("train", "--run-dir", self.path, "--hosts", ",".join(hosts), *self.flags())

    def flags(self):
        return [flag for key, value in self.job.items()
                for flag in ("--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}")]

    def wait_for_steps(self, above=0, within=DEADLINE_SECONDS):
        wait_until(lambda: self.clock.best > above or self.child.poll() is not None, f"a step above {above}", within)
        require(self.child.poll() is None, f"the run ended by itself:\n{self.tail()}")
        self.snapshots |= {f"{path.parent.name}-{path.name}" for path in self.temporary.glob("distbelief-*/*")}

    def control(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], env=self.environment, timeout=DEADLINE_SECONDS,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        require(done.returncode == 0, f"distbelief {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
        return done.stdout

    def status(self):
        return json.loads(self.control("status", self.path, "--json"))

    def finish(self, code, within=DEADLINE_SECONDS):
        try:
            found = self.child.wait(within)
        except subprocess.TimeoutExpired:
            raise Failure(f"still running after {within} s:\n{self.tail()}") from None
        require(found == code, f"exit code {found} instead of {code}:\n{self.tail()}")

    def stop(self):
        self.control("stop", self.path)
        self.finish(130)

    def end(self):
        """Whatever happened: nothing of it goes on. The supervisor is asked first: it knows what to remove."""
        self.clock.ended.set()
        if self.child and self.child.poll() is None:
            self.child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(5)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.child:
            self.child.wait(DEADLINE_SECONDS)

    # ---- Looking

    def tail(self):
        return "\n".join((self.folder / "output").read_text(errors="replace").splitlines()[-8:])

    def summary(self):
        return json.loads((self.path / "summary.json").read_text())

    def events(self, kind):
        return [event for event in self.tail_of_events.all() if event["event"] == kind]

    def metrics(self):
        """Seconds and loss of each step; of one that was done again the later."""
        found = {}
        with open(self.path / "metrics.jsonl") as file:
            for line in map(json.loads, file):
                if "loss" in line:
                    found[line["step"]] = line["seconds"], line["loss"]
        return found

    def processes(self):
        wanted = f"{MARK}={self.folder}".encode()
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                zombie = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
                if not zombie and wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return sorted(found)

    def workers(self):
        """Launch number (cohort) of each living worker process."""
        found = {}
        for pid in self.processes():
            with contextlib.suppress(OSError):
                arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                if arguments[1:2] == ["worker"]:
                    found[pid] = int(arguments[arguments.index("--cohort") + 1])
        return found

    def trainers(self):
        """Process ids of the present generation, and its launch number."""
        generations = self.events("generation")
        cohort = generations[-1]["cohort"] if generations else 0
        return sorted(pid for pid, launch in self.workers().items() if launch == cohort), cohort

    def wait_for_standby(self, workers, within=DEADLINE_SECONDS):
        """Process ids of the workers that wait for their turn. `status` does not tell of them; who has loaded, built
        and warmed up and only waits uses no processor time to speak of."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            active = self.trainers()[1]
            waiting = [pid for pid, launch in self.workers().items() if launch > active]
            with contextlib.suppress(FileNotFoundError):
                before = processor_ticks(waiting)
                time.sleep(IDLE_SECONDS)
                used = (processor_ticks(waiting) - before) / os.sysconf("SC_CLK_TCK")
                if len(waiting) == workers and used < 0.1 * IDLE_SECONDS:
                    return set(waiting)
        raise Failure(f"waited {within} s in vain: {workers} workers that stand by")

    def launcher(self):
        for pid in self.processes():
            with contextlib.suppress(OSError):
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                if int(stat[1]) == self.child.pid:
                    return pid
        raise Failure("the supervisor has no launcher")

    def left_behind(self):
        with contextlib.suppress(Failure):
            wait_until(lambda: not self.processes(), "every process is gone", 2)
        files = [*self.temporary.rglob("*"), *self.path.rglob("*.tmp*"), *self.path.rglob("*.partial*")]
        return [*(f"process {pid}" for pid in self.processes()),
                *(f"/dev/shm/{name}" for name in sorted(ownerless_segments() - self.segments_before)
                  if name in self.snapshots or not SNAPSHOTS.fullmatch(name)),
                *(str(path.relative_to(self.folder)) for path in files)]
