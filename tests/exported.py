"""A small network that Debian's torch for Python writes as TorchScript: for images of 28 x 28 pixels."""
import importlib.util
import sys

import program

NETWORK = """
import sys
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8 * 13 * 13, 10)
        self.scale = nn.Parameter(torch.ones(10))
    def forward(self, x):
        return self.head(self.drop(self.features(x))) * self.scale
torch.manual_seed(3)
torch.jit.script(Net()).save(sys.argv[1])
"""


def has_torch():
    return importlib.util.find_spec("torch") is not None


def export(test, file):
    """Writes it to `file` of the test's scratch folder, or skips the test."""
    if not has_torch():
        program.cannot("export networks in Python: there is no python3-torch")
    script = test.scratch / "network.py"  # TorchScript reads the source of what it compiles
    script.write_text(NETWORK)
    test.command(sys.executable, script, file)
