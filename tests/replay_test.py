"""The log of an asynchronous run, replayed by hand with PyTorch (S3.2): theta(t+1) = theta(t) - eta * g_i(t_i), where the
gradient of each ticket is computed again from the version of the parameters that the log names. It ends at the same bits.

servers/replay_test.cc does the same with made-up gradients, several slices and Adagrad.
"""
import gzip
import json
import pathlib
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

    def gradient(parameters, ticket):
        chosen = order[ticket * BATCH:(ticket + 1) * BATCH]
        x = torch.from_numpy(images[chosen].copy()).float().div(255).sub(0.2860).div(0.3530).flatten(1)
        y = torch.from_numpy(labels[chosen].astype(numpy.int64))
        leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
        hidden = torch.relu(nn.functional.linear(x, leaves["layers.fc1.weight"], leaves["layers.fc1.bias"]))
        out = nn.functional.linear(hidden, leaves["layers.fc2.weight"], leaves["layers.fc2.bias"])
        nn.functional.cross_entropy(out, y).backward()
        return {name: leaf.grad for name, leaf in leaves.items()}

    versions = [initial]
    for update in plan["updates"]:
        found = gradient(versions[update["base"]], update["ticket"])
        versions.append({name: value.add(found[name], alpha=-update["lr"]) for name, value in versions[-1].items()})
    differing = [name for name, value in final.items() if not torch.equal(value, versions[-1][name])]
    moved = max(float((value - initial[name]).abs().max()) for name, value in final.items())
    print(json.dumps({"differing": differing, "moved": moved}))


class ReplayTest(pytorch_bits_test.PyTorchTest):
    test_sgd_wide_mlp_50_steps = test_sgd_cnn_30_steps = test_sgd_resnet18_20_steps = test_adamw_cnn_10_steps = None

    def test_a_replayed_log_ends_at_the_same_bits(self):
        job = {"model.name": "mlp", "model.hidden": [16], "data.name": "fashion_mnist", "data.path": str(DATA),
               "data.train_limit": STEPS * BATCH, "data.test_limit": 64, "train.batch_size": BATCH, "train.epochs": 1,
               "train.schedule": "constant", "train.seed": SEED, "train.optimizer": "sgd", "train.momentum": 0.0,
               "train.weight_decay": 0.0, "parallel.lanes": 1}
        self.train("initial", {**job, "train.lr": 1e-60, "train.max_steps": 1}, "--workers", 1)
        summary = self.train("final", {**job, "train.lr": RATE, "parallel.sync": "parameter_server", "parallel.mode": "async",
                                       "parallel.servers": 2}, "--workers", 3,
                             "--inject", "slow:rank=0,factor=8")  # so that the others come in time
        self.control("audit", "final")
        log = next((self.scratch / "final" / "servers").glob("0-server*.jsonl"))
        updates = [line for line in program.lines_of(log) if "slice" in line]
        self.assertEqual([update["version"] for update in updates], list(range(1, STEPS + 1)))
        late = sum(update["base"] + 1 < update["version"] for update in updates)
        self.assertGreater(late, STEPS / 20, "hardly anything was asynchronous")
        plan = {"updates": updates, "initial": str(self.scratch / "initial" / "model.safetensors"),
                "final": str(self.scratch / "final" / "model.safetensors")}
        (self.scratch / "plan.json").write_text(json.dumps(plan))
        outcome = self.command(sys.executable, __file__, "--replay", self.scratch / "plan.json",
                               env=self.pinned_environment(summary["isa"]))
        answer = json.loads(outcome.out.splitlines()[-1])
        self.assertGreater(answer["moved"], 1e-3, "nothing was trained")
        self.assertEqual(answer["differing"], [])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--replay"]:
        replay(json.loads(pathlib.Path(sys.argv[2]).read_text()))
    else:
        program.main()
