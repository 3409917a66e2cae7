#!/usr/bin/python3
"""Forward and backward of a network in PyTorch, in one process on one thread: the peer of `distbelief bench network`.

    OMP_NUM_THREADS=1 bench/peers/pytorch_network.py --model lstm --batch 16 --steps 20

Prints one JSON line. The batch is fixed random data, as in `distbelief bench network`, so only the network is timed.
"""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import pytorch_ddp


class LanguageModel(nn.Module):
    def __init__(self, width=128, layers=2, vocabulary=256):
        super().__init__()
        self.tok = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.rnn(self.tok(x))[0].flatten(0, 1))


def build(name, batch):
    if name == "lstm":
        return LanguageModel(), torch.randint(0, 256, (batch, 128)), torch.randint(0, 256, (batch * 128,))
    return pytorch_ddp.build(name, batch)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", default="resnet18")
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--steps", type=int, default=20)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, x, y = build(args.model, args.batch)
    seconds = []
    for i in range(args.steps + 3):
        start = time.perf_counter()
        net.zero_grad(set_to_none=True)
        F.cross_entropy(net(x), y).backward()
        if i >= 3:
            seconds.append(time.perf_counter() - start)
    seconds.sort()
    print(json.dumps({"peer": f"pytorch {torch.__version__}", "model": args.model, "batch": args.batch,
                      "parameters": sum(p.numel() for p in net.parameters()),
                      "seconds_median": seconds[len(seconds) // 2], "seconds_min": seconds[0]}), flush=True)


if __name__ == "__main__":
    main()
