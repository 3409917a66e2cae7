"""The optimum of multinomial logistic regression, by another hand: PyTorch's L-BFGS in double precision.

    bench/logistic_reference.py FOLDER WEIGHT_DECAY [SAMPLES]

FOLDER has MNIST's IDX files (gzip). Pixels are scaled to 0..1; the loss is the mean cross entropy plus half of
WEIGHT_DECAY times the squared norm of all parameters. Prints the loss, the norm of its gradient and the number of
evaluations as JSON.
"""
import gzip
import json
import pathlib
import sys

import numpy
import torch


def read_idx(path, offset):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read(), dtype=numpy.uint8, offset=offset)


def minimise(folder, weight_decay, samples=60_000):
    torch.set_num_threads(1)
    folder = pathlib.Path(folder)
    images = read_idx(folder / "train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:samples]
    labels = read_idx(folder / "train-labels-idx1-ubyte.gz", 8)[:samples]
    inputs = torch.from_numpy(images.astype(numpy.float64) / 255)
    targets = torch.from_numpy(labels.astype(numpy.int64))
    weight = torch.zeros(10, 784, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(10, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=400, max_eval=500, tolerance_grad=1e-7, tolerance_change=0,
                                  history_size=20, line_search_fn="strong_wolfe")
    evaluations = 0

    def loss():
        nonlocal evaluations
        evaluations += 1
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(inputs @ weight.T + bias, targets)
        value = value + 0.5 * weight_decay * (weight.square().sum() + bias.square().sum())
        value.backward()
        return value

    optimizer.step(loss)
    value = float(loss())
    norm = float(torch.cat([weight.grad.flatten(), bias.grad]).norm())
    return {"loss": value, "gradient_norm": norm, "evaluations": evaluations}


if __name__ == "__main__":
    print(json.dumps(minimise(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 60_000)))
