"""Rows without a killed worker: other processes struck, workers added and removed, one slowed down, the clock moved."""
import glob
import os
import signal
import statistics
import time

from faults.run import DEADLINE_SECONDS, Failure, require, wait_until

ALLOWED_SHARE = 0.85  # of what the speeds allow, after rebalancing
SLOW_LANES = 8
HOUR = 3600


def resize(judge):
    sizes = [4, 1, 3]

    def body(run, row):
        run.train(2)
        run.wait_for_steps()
        pids = set(run.workers())
        for number, workers in enumerate(sizes, start=2):
            begin = time.time()
            run.control("scale", run.path, workers)
            wait_until(lambda: len(run.events("generation")) == number, f"{workers} workers")
            run.wait_for_steps(above=run.clock.best + 20)
            row.seconds.append(run.clock.longest_gap(begin, time.time()))
            now = judge.check_lanes(run, workers)
            require(not now & pids, "a process was kept")
            pids |= now
        row.count = len(sizes)
        require([event["workers"] for event in run.events("generation")] == [2, *sizes], "other numbers of workers")
        require(not run.events("lost"), "a worker was lost")
        row.notes.append("pauses " + ", ".join(f"{pause:.2f}" for pause in row.seconds) + " s")

    return [judge.row("resize 2 -> 4 -> 1 -> 3", body, workers=sizes[-1], limit=1, each=True)]


def struck(judge, fault, strike, limit=None, check=lambda run, row, since: None, **changes):
    """A run that is struck once, and whose workers all have to be new afterwards. `check` looks at what was told."""
    def body(run, row):
        run.train(judge.workers)
        judge.wait_a_while(run)
        before, since = run.workers(), time.time()
        strike(run, before)
        time.sleep(0.05)  # what was under way may still be written
        row.count = 1
        judge.wait_for_new_step(run, row, since)
        after = judge.check_lanes(run, judge.workers)
        require(not after & set(before), "a process was kept")
        judge.check_generations(run, [1])
        check(run, row, since)

    return [judge.row(fault, body, limit=limit, **changes)]


def launcher(judge):
    return struck(judge, "kill -9 of mpirun", lambda run, _: os.kill(run.launcher(), signal.SIGKILL), limit=1.8)


def stopped(judge):
    deadline, ranks = 2, []

    def strike(run, workers):
        victim = max(workers)
        ranks.extend(worker["rank"] for worker in run.status()["workers"] if worker["pid"] == victim)
        os.kill(victim, signal.SIGSTOP)

    def check(run, row, since):
        [lost] = run.events("lost")
        noticed = lost["unix_seconds"] - since
        row.notes.append(f"named after {noticed:.2f} s")
        require([lost["worker"]] == ranks, f"worker {ranks} was stopped, but {lost['worker']} is called lost")
        require(noticed <= deadline + 1, f"named after {noticed:.2f} s, the deadline is {deadline} s")

    return struck(judge, f"SIGSTOP of a worker, deadline {deadline} s", strike, check=check,
                  **{"parallel.deadline_seconds": deadline})


def supervisor(judge):
    def body(run, row):
        run.train(judge.workers)
        judge.wait_a_while(run)
        before, since = run.workers(), time.time()
        os.kill(run.child.pid, signal.SIGKILL)
        run.child.wait(DEADLINE_SECONDS)
        wait_until(lambda: not run.processes(), "the workers to end by themselves", 5)
        row.count, row.seconds = 1, [time.time() - since]
        left = run.left_behind()
        require(not left, f"left behind: {', '.join(left)}")
        saved = run.summary()["steps"]
        run.start("resume", run.path)
        run.wait_for_steps(above=max(saved, run.clock.best))
        require([event["step"] for event in run.events("resumed")] == [saved], "it went on from elsewhere")
        require(not set(run.workers()) & set(before), "a process was kept")
        row.notes.append("the seconds are those until all had saved and gone")

    return [judge.row("kill -9 of the supervisor, resume", body)]


# ---- A slow worker

def lanes_per_second(run, seconds, after=lambda: 0):
    """Of a run that trains: over the steps of so many seconds after the step that `after` gives."""
    wait_until(lambda: run.clock.best > 20 and after() is not None or run.child.poll() is not None, "steps to measure")
    begin = max(20, after() or 0) + 1
    time.sleep(seconds)
    run.wait_for_steps(above=begin)
    times = run.metrics()
    end = max(times)
    return len(run.lanes) * (end - begin) / (times[end][0] - times[begin][0])


def speed_alone(judge, *inject):
    """Lanes per second of one worker that has all of them."""
    run = judge.run(**{"parallel.lanes": SLOW_LANES})
    try:
        run.train(1, *inject)
        speed = lanes_per_second(run, judge.options.measure)
        run.stop()
    finally:
        run.end()
    return speed


def moved_lanes(run):
    """The step of the last rebalancing; None before there was one that has settled."""
    moves = run.events("rebalanced")
    return moves[-1]["step"] if moves and run.clock.best > moves[-1]["step"] + 150 else None


