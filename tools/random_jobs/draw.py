"""Random jobs: a small network, a way to train it, a layout for it, some further keys, and what is done to the run."""
import random

from random_jobs.networks import CLASSES, NETWORKS, NOT_DRAWN, SLICED, TABLES, UNSTEADY, WHOLE
from random_jobs.schema import HELD, VALUES

DEADLINE_SECONDS = 30  # of a wait between workers
# Rates at which a small network neither diverges nor stands still.
RATES = {"sgd": 0.02, "adam": 0.003, "adamw": 0.003, "adagrad": 0.02, "lars": 0.5, "lamb": 0.003, "lbfgs": 1.0}
OPTIMIZERS = ["sgd"] * 4 + ["adam", "adam", "adamw", "adagrad", "lars", "lamb", "lbfgs"]
MODES = ["sync"] * 4 + ["async"] * 3 + ["bounded"] * 2 + ["hybrid", "sandblaster", "decomposed"]


class Case:
    """A job and what is done to it while it trains."""

    def __init__(self, index, job, wrong, disturbance):
        self.index, self.job, self.wrong, self.disturbance = index, job, wrong, disturbance

    def title(self):
        """The network, and how it is spread."""
        layout = [f"{name.split('.')[1]} {value}" for name, value in self.job.items()
                  if name.startswith("parallel.") and name not in ("parallel.deadline_seconds", "parallel.sync")]
        return f"{self.job['model.name']} on {self.job['data.name']}, {self.job['train.optimizer']}; {', '.join(layout)}"


def toml(job):
    """The job file."""
    sections = {}
    for name, value in job.items():
        section, key = name.split(".", 1)
        sections.setdefault(section, []).append(f"{key} = {toml_value(value)}")
    return "\n".join("\n".join([f"[{section}]", *lines, ""]) for section, lines in sorted(sections.items()))


