"""What the comparisons with PyTorch share: running a contestant, and saying how much its runs differ."""
import json
import os
import statistics
import subprocess
import sys


def core_type():
    """OpenBLAS's name for this processor: what DistBelief selects by itself."""
    flags = open("/proc/cpuinfo").read()
    return "SkylakeX" if " avx512bw" in flags else "Haswell" if " avx2" in flags else "Prescott"


def run(command, extra=None):
    """The last JSON line that a command prints. It starts without what would choose BLAS kernels for it."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "DISTBELIEF_ISA")}
    environment.update(extra or {})
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with exit code {done.returncode}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def shown_row(cells, widths, markdown):
    line = (" | " if markdown else " ").join(str(cell).rjust(width) for cell, width in zip(cells, widths))
    print(f"| {line} |" if markdown else line, flush=True)
