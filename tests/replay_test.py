"""The log of an asynchronous run, replayed by hand with PyTorch (S3.2): theta(t+1) = theta(t) - eta * g_i(t_i), where the
gradient of each ticket is computed again from the version of the parameters that the log names. It ends at the same bits.
Where a replica goes on with steps of its own between two fetches, its own log says what it fetched when, and these are replayed
too.

server/replay_test.cc does the same with made-up gradients, several slices and more rules.
"""
import gzip
import itertools
import json
import os
import pathlib
import signal
import sys

import program
import pytorch_bits_test
from pytorch_bits_test import DATA, permutation

BATCH, STEPS, SEED, RATE = 16, 1500, 7, 0.05


def replay(plan):
    """Runs in a process of its own, with the environment that the program pins."""
    import numpy
    import torch
    from torch import nn

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import read_safetensors

    def load(path):
        tensors, _ = read_safetensors.read(path)
        return {name: torch.from_numpy(tensor.copy()) for name, tensor in tensors.items()}

    torch.set_num_threads(1)
    initial, final = load(plan["initial"]), load(plan["final"])
    order = permutation(STEPS * BATCH, SEED, 0)
    images = numpy.frombuffer(gzip.decompress((DATA / "train-images-idx3-ubyte.gz").read_bytes()), numpy.uint8,
                              offset=16).reshape(-1, 1, 28, 28)
    labels = numpy.frombuffer(gzip.decompress((DATA / "train-labels-idx1-ubyte.gz").read_bytes()), numpy.uint8, offset=8)

    def gradient(parameters, step):
        chosen = order[step * BATCH:(step + 1) * BATCH]
        x = torch.from_numpy(images[chosen].copy()).float().div(255).sub(0.2860).div(0.3530).flatten(1)
        y = torch.from_numpy(labels[chosen].astype(numpy.int64))
        leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
        hidden = torch.relu(nn.functional.linear(x, leaves["layers.fc1.weight"], leaves["layers.fc1.bias"]))
        out = nn.functional.linear(hidden, leaves["layers.fc2.weight"], leaves["layers.fc2.bias"])
        nn.functional.cross_entropy(out, y).backward()
        return {name: leaf.grad for name, leaf in leaves.items()}

    def applied(versions, updates, elsewhere):
        """Goes on with `versions`; the gradients of some tickets are of a version that another history has. None: of one that
        this history does not have yet."""
        for update in updates:
            history = elsewhere.get(update["ticket"], versions)
            if update["base"] >= len(history):
                return None
            base = history[update["base"]]
            found = gradient(base, update["ticket"])
            versions.append({name: value.add(found[name], alpha=-update["lr"]) for name, value in versions[-1].items()})
        return versions

    def worked(lines, versions):
        """What a replica that logged this computes: for each of its pushes the ticket, the version it fetched last, and
        the gradient. `versions` grow meanwhile."""
        lines, since, every = iter(lines), 0, plan["push_every"]
        base = next(lines)["fetched"][0]
        parameters = versions[base]
        for line in lines:
            # A fetch between two steps of a ticket stands before the push that ends it.
            fetched = None if "acknowledged" in line else line["fetched"][0]
            push = line if fetched is None else next(lines)
            ticket, accrued = push["acknowledged"], None
            for step in range(ticket * every, min((ticket + 1) * every, STEPS)):
                found = gradient(parameters, step)
                accrued = found if accrued is None else {name: accrued[name] + found[name] for name in found}
                since += 1
                fetches, pushes = since >= plan["fetch_every"], step + 1 == min((ticket + 1) * every, STEPS)
                if pushes:
                    yield ticket, base, accrued
                if fetches:
                    base, since = push["versions"][0] if pushes else fetched, 0
                    parameters = versions[base]
                else:
                    parameters = {name: value.add(found[name], alpha=-RATE) for name, value in parameters.items()}

    def replayed():
        versions, squares = [initial], {name: torch.zeros_like(value) for name, value in initial.items()}
        replicas = [worked(lines, versions) for lines in plan["replicas"]]
        for update in plan["updates"]:
            ticket, base, found = next(replicas[update["replica"]])
            assert (ticket, base) == (update["ticket"], update["base"]), (update, ticket, base)
            values = {}
            for name, value in versions[-1].items():
                g = found[name]
                if plan["compensation"]:
                    g = g + plan["compensation"] * g * g * (value - versions[base][name])
                g = g.add(value, alpha=plan["weight_decay"])
                if plan["optimizer"] == "adagrad":
                    squares[name] = squares[name] + g * g
                    values[name] = value - update["lr"] * (g / (squares[name].sqrt() + plan["eps"]))
                else:
                    values[name] = value.add(g, alpha=-update["lr"])
            versions.append(values)
        return versions[-1]

    if "replicas" in plan:
        last = replayed()
        differing = [name for name, value in final.items() if not torch.equal(value, last[name])]
        moved = max(float((value - initial[name]).abs().max()) for name, value in final.items())
        print(json.dumps({"differing": differing, "moved": moved}))
        return
    common = applied([initial], plan["updates"][:plan["common"]], {})
    undone = applied(list(common), plan["undone"], {})
    # A replica may have gone on from what the lost primary alone had; whether it did the logs do not always tell.
    for chosen in itertools.product(*[(False, True)] * len(plan["doubtful"])):
        elsewhere = {ticket: undone for ticket, is_undone in zip(plan["doubtful"], chosen) if is_undone}
        whole = applied(list(common), plan["updates"][plan["common"]:], elsewhere)
        if whole is None:  # it did, then
            continue
        last = whole[-1]
        differing = [name for name, value in final.items() if not torch.equal(value, last[name])]
        if not differing:
            break
    moved = max(float((value - initial[name]).abs().max()) for name, value in final.items())
    print(json.dumps({"differing": differing, "moved": moved}))


