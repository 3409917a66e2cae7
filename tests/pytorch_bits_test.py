"""One worker with one lane trains to the bits of PyTorch from the same initial weights and batches.

The initial weights are those of a run of one step whose learning rate is 0 in single precision; the batches
follow from the data set and the permutation of data/sampling.cc, which is written here a second time.
"""
import gzip
import json
import math
import pathlib
import subprocess
import sys

import program

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def derive_seed(words):
    state = GOLDEN
    for word in words:
        state = mix((state + GOLDEN + mix((word + GOLDEN) & MASK)) & MASK)
    return state


def permutation(size, seed, epoch):
    """The samples of an epoch in order: a Feistel network over rows and columns, walked until inside."""
    rows = math.isqrt(size - 1) + 1
    columns = -(-size // rows)
    keys = [derive_seed([seed, epoch, 0x6F72646572, turn]) for turn in range(4)]

    def shifted(side, modulus, other, key):
        return (side + (mix(((key ^ other) + GOLDEN) & MASK) * modulus >> 64)) % modulus

    def place(index):
        while True:
            row, column = divmod(index, columns)
            row = shifted(row, rows, column, keys[0])
            column = shifted(column, columns, row, keys[1])
            row = shifted(row, rows, column, keys[2])
            column = shifted(column, columns, row, keys[3])
            index = row * columns + column
            if index < size:
                return index

    return [place(index) for index in range(size)]


def pytorch_side(plan):
    """Runs in a process of its own, with the environment that the program pins."""
    import numpy
    import torch
    from torch import nn

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import read_safetensors

    class Named(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = layers

        def forward(self, x):
            return self.layers(x)

    def mlp():
        layers, width = nn.Sequential(nn.Flatten()), 784
        for index, hidden in enumerate([2048] * 4, 1):
            layers.add_module(f"fc{index}", nn.Linear(width, hidden))
            layers.add_module(f"act{index}", nn.ReLU())
            width = hidden
        layers.add_module("fc5", nn.Linear(width, 10))
        return Named(layers)

    def cnn():
        layers = nn.Sequential()
        for index, (inputs, outputs) in enumerate(((1, 32), (32, 64)), 1):
            layers.add_module(f"conv{index}", nn.Conv2d(inputs, outputs, 3, padding=1))
            layers.add_module(f"conv_act{index}", nn.ReLU())
            layers.add_module(f"pool{index}", nn.MaxPool2d(2))
        layers.add_module("flatten", nn.Flatten())
        layers.add_module("fc1", nn.Linear(3136, 128))
        layers.add_module("act1", nn.ReLU())
        layers.add_module("fc2", nn.Linear(128, 10))
        return Named(layers)

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(self.bn2(self.conv2(y)) + (x if self.downsample is None else self.downsample(x)))

    class ResNet18(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
            inputs = 64
            for stage, outputs in enumerate((64, 128, 256, 512), 1):
                blocks = nn.Sequential(Block(inputs, outputs, 1 if stage == 1 else 2), Block(outputs, outputs, 1))
                self.add_module(f"layer{stage}", blocks)
                inputs = outputs
            self.fc = nn.Linear(512, 10)

        def forward(self, x):
            x = torch.relu(self.bn1(self.conv1(x)))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))

    def load(path):
        tensors, metadata = read_safetensors.read(path)
        buffers = metadata.get("buffers", "").split(",")
        return {name: torch.from_numpy(tensor.copy()) for name, tensor in tensors.items() if name not in buffers}

    def batches():
        raw = gzip.decompress((DATA / "train-images-idx3-ubyte.gz").read_bytes())
        images = numpy.frombuffer(raw, numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
        labels = numpy.frombuffer(gzip.decompress((DATA / "train-labels-idx1-ubyte.gz").read_bytes()), numpy.uint8, offset=8)
        order = permutation(plan["samples"], plan["seed"], 0)
        for begin in range(0, plan["samples"], plan["batch"]):
            chosen = order[begin:begin + plan["batch"]]
            x = torch.from_numpy(images[chosen].copy()).float().div(255).sub(0.2860).div(0.3530)
            yield x, torch.from_numpy(labels[chosen].astype(numpy.int64))

    torch.set_num_threads(1)
    net = {"mlp": mlp, "cnn": cnn, "resnet18": ResNet18}[plan["model"]]()
    parameters = dict(net.named_parameters())
    initial = load(plan["initial"])
    assert set(initial) == set(parameters), set(initial) ^ set(parameters)
    with torch.no_grad():
        for name, value in initial.items():
            parameters[name].copy_(value)
    if plan["optimizer"] == "sgd":
        optimizer = torch.optim.SGD(net.parameters(), plan["lr"], momentum=0.9, weight_decay=5e-4)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), plan["lr"], weight_decay=0.01)
    for x, y in batches():
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    final = load(plan["final"])
    differing = [name for name, value in final.items() if not torch.equal(value, parameters[name])]
    furthest = max(float((value - parameters[name]).abs().max()) for name, value in final.items())
    moved = max(float((value - initial[name]).abs().max()) for name, value in final.items())
    print(json.dumps({"differing": differing, "furthest": furthest, "moved": moved, "version": torch.__version__}))


class PyTorchTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, timeout=60).returncode != 0:
            self.skipTest("python3-torch is not installed: tools/install_packages.sh test")
        if not DATA.exists():
            self.skipTest(f"there is no Fashion-MNIST in {DATA}: tools/install_packages.sh run")

    def pinned_environment(self, isa):
        values = {"avx512": ("SkylakeX", "AVX512_CORE", "avx2"), "avx2": ("Haswell", "AVX2", "avx2"),
                  "baseline": ("Prescott", "SSE41", "default")}[isa]
        names = ("OPENBLAS_CORETYPE", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
        return {**self.environment, "OMP_NUM_THREADS": "1", **dict(zip(names, values))}

    def compare(self, model, steps, batch, optimizer="sgd", **options):
        job = {"model.name": model, "data.name": "fashion_mnist", "data.path": str(DATA),
               "data.train_limit": steps * batch, "data.test_limit": 64, "train.batch_size": batch, "train.epochs": 1,
               "train.schedule": "constant", "train.seed": 7, "parallel.lanes": 1,
               **{f"model.{key}": value for key, value in options.items()}}
        self.train("initial", {**job, "train.optimizer": "sgd", "train.lr": 1e-60, "train.max_steps": 1}, "--workers", 1)
        lr, decay = (0.01, 5e-4) if optimizer == "sgd" else (1e-3, 0.01)
        summary = self.train("final", {**job, "train.optimizer": optimizer, "train.lr": lr, "train.momentum": 0.9,
                                       "train.weight_decay": decay}, "--workers", 1, within=300)
        self.assertEqual(summary["steps"], steps)
        plan = {"model": model, "samples": steps * batch, "batch": batch, "seed": 7, "lr": lr, "optimizer": optimizer,
                "initial": str(self.scratch / "initial" / "model.safetensors"),
                "final": str(self.scratch / "final" / "model.safetensors")}
        outcome = self.command(sys.executable, __file__, "--pytorch", json.dumps(plan), within=300,
                               env=self.pinned_environment(summary["isa"]))
        answer = json.loads(outcome.out.splitlines()[-1])
        self.assertTrue(answer["version"].startswith("1.13"), answer["version"])
        self.assertGreater(answer["moved"], 1e-4, "nothing was trained")
        return answer

    def assert_same_bits(self, answer):
        self.assertEqual(answer["differing"], [], f"up to {answer['furthest']} apart")

    def test_sgd_wide_mlp_50_steps(self):
        self.assert_same_bits(self.compare("mlp", 50, 64, hidden=[2048] * 4))

    def test_sgd_cnn_30_steps(self):
        self.assert_same_bits(self.compare("cnn", 30, 64))

    def test_sgd_resnet18_20_steps(self):
        self.assert_same_bits(self.compare("resnet18", 20, 16))

    def assert_near(self, answer):
        self.assertLess(answer["furthest"], 1e-5)

    def test_adamw_wide_mlp_10_steps(self):
        self.assert_near(self.compare("mlp", 10, 64, optimizer="adamw", hidden=[2048] * 4))

    def test_adamw_cnn_10_steps(self):
        self.assert_near(self.compare("cnn", 10, 64, optimizer="adamw"))

    def test_adamw_resnet18_10_steps(self):
        self.assert_near(self.compare("resnet18", 10, 16, optimizer="adamw"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pytorch"]:
        pytorch_side(json.loads(sys.argv[2]))
    else:
        program.main()
