"""The keys of a job file, as the reference in docs/ lists them, and small values for each."""
import pathlib
import re

ROW = re.compile(r"^\| `(\w+\.\w+)` \| ([^|]+) \| ([^|]+) \| `([^`]*)` \|", re.MULTILINE)
BEGIN = "<!-- keys: begin"

# Values worth trying where the type and the limits alone say too little. Strings among them are as --set takes them.
VALUES = {
    "data.pad": [0, 1, 2],
    "train.seed": [0, 1, 7, 2**63 - 1],
    "train.target": [-1.0, 0.2, 2.5],
    "train.target_metric": ["accuracy", "loss", "rmse", "perplexity"],
    "train.early_stop_patience": [0, 1, 2],
    "train.verify_every": [0, 1, 3],
    "train.validate_every": [0, 1, 2],
    "train.max_steps": [0, 1, 3, 5],
    "train.clip_norm": [0.0, 0.05, 1.0],
    "train.weight_decay": [0.0, 0.0005, 0.01],
    "train.eps": [1e-8, 1e-6, 1e-3],
    "train.trust": [0.001, 0.01],
    "train.min_lr": [0.0, 1e-5, 1.0],
    "train.lr_discriminator": [0.0, 0.001],
    "train.beta1": [0.0, 0.8, 0.9],
    "train.beta2": [0.9, 0.999],
    "train.warmup_steps": [0, 1, 4, 100],
    "train.accumulate": [1, 1, 2, 3],
    "parallel.bucket_mb": [0.001, 0.01, 0.1, 4.0],
    "parallel.state_dir": ["."],
    "parallel.cuts": [[], [1], [2], [1, 2]],
    "parallel.delay_compensation": [0.0, 0.1],
    "parallel.warm_start": [0, 1, 3],
    "parallel.staleness": [0, 1, 4],
    "elastic.auto_seconds": [0.2],
    "elastic.max": [0, 2, 3, 4],
    "checkpoint.every_steps": [0, 1, 3],
    "checkpoint.every_seconds": [0.0, 0.05],
    "report.page_seconds": [0.0, 0.1, 10.0],
    "report.interval_seconds": [0.0, 0.0, 1.0],
    "report.trace": ["trace.json"],
}
# Left as they are: they name files, hosts and commands, or say how long to wait, or the tool sets them itself.
HELD = {
    "model.name", "data.name", "data.path", "train.epochs", "train.batch_size", "train.lr", "train.optimizer",
    "train.init", "train.init_partial", "train.device", "parallel.workers", "parallel.sync",
    "parallel.deadline_seconds", "elastic.restarts", "elastic.spares", "elastic.hostfile", "elastic.discovery",
    "elastic.discovery_seconds", "elastic.silence_seconds", "elastic.address", "elastic.certs"}


class Key:
    def __init__(self, name, kind, allowed):
        self.name, self.kind, self.allowed = name, kind.strip(), allowed.strip()
        self.choices = re.findall(r"`([^`]+)`", allowed)

    def value(self, random):
        """One that the reference allows; None: none is known."""
        if self.name in VALUES:
            return random.choice(VALUES[self.name])
        if self.kind == "true or false":
            return random.random() < 0.5
        if self.kind == "string":
            return random.choice(self.choices) if self.choices else None
        if self.kind == "list of strings":
            return [choice for choice in self.choices if random.random() < 0.5]
        numbers = [value for value in (0, 0.25, 0.5, 1, 2, 3, 4) if self.holds(value)]
        if self.kind == "integer":
            numbers = [value for value in numbers if value == int(value)]
        return random.choice(numbers) if numbers and self.kind in ("integer", "number") else None

    def wrong_value(self, random):
        """One that the reference rules out; None: none is known."""
        if self.choices:
            return "nonsense" if self.kind == "string" else ["nonsense"]
        if self.kind in ("integer", "number"):
            wrong = [value for value in (-1, 0, 10**12) if not self.holds(value)]
            return random.choice(wrong + ["fast"])
        return random.choice(["perhaps", 3]) if self.kind == "true or false" else None

    def holds(self, value):
        """Whether a number is in the limits that the reference states in words."""
        number = r"(-?[\d.]+(?:e\d+)?)"
        bounds = {rf"from {number}": float.__ge__, rf"^{number} or more": float.__ge__, rf"greater than {number}": float.__gt__,
                  rf"\bto {number}": float.__le__, rf"at most {number}": float.__le__, rf"below {number}": float.__lt__}
        if listed := re.match(r"(\d+), (\d+) or (\d+)", self.allowed):
            return str(value) in listed.groups()
        return all(compare(float(value), float(found[1])) for pattern, compare in bounds.items()
                   if (found := re.search(pattern, self.allowed)))


def read_keys(docs):
    """Key by name, from the page of docs/ that has the generated table."""
    for page in sorted(pathlib.Path(docs).rglob("*.md")):
        text = page.read_text()
        if BEGIN in text:
            return {name: Key(name, kind, allowed) for name, kind, allowed, _ in ROW.findall(text.split(BEGIN)[1])}
    raise FileNotFoundError(f"no page below {docs} has the table of keys, which begins with '{BEGIN}'")
