"""Rows in which workers are killed: at random moments, at every named point, again and again."""
import os
import signal
import statistics
import time

from faults.run import DEADLINE_SECONDS, require, wait_until

LIMIT_SECONDS, STANDBY_LIMIT_SECONDS = 1.8, 0.8  # from a kill to the next new step
STRIDE = {"cnn": 60, "mlp": 3000}  # at most so many steps lie between two of many kills


class Kills:
    """Kills workers that train, one at a time, each after the run has made new steps."""

    def __init__(self, judge, run, row, standby=False):
        self.judge, self.run, self.row, self.standby = judge, run, row, standby
        self.struck, self.pids = [], set()  # times; all workers so far

    def kill(self, wait=lambda: None):
        """Kills one of those that train when `wait` returns, and sees new ones take over."""
        run = self.run
        run.wait_for_steps(above=run.clock.best)
        waiting = run.wait_for_standby(self.judge.workers) if self.standby else None
        wait()
        pids, _ = run.trainers()
        require(len(pids) == self.judge.workers and not self.pids & set(pids), f"unexpected workers {pids}")
        self.pids |= set(pids)
        victim = self.judge.random.choice(pids)
        self.struck.append(time.time())
        os.kill(victim, signal.SIGKILL)
        self.row.count += 1
        self.see_takeover(waiting)

    def see_takeover(self, waiting):
        run, number = self.run, len(self.struck)
        wait_until(lambda: len(run.events("generation")) > number or run.child.poll() is not None, "a new generation")
        require(run.child.poll() is None, f"the run ended by itself:\n{run.tail()}")
        # A step that was under way may still be seen just after the kill: only the next generation's count.
        began = run.events("generation")[number]["unix_seconds"]
        wait_until(lambda: run.clock.first_after(began) or run.child.poll() is not None, "a new step")
        run.wait_for_steps()
        self.row.seconds.append(run.clock.first_after(began) - self.struck[-1])
        wait_until(lambda: len(run.events("recovered")) == number, "the event 'recovered'")
        self.check_takeover(waiting)

    def check_takeover(self, waiting):
        run, number = self.run, len(self.struck)
        after = set(run.trainers()[0])
        require(len(after) == self.judge.workers and not after & self.pids, "a process was kept")
        require(waiting is None or after == waiting, f"the standby {waiting} did not take over, but {after}")
        require(len(run.events("generation")) == 1 + number, "more generations than kills")
        resumed = run.events("resumed")[-1]
        found = [resumed[key] for key in ("generation", "workers", "lanes")]
        require(found == [1 + number, self.judge.workers, len(run.lanes)], f"it went on otherwise: {resumed}")

    def goodput(self, begin, end):
        """Share of the time that went into steps that counted: without what lies between the last step before a kill
        and the first new one after it, but for the one step."""
        clock = self.run.clock
        usual = statistics.median(later - at for at, later in zip(clock.times, clock.times[1:]))
        lost = sum(at + seconds - clock.last_until(at) - usual for at, seconds in zip(self.struck, self.row.seconds))
        return 1 - lost / (end - begin)


def some_kills(judge, name, limit, **changes):
    """Each at a random moment."""
    def body(run, row):
        run.train(judge.workers)
        kills = Kills(judge, run, row, standby="elastic.standby" in changes)
        for _ in range(judge.options.kills or 10):
            kills.kill(lambda: time.sleep(judge.random.uniform(0, 2)))

    return [judge.row(name, body, limit=limit, **changes)]


def kills(judge):
    return some_kills(judge, "kill -9 of a worker", LIMIT_SECONDS)


def standby(judge):
    return some_kills(judge, "kill -9 of a worker, standby", STANDBY_LIMIT_SECONDS, **{"elastic.standby": True})


def many(judge):
    """At random steps; then the run ends by itself."""
    count = judge.options.kills or 100
    strides = [judge.random.randint(1, STRIDE[judge.options.model]) for _ in range(count)]

    def body(run, row):
        run.train(judge.workers)
        kills = Kills(judge, run, row)
        for stride in strides:
            kills.kill(lambda: run.wait_for_steps(above=run.clock.best + stride))
            if row.count % 10 == 0:
                judge.say(f"{row.count} of {count} kills, step {run.clock.best}")
        pids = judge.check_lanes(run, judge.workers)
        require(not pids & kills.pids, "a process was kept")
        run.finish(0, within=DEADLINE_SECONDS + 0.2 * run.job["train.max_steps"])
        summary = run.summary()
        require((summary["status"], summary["steps"]) == ("done", run.job["train.max_steps"]), "it did not finish")

    # Twice as long as the kills need: some steps pass while a victim is chosen.
    steps = 2 * sum(strides) + STRIDE[judge.options.model]
    return [judge.row(f"{count} kills in one run that finishes", body, **{"train.max_steps": steps})]


