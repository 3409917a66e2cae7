#!/usr/bin/python3
"""PyTorch DistributedDataParallel (Gloo) on the reference models: the peer to be measured against.

    apt-get install python3-torch
    bench/peers/run 2 bench/peers/pytorch_ddp.py --model mlp --batch 32 --steps 200

Prints one JSON line: model, ranks, batch per rank, median and mean seconds per step, and the memory of
all ranks together (peak resident, and proportional: shared pages once).
The batch is fixed random data, as in `distbelief bench step`, so only the step is timed.
"""
import argparse
import json
import os
import resource
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def mlp(hidden):
    layers, width = [nn.Flatten()], 784
    for h in hidden:
        layers += [nn.Linear(width, h), nn.ReLU()]
        width = h
    return nn.Sequential(*layers, nn.Linear(width, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = nn.Identity()
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.down(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    cin = 64
    for cout, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [BasicBlock(cin, cout, stride), BasicBlock(cout, cout, 1)]
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(c, 2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        a = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        a = a.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf")).softmax(-1)
        x = x + self.proj((a @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, layers=4, width=256, heads=8, context=128, vocab=256):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[GptBlock(width, heads) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1]))
        return self.head(self.ln(self.blocks(h))).flatten(0, 1)


def build(name, batch):
    image = lambda c, s: (torch.randn(batch, c, s, s), torch.randint(0, 10, (batch,)))
    if name == "mlp":
        return mlp([128]), *image(1, 28)
    if name == "mlp-wide":
        return mlp([2048] * 4), *image(1, 28)
    if name == "cnn":
        return cnn(), *image(1, 28)
    if name == "resnet18":
        return resnet18(), *image(3, 32)
    if name == "gpt":
        return Gpt(), torch.randint(0, 256, (batch, 128)), torch.randint(0, 256, (batch * 128,))
    raise SystemExit(f"no such model: {name}")


def pss_bytes():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", default="mlp")
    ap.add_argument("--batch", type=int, default=32, help="per rank")
    ap.add_argument("--steps", type=int, default=100)
    ap.add_argument("--optimizer", default="sgd", choices=["sgd", "adam"])
    ap.add_argument("--zero", action="store_true", help="shares out Adam's state: ZeroRedundancyOptimizer")
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    net, x, y = build(args.model, args.batch)
    ddp = DistributedDataParallel(net, gradient_as_bucket_view=True)
    opt = (torch.optim.SGD(net.parameters(), 0.01, momentum=0.9) if args.optimizer == "sgd"
           else ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=1e-3) if args.zero
           else torch.optim.Adam(net.parameters(), 1e-3))
    times = []
    for i in range(args.steps + 3):
        start = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        F.cross_entropy(ddp(x), y).backward()
        opt.step()
        if i >= 3:
            times.append(time.perf_counter() - start)
    times.sort()
    dist.barrier()
    memory = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, pss_bytes()])
    dist.all_reduce(memory)
    if dist.get_rank() == 0:
        print(json.dumps({
            "peer": f"pytorch {torch.__version__} ddp/gloo", "model": args.model,
            "parameters": sum(p.numel() for p in net.parameters()), "ranks": dist.get_world_size(),
            "batch_per_rank": args.batch, "step_seconds_median": times[len(times) // 2],
            "step_seconds_mean": sum(times) / len(times),
            "peak_rss_bytes": int(memory[0]), "peak_pss_bytes": int(memory[1])}), flush=True)


if __name__ == "__main__":
    main()
    dist.barrier()
    os._exit(0)  # Gloo's threads now and then abort an ordinary exit
