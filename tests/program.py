"""The program under test: started with a deadline in a scratch folder, and watched for what it leaves behind.

Paths come from the environment, which tests/CMakeLists.txt sets: DISTBELIEF_PROGRAM, DISTBELIEF_SOURCE_DIR,
DISTBELIEF_BUILD_DIR, DISTBELIEF_MPIEXEC, DISTBELIEF_OPEN_MPI.
"""
import collections
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

PROGRAM = os.environ.get("DISTBELIEF_PROGRAM", "distbelief")
SOURCE = pathlib.Path(os.environ.get("DISTBELIEF_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent))
MPIEXEC = os.environ.get("DISTBELIEF_MPIEXEC", "mpirun")
OPEN_MPI = os.environ.get("DISTBELIEF_OPEN_MPI", "1") not in ("", "0", "FALSE", "OFF")
MARK = "DISTBELIEF_TEST_MARK"  # inherited by everything a test starts, so that it can be found again
EXCUSE = "this machine cannot: "
SKIP_MARK = "skipped: "  # begins a line of every skip, for tools/count_tests.py, which judges each
SHARED_MEMORY = pathlib.Path("/dev/shm")
DEADLINE_SECONDS = 90

Outcome = collections.namedtuple("Outcome", "code out err seconds")

MLP = {"model.name": "mlp", "model.hidden": [32], "data.name": "synthetic", "data.samples": 64,
       "data.test_samples": 32, "data.height": 8, "data.width": 8, "train.batch_size": 16, "train.epochs": 2,
       "parallel.lanes": 4, "report.interval_seconds": 0.0}
# Goes on until it is stopped.
ENDLESS = {**MLP, "train.epochs": 10_000_000, "train.validate_every": 0, "checkpoint.every_epochs": 0,
           "report.interval_seconds": 0.02}
RESNET = {**MLP, "model.name": "resnet18", "data.channels": 3, "data.height": 16, "data.width": 16,
          "data.samples": 19, "data.test_samples": 8, "train.batch_size": 8, "train.lr": 0.01,
          "train.validate_every": 0, "checkpoint.every_epochs": 0}
RESNET.pop("model.hidden")
GPT = {"model.name": "gpt", "model.layers": 2, "model.width": 64, "model.heads": 4, "data.name": "synthetic_tokens",
       "data.samples": 19, "data.test_samples": 8, "data.length": 16, "data.vocabulary": 32, "train.batch_size": 8,
       "train.epochs": 2, "train.lr": 0.01, "parallel.lanes": 4, "report.interval_seconds": 0.0}


def settings(job):
    """--set flags of a dictionary of keys."""
    flags = []
    for key, value in job.items():
        flags += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return flags


def mpirun(processes):
    """How a command begins that a user starts under mpirun."""
    return [MPIEXEC, *(["--oversubscribe", "--bind-to", "none"] if OPEN_MPI else []), "-n", processes]


def cannot(reason):
    raise unittest.SkipTest(EXCUSE + reason)


def lines_of(path):
    """The objects of a .jsonl file; [] while there is none. A line still being written does not count."""
    try:
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    except FileNotFoundError:
        return []


def mapped_segments():
    """Names in /dev/shm that a living process maps."""
    names = set()
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            names |= {line.split("/dev/shm/")[1].split(" ")[0] for line in maps.read_text().splitlines()
                      if "/dev/shm/" in line}
        except OSError:
            continue
    return names


def ownerless_segments():
    found = {path.name for path in SHARED_MEMORY.iterdir()
             if path.name.startswith(("distbelief-", "vader_segment."))}
    return found - mapped_segments() if found else set()


class ProgramTest(unittest.TestCase):
    """A scratch folder, the program, and the promise that nothing of it is left when the test ends."""

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="distbelief-test-"))
        self.mark = self.scratch.name
        self.temporary = self.scratch / "tmp"
        self.temporary.mkdir()
        self.environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary),
                            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.segments_before = ownerless_segments()
        self.children = []

    def tearDown(self):
        try:
            self.assert_nothing_left()
        finally:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for child in self.children:
                child.wait(10)
            shutil.rmtree(self.scratch, ignore_errors=True)

    # ---- Starting

    def start(self, command, **options):
        """Starts a command as leader of a session; its output goes to files."""
        with open(self.scratch / "out", "wb") as out, open(self.scratch / "err", "wb") as err:
            child = subprocess.Popen([str(part) for part in command], cwd=self.scratch, start_new_session=True,
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                     **{"env": self.environment, **options})
        child.began = time.monotonic()
        self.children.append(child)
        return child

    def finish(self, child, within=DEADLINE_SECONDS):
        try:
            code = child.wait(within)
        except subprocess.TimeoutExpired:
            self.fail(f"still running after {within} s: {child.args}\n{self.shown()}")
        seconds = time.monotonic() - child.began
        return Outcome(code, (self.scratch / "out").read_text(errors="replace"),
                       (self.scratch / "err").read_text(errors="replace"), seconds)

    def command(self, *arguments, code=0, within=DEADLINE_SECONDS, **options):
        """Runs a command to its end and insists on the exit code."""
        outcome = self.finish(self.start(arguments, **options), within)
        self.assertEqual(outcome.code, code, f"{' '.join(map(str, arguments))}\n{outcome.out}\n{outcome.err}")
        return outcome

    def distbelief(self, *arguments, **options):
        return self.command(PROGRAM, *arguments, **options)

    def shown_on_terminal(self, *arguments, columns=100, **environment):
        """What a command shows, stdout and stderr, where these are a terminal."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        shown = bytearray()

        def read():
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:  # the other side was closed
                    return
                if not part:
                    return
                shown.extend(part)

        reader = threading.Thread(target=read)
        child = subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.scratch, stdin=subprocess.DEVNULL, stdout=slave,
                                 stderr=slave, start_new_session=True, env={**self.environment, **environment})
        child.began = 0
        self.children.append(child)
        os.close(slave)
        reader.start()
        self.assertEqual(child.wait(DEADLINE_SECONDS), 0, bytes(shown))
        reader.join(10)
        os.close(master)
        return shown.decode(errors="replace")

    def control(self, *arguments, code=0, on_failure="err"):
        """Runs a command beside the one that trains, whose output it leaves alone. Gives what it printed; when it is to
        fail, what it printed on that stream."""
        done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.scratch, env=self.environment, timeout=30,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done.stdout if code == 0 or on_failure == "out" else done.stderr

    def status(self, name):
        return json.loads(self.control("status", name, "--json"))

    def train(self, name, job, *arguments, **options):
        """Trains into the run folder `name` and gives the summary."""
        self.distbelief("train", "--run-dir", self.scratch / name, *settings(job), *arguments, **options)
        return self.summary(name)

    def start_training(self, name, job, *arguments, launcher=()):
        """Starts a run and waits until it has taken steps."""
        child = self.start([*launcher, PROGRAM, "train", "--run-dir", name, *settings(job), *arguments])
        self.wait_until(lambda: len(lines_of(self.scratch / name / "metrics.jsonl")) >= 2 or child.poll() is not None,
                        "the run took steps")
        self.assertIsNone(child.poll(), f"the run ended by itself\n{self.shown()}")
        return child

    def events(self, name, kind):
        """What has happened so far of that kind."""
        return [event for event in lines_of(self.scratch / name / "events.jsonl") if event["event"] == kind]

    def summary(self, name):
        return json.loads((self.scratch / name / "summary.json").read_text())

    def shown(self):
        return "".join((self.scratch / name).read_text(errors="replace") for name in ("out", "err"))

    # ---- Watching

    def wait_until(self, condition, what, within=DEADLINE_SECONDS):
        end = time.monotonic() + within
        while not condition():
            if time.monotonic() > end:
                self.fail(f"waited {within} s for this: {what}\n{self.shown()}")
            time.sleep(0.01)

    def processes(self):
        """Ids of living processes that this test started, directly or not."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                zombie = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
                if not zombie and wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def workers(self):
        """Process id of each worker, by rank."""
        ranks = {}
        for pid in self.processes():
            try:
                arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                environment = dict(entry.split(b"=", 1) for entry in
                                   pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if b"=" in entry)
            except OSError:
                continue
            rank = environment.get(b"OMPI_COMM_WORLD_RANK", environment.get(b"PMI_RANK"))
            if rank is not None and len(arguments) > 1 and arguments[0].endswith(b"distbelief"):
                ranks[int(rank)] = pid
        return ranks

    def assert_all_gone(self, within):
        """No process of this test is left `within` seconds from now."""
        self.wait_until(lambda: not self.processes(), "every process is gone", within)

    def assert_nothing_left(self, within=2):
        self.assert_all_gone(within)
        # Nobody maps the snapshots of somebody else's run while its next workers start; ours would stay.
        self.wait_until(lambda: not ownerless_segments() - self.segments_before, "no shared memory is left", 10)
        self.assertEqual(sorted(str(path) for path in self.temporary.rglob("*")), [], "temporary files were left")
        unfinished = [str(path) for path in self.scratch.rglob("*") if ".tmp" in path.name or ".partial" in path.name]
        self.assertEqual(unfinished, [], "half-written files were left")


class _Reporter(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.stream.writeln(f"    {time.monotonic() - self.began:.1f} s")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(SKIP_MARK + " ".join(reason.split()), flush=True)


def _tests_of(name):
    return [f"{name}.{test}" for test in
            unittest.defaultTestLoader.getTestCaseNames(getattr(sys.modules["__main__"], name))]


def main():
    """unittest's main with ctest's exit code for a skip: 77. `--list CLASS` names the tests of that class instead;
    `CLASS --without CLASS.TEST...` runs all but these."""
    if sys.argv[1:2] == ["--list"]:
        print("\n".join(_tests_of(sys.argv[2])))
        return
    if sys.argv[2:3] == ["--without"]:
        tests, without = _tests_of(sys.argv[1]), set(sys.argv[3:])
        if not without < set(tests):
            sys.exit(f"{sys.argv[1]} has {tests}, not {without - set(tests)}, or would have none left")
        sys.argv[1:] = [test for test in tests if test not in without]
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=_Reporter)
    result = unittest.main(module="__main__", testRunner=runner, exit=False).result
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    sys.exit(77 if result.skipped else 0)