def soak(judge):
    """A kill every so many seconds, at a random moment of each such stretch."""
    seconds, every = judge.options.soak or 120, judge.options.every or 15
    moments = [(number + judge.random.random()) * every for number in range(max(1, int(seconds / every)))]

    def body(run, row):
        run.train(judge.workers)
        run.wait_for_steps()
        begin, first, kills = time.time(), run.clock.best, Kills(judge, run, row)
        for moment in moments:
            kills.kill(lambda: time.sleep(max(0.0, begin + moment - time.time())))
            judge.say(f"{time.time() - begin:.0f} of {seconds:.0f} s, {row.count} kills, step {run.clock.best}")
        time.sleep(max(0.0, begin + seconds - time.time()))
        end = time.time()
        row.steps, row.wall = run.clock.best - first, end - begin
        row.notes.append(f"goodput {100 * kills.goodput(begin, end):.1f} %")

    row = judge.row(f"soak: {seconds:.0f} s, a kill every {every:g} s", body)
    if not row.problem:
        row.notes.append(f"{100 * row.steps * row.step_seconds / row.wall:.1f} % of the undisturbed run's speed")
        print("loss by step, the same undisturbed:")
        for step, loss, undisturbed in row.losses:
            print(f"  {step:8}  {loss:.6f}  {undisturbed:.6f}")
    return [row]


def anytime(judge):
    """At uniformly random times, also while workers start: kills may come faster than generations."""
    count, every = judge.options.kills or 10, judge.options.every or 3
    times = sorted(judge.random.uniform(0, count * every) for _ in range(count))

    def body(run, row):
        run.train(judge.workers)
        run.wait_for_steps()
        begin, killed = time.time(), []
        for at in times:
            time.sleep(max(0.0, begin + at - time.time()))
            wait_until(run.workers, "a worker to kill")
            workers, trains = run.workers(), run.trainers()[1]
            pid = judge.random.choice([pid for pid in sorted(workers) if workers[pid] == trains] or sorted(workers))
            os.kill(pid, signal.SIGKILL)
            killed.append(workers[pid])
            row.count += 1
        wait_until(lambda: run.events("generation")[-1]["cohort"] not in killed, "a generation after the last kill")
        run.wait_for_steps(above=run.clock.best)
        wait_until(lambda: run.events("recovered"), "the event 'recovered'")
        judge.check_generations(run, killed)
        row.seconds = list(recoveries_told(run).values())

    row = judge.row("kills at any time, also of starting workers", body)
    row.notes.append("seconds by events.jsonl, of several losses in a row together")
    return [row]


def recoveries_told(run):
    """Seconds by the number of the generation that took over, as the program tells them."""
    told = {}
    for event in run.events("recovered"):
        told.setdefault(event["generation"], event["seconds"])
    return told


def points(judge):
    """All of them in one run, each in a generation of its own."""
    def faults(text, steps):
        return [flag for step in steps for flag in ("--inject", f"kill:{text},step={step}")]

    # When a snapshot is due is a matter of time: every step in a stretch has the fault, the first that counts.
    inject = [*faults("generation=1,rank=1", [50]),
              *faults("generation=2,rank=0,point=mid-restart", range(51)),
              *faults("generation=3,rank=1,point=mid-bucket", [100]),
              *faults("generation=4,rank=0,point=mid-snapshot", range(150, 390)),
              *faults("generation=5,rank=0,point=mid-rename", [400])]
    names = {3: "step, then mid-restart", 4: "mid-bucket", 5: "mid-snapshot", 6: "mid-rename"}

    def body(run, row):
        run.train(judge.workers, *inject)
        wait_until(lambda: len(run.events("generation")) == 6 or run.child.poll() is not None, "six generations")
        run.wait_for_steps(above=run.clock.best)
        wait_until(lambda: 6 in recoveries_told(run), "the last event 'recovered'")
        lost = run.events("lost")
        require([event["signal"] for event in lost] == [9] * 5, f"other losses than ordered: {lost}")
        judge.check_generations(run, [1, 2, 3, 4, 5])
        told = recoveries_told(run)
        row.count, row.seconds = 5, list(told.values())
        row.notes += [f"{name} {told[generation]:.2f} s" for generation, name in names.items() if generation in told]

    return [judge.row("kill at each named point", body, **{"checkpoint.every_steps": 100})]


ROWS = {"kills": kills, "standby": standby, "many": many, "anytime": anytime, "points": points, "soak": soak}