def slowed(judge, factor):
    inject = ("--inject", f"slow:rank=1,step=0,factor={factor},generation=0")
    alone = ("--inject", f"slow:rank=0,step=0,factor={factor},generation=0")

    def measure_alone():
        judge.say("speed of each worker alone ...")
        return speed_alone(judge), speed_alone(judge, *alone)

    def body(run, row):
        before = measure_alone()
        run.train(2, *inject)
        run.wait_for_steps()
        pids = set(run.workers())
        speed = lanes_per_second(run, judge.options.measure, lambda: moved_lanes(run))
        require(judge.check_lanes(run, 2) == pids, "the workers are others than before")
        check_moves(run)
        run.stop()
        row.count = len(run.events("rebalanced"))
        judge_speed(row, run.events("rebalanced")[-1]["lanes"], speed, [before, measure_alone()])

    return judge.row(f"one worker {factor:g} times slower", body, workers=2, **{"parallel.lanes": SLOW_LANES})


def judge_speed(row, lanes, speed, alone):
    """Against what two workers that do not wait for each other would do, and what whole lanes leave of it."""
    fast, slow = (statistics.mean(speeds) for speeds in zip(*alone))
    best = max(min(fast / (SLOW_LANES - carried), slow / carried) for carried in range(1, SLOW_LANES)) * SLOW_LANES
    row.notes += [f"lanes {lanes}", f"{speed:.1f} lanes/s; the speeds {fast:.1f} and {slow:.1f} allow "
                  f"{fast + slow:.1f}, in whole lanes {best:.1f}",
                  f"{100 * speed / (fast + slow):.0f} % and {100 * speed / best:.0f} % of that"]
    if speed < ALLOWED_SHARE * (fast + slow):
        row.shortfall = f"less than {100 * ALLOWED_SHARE:.0f} % of what the speeds allow"


def check_moves(run):
    moves = run.events("rebalanced")
    require(moves[0]["before"] == [SLOW_LANES // 2] * 2, f"it began with {moves[0]['before']}")
    require(moves[-1]["lanes"][0] > moves[-1]["lanes"][1], f"the slow worker has {moves[-1]['lanes'][1]} lanes")
    carried = [len(worker["lanes"]) for worker in run.status()["workers"]]
    require(carried == moves[-1]["lanes"], f"the workers carry {carried} lanes, wanted were {moves[-1]['lanes']}")
    require(len(run.events("generation")) == 1 and not run.events("lost"), "a worker was replaced")


def slow(judge):
    """Three times: six lanes against two fit exactly. 2.4 times: no split does."""
    return [slowed(judge, factor) for factor in (3, 2.4)]


# ---- The clock

def moved_clock(path):
    """Environment of a program whose clock is as far from the real one as the file says. As when somebody sets the
    machine's clock, the one that only counts (CLOCK_MONOTONIC) goes on."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not found:
        raise Failure("libfaketime is not installed: tools/install_packages.sh test")
    # jemalloc asks for the time before libfaketime can answer: the C library's allocator takes its place.
    return {"LD_PRELOAD": f"{found[0]}:libc.so.6:libstdc++.so.6", "FAKETIME_TIMESTAMP_FILE": str(path),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}


def set_clock(path, seconds):
    path.with_suffix(".new").write_text(f"{seconds:+d}\n")
    path.with_suffix(".new").rename(path)


def clock(judge):
    """An hour back, then forward: two hours at once, more than any deadline."""
    def told(run):
        """How far the clock of who wrote the last event is from ours."""
        return run.tail_of_events.all()[-1]["unix_seconds"] - time.time()

    def move(run, seconds):
        set_clock(run.folder / "clock", seconds)
        time.sleep(3)  # all processes have seen it, and every heartbeat and report has come some times
        run.wait_for_steps(above=run.clock.best + 20)
        run.control("pause", run.path)
        require(abs(told(run) - seconds) < 60, f"the clock is {told(run):.0f} s from ours instead of {seconds}")
        run.control("resume", run.path)
        run.wait_for_steps(above=run.clock.best + 20)

    def body(run, row):
        set_clock(run.folder / "clock", 0)
        run.train(judge.workers, environment=moved_clock(run.folder / "clock"))
        run.wait_for_steps()
        pids = set(run.workers())
        for seconds in (-HOUR, HOUR):
            move(run, seconds)
            row.count += 1
        require(judge.check_lanes(run, judge.workers) == pids, "the workers are others than before")
        require(not run.events("lost") and len(run.events("generation")) == 1, "a false alarm")
        run.stop()
        [finished] = run.events("finished")  # written by a worker
        require(abs(finished["unix_seconds"] - time.time() - HOUR) < 60, "the workers' clock was not moved")

    return [judge.row("clock set an hour back, then forward", body)]


ROWS = {"resize": resize, "mpirun": launcher, "sigstop": stopped, "supervisor": supervisor, "slow": slow,
        "clock": clock}