def toml_value(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def draw(keys, seed, index):
    """The job of this number: the same one for the same seed and the same keys, whichever others are drawn."""
    source = random.Random(f"{seed} {index}")
    model = source.choices(list(NETWORKS), [weight for weight, _ in NETWORKS.values()])[0]
    job = {"model.name": model, **source.choice(NETWORKS[model][1])}
    job = {**ways_to_train(source), **job}
    if job["train.optimizer"] == "lbfgs" and is_unsteady(job) and source.random() < 0.9:
        job["train.optimizer"] = "sgd"
    job["train.lr"] = RATES[job["train.optimizer"]]
    job.update(layout(source, job))
    job.update({"parallel.deadline_seconds": DEADLINE_SECONDS, "report.interval_seconds": 0.0})
    further_keys(source, keys, job)
    done = disturbance(source, job)
    wrong = wrong_key(source, keys, job)
    return Case(index, job, wrong, done)


def check_names(keys, models, optimizers):
    """What is written down here goes with the program: every key exists, every model has a small variant."""
    drawn = {name for _, variants in NETWORKS.values() for job in variants for name in job}
    named = {name for name in drawn | HELD | set(WANTS) | set(VALUES) if not name.startswith(("model.", "data."))}
    if unknown := sorted(named - set(keys)):
        raise LookupError(f"tools/random_jobs names {', '.join(unknown)}, but the reference of job files does not")
    if unknown := sorted((set(NETWORKS) | NOT_DRAWN) - set(models)):
        raise LookupError(f"tools/random_jobs/networks.py has {', '.join(unknown)}, which `distbelief models` has not")
    if missing := sorted(set(models) - set(NETWORKS) - NOT_DRAWN):
        raise LookupError(f"tools/random_jobs/networks.py has no small variant of model {', '.join(missing)}")
    if missing := sorted(set(optimizers) - set(RATES)):
        raise LookupError(f"tools/random_jobs/draw.py has no rate for optimizer {', '.join(missing)}")


def ways_to_train(source):
    return {"train.epochs": source.choice([1, 2, 2, 3]), "train.batch_size": source.choice([7, 8, 12, 16, 20]),
            "train.optimizer": source.choice(OPTIMIZERS)}


def is_unsteady(job):
    return job["model.name"] in UNSTEADY or job.get("train.task") == "few_labels" or job.get("model.dropout", 0) > 0


# ---- Layouts

def layout(source, job):
    if job["model.name"] in TABLES:
        return served(source, job, source.choice(["async", "async", "bounded", source.choice(MODES)]))
    if source.random() < 0.4:
        mode = "sandblaster" if job["train.optimizer"] == "lbfgs" else source.choice(MODES)
        if mode == "sandblaster" and is_unsteady(job) and source.random() < 0.9:
            mode = "sync"
        return served(source, job, mode)
    return summed(source, job)


def cuts(source, job):
    """(pipeline, tensor); few of those that the network does not allow."""
    if job["train.optimizer"] == "lbfgs" and source.random() < 0.9:
        return 1, 1
    tensor = source.choice([1, 2]) if job["model.name"] in SLICED else source.choice([1] * 19 + [2])
    whole = job["model.name"] in WHOLE or job.get("train.task") == "few_labels" or job.get("model.hidden") == []
    return source.choice([1] * 19 + [2] if whole else [1, 1, 1, 2, 2, 3]), tensor


def summed(source, job):
    """Workers that add up among themselves."""
    pipeline, tensor = cuts(source, job)
    cut = tensor * pipeline
    copies = source.randrange(1, max(2, 4 // cut + 1))
    simple = cut > 1 or job["train.optimizer"] == "lbfgs"
    threads = 1 if simple and source.random() < 0.95 else source.choice([1, 1, 1, 2, 3])
    workers = copies * cut if source.random() < 0.95 else source.randrange(1, 5)
    found = {"parallel.workers": workers}
    found["parallel.lanes"] = 0 if source.random() < 0.3 else (copies + source.choice([0, 0, 1, 2])) * threads
    most = min(job["train.batch_size"], 8)
    if (found["parallel.lanes"] > most or (pipeline > 1 and not found["parallel.lanes"])) and source.random() < 0.95:
        found["parallel.lanes"] = most
    found.update(elastic(source, workers, found["parallel.lanes"] // threads * cut))
    if threads > 1:
        found["parallel.threads"] = threads
    if source.random() < 0.2:
        found["parallel.data"] = copies
    level = 1 if job["train.optimizer"] == "lbfgs" else 2 if job["model.name"] in WHOLE else 3
    zero = source.choice([1, 1, 2, 3, 3]) if source.random() < 0.05 else source.randrange(1, level + 1)
    if zero > 1:
        found["parallel.zero"] = zero
    if zero == 3 and source.random() < 0.5:
        found["parallel.zero_inside_host"] = True
    found.update(mesh(source, pipeline, tensor))
    if found.get("parallel.schedule") == "interleaved" and source.random() < 0.9:  # whole rounds of all stages
        found["parallel.lanes"] = copies * pipeline
    return found


def elastic(source, workers, most):
    """Bounds within which the run may be scaled; `most` workers have lanes."""
    found = {}
    if source.random() < 0.2:
        found["elastic.min"] = source.randrange(1, workers + 1)
    if source.random() < 0.2:
        found["elastic.max"] = source.choice([workers, max(workers, most), workers + source.choice([0, 0, 1])])
    return found


def mesh(source, pipeline, tensor):
    found = {}
    if pipeline > 1:
        found["parallel.pipeline"] = pipeline
        if source.random() < 0.6:
            found["parallel.schedule"] = source.choice(["gpipe", "1f1b", "interleaved"])
        if source.random() < 0.3:
            found["parallel.recompute"] = True
    if tensor > 1:
        found["parallel.tensor"] = tensor
    return found


def served(source, job, mode):
    """Replicas around parameter servers."""
    replicas = source.choice([1, 2, 2, 3])
    found = {"parallel.workers": replicas, "parallel.sync": "parameter_server", "parallel.mode": mode,
             "parallel.servers": source.choice([1, 2, 2, 3]), **elastic(source, replicas, replicas)}
    if mode == "sandblaster":
        job.update({"train.optimizer": "lbfgs", "train.lr": RATES["lbfgs"]})
    elif job["train.optimizer"] in ("lars", "lamb", "lbfgs") and source.random() < 0.9:
        job.update({"train.optimizer": "adagrad", "train.lr": RATES["adagrad"]})
    if mode != "sync" and job["train.optimizer"] == "sgd":
        job["train.momentum"] = 0.0
    if mode == "decomposed":
        cut = source.choice([2, 2, 3])
        return {**found, "parallel.workers": cut + source.choice([0, 0, 0, 1]), "parallel.sub_networks": cut,
                "parallel.lanes": 1}
    wide = mode != "sandblaster" and job["model.name"] not in TABLES and replicas < 3 and source.random() < 0.4
    pipeline, tensor = cuts(source, job) if wide else (1, 1)
    if wide and pipeline * tensor == 1:
        found[source.choice(["parallel.data", "parallel.threads"])] = 2
    copies = found.get("parallel.data", 1) * found.get("parallel.threads", 1)
    found["parallel.lanes"] = (replicas if mode == "sync" else 1) * copies * source.choice([1, 1, 2])
    return {**found, **mesh(source, pipeline, tensor)}


# ---- Further keys

def is_served(job):
    return job.get("parallel.sync") == "parameter_server"


def mode_of(job):
    return job.get("parallel.mode") if is_served(job) else None


# Where a key has a meaning; elsewhere the job is refused. The others go with most jobs.
WANTS = {
    "parallel.servers": is_served, "parallel.mode": is_served,
    "parallel.staleness": lambda job: mode_of(job) == "bounded",
    "parallel.fetch_every": lambda job: mode_of(job) in ("async", "hybrid"),
    "parallel.push_every": lambda job: mode_of(job) in ("async", "hybrid") and job["model.name"] not in TABLES,
    "parallel.warm_start": lambda job: mode_of(job) in ("async", "bounded", "hybrid"),
    "parallel.spare_replicas": lambda job: mode_of(job) == "sync",
    "parallel.delay_compensation": lambda job: mode_of(job) in ("async", "bounded", "hybrid"),
    "parallel.staleness_aware": lambda job: mode_of(job) in ("async", "bounded", "hybrid"),
    "parallel.sub_networks": lambda job: mode_of(job) == "decomposed",
    "parallel.window": lambda job: mode_of(job) == "decomposed",
    "parallel.schedule": lambda job: "parallel.pipeline" in job,
    "parallel.chunks": lambda job: job.get("parallel.schedule") == "interleaved",
    "parallel.recompute": lambda job: "parallel.pipeline" in job,
    "parallel.cuts": lambda job: "parallel.pipeline" in job or mode_of(job) == "decomposed",
    # The layout has these where it wants them.
    "parallel.pipeline": lambda job: False, "parallel.tensor": lambda job: False, "parallel.data": lambda job: False,
    "parallel.threads": lambda job: False, "elastic.min": lambda job: False, "elastic.max": lambda job: False,
    "parallel.zero": lambda job: not is_served(job),
    "parallel.zero_inside_host": lambda job: job.get("parallel.zero") == 3,
    "parallel.mesh": lambda job: not is_served(job), "parallel.state_dir": lambda job: not is_served(job),
    "parallel.split_features": lambda job: "parallel.tensor" in job and job["model.name"] == "mlp",
    "train.lr_discriminator": lambda job: job["model.name"] == "dcgan",
    "train.nesterov": lambda job: job["train.optimizer"] == "sgd" and job.get("train.momentum", 0.9) > 0,
    "train.task": lambda job: False, "train.labelled": lambda job: job.get("train.task") == "few_labels",
    "train.unlabelled": lambda job: job.get("train.task") == "few_labels",
    "train.loss": lambda job: job["model.name"] in CLASSES,
    "train.label_smoothing": lambda job: job["model.name"] in CLASSES,
    "train.target_metric": lambda job: "train.target" in job,
    "train.early_stop_patience": lambda job: mode_of(job) in (None, "sync") and job["train.optimizer"] != "lbfgs",
    "train.target": lambda job: mode_of(job) in (None, "sync") and job["train.optimizer"] != "lbfgs",
    "train.max_steps": lambda job: job["train.optimizer"] != "lbfgs",
    "train.clip_norm": lambda job: mode_of(job) != "sync" and job["train.optimizer"] != "lbfgs",
    "data.augment": lambda job: job["data.name"] == "synthetic" and job["train.optimizer"] != "lbfgs",
    "data.order": lambda job: mode_of(job) in (None, "sync"),
    "elastic.auto": lambda job: not is_served(job) and "parallel.pipeline" not in job and "parallel.tensor" not in job,
    "elastic.standby": lambda job: not is_served(job),
}


def further_keys(source, keys, job):
    """Up to four that the layout says nothing about. Few have no meaning there."""
    for _ in range(source.choice([0, 1, 2, 3, 4])):
        free = [key for name, key in sorted(keys.items()) if name not in HELD and name not in job
                and (source.random() < 0.02 or WANTS.get(name, lambda job: True)(job))]
        key = source.choice(free)
        value = key.value(source)
        if value is not None:
            job[key.name] = value
        if value == "ring" and source.random() < 0.9:
            job["train.reproducible"] = False


def wrong_key(source, keys, job):
    """Now and then a value that the reference rules out. Gives the key."""
    if source.random() > 0.04:
        return ""
    key = keys[source.choice(sorted(set(keys) - {"model.name", "data.name"}))]
    value = key.wrong_value(source)
    if value is None:
        return ""
    job[key.name] = value
    return key.name


# ---- What is done to the run

def disturbance(source, job):
    """(kind, arguments): nothing, a worker is killed or paused, another size while it trains, stopped and resumed."""
    kind = source.choices(["none", "kill", "scale", "stop", "pause"], [45, 20, 15, 15, 5])[0]
    if kind == "kill":
        return kind, {"rank": source.randrange(processes(job)), "step": source.randrange(1, 5)}
    if kind == "pause":
        return kind, {"worker": source.randrange(job["parallel.workers"])}
    if kind == "scale":
        what = source.choices(["workers", "threads", "servers"], [6, 2, 4 if "parallel.servers" in job else 0])[0]
        return kind, {what: source.randrange(1, 5 if what == "workers" else 4)}
    if kind == "stop":
        return kind, {"workers": source.choice([0, 0, 1, 2, 3, 4])}
    return kind, {}


def processes(job):
    """Workers of the run, those of all replicas together."""
    def number(key):
        return max(1, job.get(f"parallel.{key}", 1))
    if not is_served(job):
        return number("workers")
    return number("workers") * number("data") * number("pipeline") * number("tensor")