class ReplayTest(pytorch_bits_test.PyTorchTest):
    test_sgd_wide_mlp_50_steps = test_sgd_cnn_30_steps = test_sgd_resnet18_20_steps = test_adamw_cnn_10_steps = None
    test_adamw_resnet18_10_steps = test_adamw_wide_mlp_10_steps = None

    JOB = {"model.name": "mlp", "model.hidden": [16], "data.name": "fashion_mnist", "data.path": str(DATA),
           "data.train_limit": STEPS * BATCH, "data.test_limit": 64, "train.batch_size": BATCH, "train.epochs": 1,
           "train.schedule": "constant", "train.seed": SEED, "train.optimizer": "sgd", "train.momentum": 0.0,
           "train.weight_decay": 0.0, "parallel.lanes": 1}
    SERVED = {**JOB, "train.lr": RATE, "parallel.sync": "parameter_server", "parallel.mode": "async", "parallel.servers": 2}
    SLOW = ("--workers", 3, "--inject", "slow:rank=0,factor=8")  # so that the others come in time

    def updates(self, server):
        log = self.scratch / "final" / "servers" / f"0-server{server}.jsonl"
        return [line for line in program.lines_of(log) if "slice" in line]

    def assert_replayed(self, updates, undone=()):
        """`undone`: what a lost primary alone had, from where its history parts from the others' on."""
        self.assertEqual([update["version"] for update in updates], list(range(1, STEPS + 1)))
        late = sum(update["base"] + 1 < update["version"] for update in updates)
        self.assertGreater(late, STEPS / 20, "hardly anything was asynchronous")
        common = undone[0]["version"] - 1 if undone else STEPS
        first = {}  # ticket of each replica's first update after that: of a gradient that it may have had before
        for update in updates[common:]:
            first.setdefault(update["replica"], update)
        doubtful = [update["ticket"] for update in first.values() if common < update["base"] <= common + len(undone)]
        self.assert_same_bits({"updates": updates, "common": common, "undone": list(undone), "doubtful": doubtful})

    def assert_same_bits(self, plan):
        self.train("initial", {**self.JOB, "train.lr": 1e-60, "train.max_steps": 1}, "--workers", 1)
        plan = {**plan, "initial": str(self.scratch / "initial" / "model.safetensors"),
                "final": str(self.scratch / "final" / "model.safetensors")}
        (self.scratch / "plan.json").write_text(json.dumps(plan))
        outcome = self.command(sys.executable, __file__, "--replay", self.scratch / "plan.json",
                               env=self.pinned_environment(self.summary("final")["isa"]))
        answer = json.loads(outcome.out.splitlines()[-1])
        self.assertGreater(answer["moved"], 1e-3, "nothing was trained")
        self.assertEqual(answer["differing"], [])

    def test_a_replayed_log_ends_at_the_same_bits(self):
        self.train("final", self.SERVED, *self.SLOW)
        self.control("audit", "final")
        updates = self.updates(1)
        taken = [sum(update["replica"] == replica for update in updates) for replica in range(3)]
        self.assertLess(2 * taken[0], min(taken[1:]), "fast replicas take more")
        self.assert_replayed(updates)

    def assert_replayed_with(self, **changes):
        """With what replicas logged, which need not fetch or push at every step."""
        job = {"push_every": 1, "fetch_every": 1, "delay_compensation": 0.0, "staleness_aware": False, **changes}
        train = {f"train.{key}": job.pop(key) for key in ("optimizer", "weight_decay", "eps") if key in job}
        self.train("final", {**self.SERVED, **{f"parallel.{key}": value for key, value in job.items()}, **train}, *self.SLOW)
        self.control("audit", "final")
        updates = self.updates(1)
        late = [update for update in updates if update["base"] + 2 < update["version"]]
        self.assertGreater(len(late), len(updates) / 20, "hardly anything was asynchronous")
        if job["staleness_aware"]:
            self.assertLess(min(update["lr"] for update in late), RATE / 2)
        logs = [program.lines_of(self.scratch / "final" / "servers" / f"replica{replica}.jsonl") for replica in range(3)]
        self.assert_same_bits({"updates": updates, "replicas": logs, "push_every": job["push_every"],
                               "fetch_every": job["fetch_every"], "compensation": job["delay_compensation"],
                               "optimizer": train.get("train.optimizer", "sgd"), "eps": train.get("train.eps", 0.0),
                               "weight_decay": train.get("train.weight_decay", 0.0)})

    def test_so_does_one_of_replicas_that_go_on_by_themselves(self):
        self.assert_replayed_with(optimizer="adagrad", eps=1e-6, push_every=3, fetch_every=2)

    def test_so_does_one_where_delay_is_seen_to(self):
        self.assert_replayed_with(staleness_aware=True, delay_compensation=0.04, weight_decay=0.001)

    def test_so_does_that_of_the_backup_which_took_over(self):
        run = self.start_training("final", {**self.SERVED, "report.interval_seconds": 0.02}, *self.SLOW)
        self.wait_until(lambda: len(self.updates(1)) > STEPS / 5, "a fifth is done")
        first = next(event for event in self.events("final", "server") if event["server"] == 1)
        os.kill(first["pid"], signal.SIGKILL)  # it has the one slice
        outcome = self.finish(run)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.control("audit", "final")
        self.assertEqual([event["server"] for event in self.events("final", "server lost")], [1])
        lost, other = self.updates(1), self.updates(2)
        self.assertLess(len(lost), STEPS, "it was lost when all was done")
        common = next((i for i, (mine, others) in enumerate(zip(lost, other)) if mine != others), len(lost))
        self.assert_replayed(other, lost[common:])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--replay"]:
        replay(json.loads(pathlib.Path(sys.argv[2]).read_text()))
    else:
        program.main()
