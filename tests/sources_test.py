"""Training from files of one's own: every kind of source, made here, and `distbelief init` on each."""
import io
import json
import random
import struct
import tarfile

from images import png
from program import ProgramTest, main

COMMON = {"train.max_steps": 6, "train.epochs": 2, "parallel.lanes": 2, "checkpoint.every_epochs": 0,
          "report.interval_seconds": 0.0}


def picture(label, number):
    """Class 0 is brighter at the left, class 1 at the top."""
    noise = random.Random(number)
    return png(20, 20, bytes(min(255, (x if label == 0 else y) * 10 + noise.randrange(40))
                             for y in range(20) for x in range(20) for _ in range(3)))


class FilesTest(ProgramTest):
    def folder(self, name):
        path = self.scratch / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def assert_starts(self, data, name, *overrides):
        """`init` recognises the data, and its job trains."""
        out = self.distbelief("init", data, "--out", "job.toml", "--force").out
        self.assertIn(f"data set '{name}'", out)
        run = f"started-{name}-{len(list(self.scratch.glob('started-*')))}"
        self.distbelief("train", "job.toml", "--run-dir", run, "--set", "train.max_steps=2", *overrides)
        self.assertEqual(self.summary(run)["steps"], 2)


class SourcesTest(FilesTest):
    """From each kind of file: the same weights with one worker and two."""

    def assert_same_weights(self, job):
        one = self.train("one", {**COMMON, **job}, "--workers", "1")
        two = self.train("two", {**COMMON, **job}, "--workers", "2")
        self.assertGreaterEqual(two["steps"], 2)
        self.assertEqual(one["weights_sha256"], two["weights_sha256"])

    def test_table(self):
        rows = ["age,town,note,risk"]
        for i in range(200):
            rows.append(f"{'' if i % 9 == 0 else i % 70},{['Ulm', 'Bonn', 'Köln'][i % 3]},\"n, {i}\",{'ab'[i % 70 > 30]}")
        path = self.scratch / "people.csv"
        path.write_text("\n".join(rows) + "\n")
        self.assert_same_weights({"model.name": "mlp", "model.hidden": [8], "data.name": "csv", "data.path": str(path),
                                  "data.ignore": "note", "train.batch_size": 16})
        self.assert_starts(path, "csv")

    def test_text(self):
        path = self.scratch / "story.txt"
        path.write_text("Der Bär tanzt im Wald, und der Wald tanzt mit.\n" * 80)
        gpt = {"model.name": "gpt", "model.layers": 1, "model.width": 16, "model.heads": 2, "data.name": "text",
               "data.path": str(path), "data.length": 16, "train.batch_size": 8}
        self.assert_same_weights({**gpt, "data.level": "characters"})
        self.train("sentences", {**COMMON, **gpt, "data.level": "sentences"}, "--workers", "2")
        self.assert_starts(path, "text")

    def test_sentences_count_their_words_however_long_samples_are(self):
        path = self.scratch / "lines.txt"
        path.write_text("".join(" ".join(f"w{(i * k) % 7}" for k in range(1, 2 + i % 9)) + "\n" for i in range(80)))
        lstm = {**COMMON, "model.name": "lstm", "model.layers": 1, "model.width": 8, "data.name": "text",
                "data.path": str(path), "data.level": "sentences", "train.batch_size": 8, "train.lr": 0.1}
        short, long = (self.train(f"length{length}", {**lstm, "data.length": length}) for length in (10, 25))
        self.assertAlmostEqual(short["test_loss"], long["test_loss"], 4)
        self.assertAlmostEqual(short["test_metrics"]["perplexity"], long["test_metrics"]["perplexity"], 3)
        self.assertEqual(short["test_accuracy"], long["test_accuracy"])
        self.assert_same_weights({**lstm, "data.length": 10})
        self.distbelief("data", "pack", "text", "packed", "--set", f"data.path={path}", "--set", "data.level=sentences",
                        "--set", "data.length=10")
        lstm.pop("data.level")
        packed = self.train("packed_run", {**lstm, "data.name": "packed", "data.path": "packed"})
        self.assertGreater(packed["test_accuracy"], 0)

    def test_image_folder(self):
        for label in (0, 1):
            for i in range(12):
                (self.folder(f"pictures/class{label}") / f"{i}.png").write_bytes(picture(label, i))
        root = self.scratch / "pictures"
        self.assert_same_weights({"model.name": "cnn", "data.name": "image_folder", "data.path": str(root),
                                  "data.resize": 18, "data.crop": 16, "train.batch_size": 8, "data.augment": ["flip"]})
        self.assert_starts(root, "image_folder")

    def test_webdataset(self):
        for shard in range(2):
            with tarfile.open(self.folder("shards") / f"s-{shard}.tar", "w") as tar:
                for i in range(10):
                    for ending, content in (("png", picture(i % 2, i)), ("cls", str(i % 2).encode())):
                        info = tarfile.TarInfo(f"{shard}{i:04}.{ending}")
                        info.size = len(content)
                        tar.addfile(info, io.BytesIO(content))
        root = self.scratch / "shards"
        self.assert_same_weights({"model.name": "mlp", "data.name": "webdataset", "data.path": str(root),
                                  "data.resize": 16, "data.crop": 16, "train.batch_size": 8})
        self.assert_starts(root, "webdataset")

    def test_cifar(self):
        folder = self.folder("cifar")
        noise = random.Random(1)
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            (folder / name).write_bytes(b"".join(bytes([i % 10]) + noise.randbytes(3072) for i in range(8)))
        self.assert_same_weights({"model.name": "mlp", "data.name": "cifar10", "data.path": str(folder),
                                  "train.batch_size": 8})
        self.assert_starts(folder, "cifar10")
        self.assertIn("data get cifar10", self.distbelief("data", "info", "cifar10", code=1).err)
        folder.rename(self.folder("data") / "cifar10")  # where `data get` puts it
        self.assertIn("40 to train on", self.distbelief("data", "info", "cifar10").out)


class InitTest(FilesTest):
    def test_idx_files(self):
        folder = self.folder("digits")
        noise = random.Random(1)
        for part, count in (("train", 40), ("t10k", 8)):
            (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 12, 12) +
                                                               noise.randbytes(count * 144))
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) +
                                                               bytes(i % 10 for i in range(count)))
        self.assert_starts(folder, "mnist")

    def test_cifar100(self):
        folder = self.folder("hundred")
        noise = random.Random(1)
        for name in ("train.bin", "test.bin"):
            (folder / name).write_bytes(b"".join(bytes([i % 20, i % 100]) + noise.randbytes(3072) for i in range(30)))
        self.assert_starts(folder, "cifar100")

    def test_trees(self):
        folder = self.folder("trees")
        for name in ("train.sexp", "test.sexp"):
            (folder / name).write_text("".join(f"{i % 2} (and w{i} (not w{i + 1}))\n" for i in range(70)))
        self.assert_starts(folder, "s_expressions")
        refused = self.distbelief("train", "job.toml", "--run-dir", "few", "--set", "model.tokens=64", code=2)
        self.assertIn("model.tokens must be 75 or more", refused.err)
        self.assertFalse((self.scratch / "few").exists())

    def test_packed_sets(self):
        for name, size in (("synthetic", ["--set", "data.height=12", "--set", "data.width=12"]),
                           ("synthetic_tokens", ["--set", "data.length=8"])):
            self.distbelief("data", "pack", name, self.scratch / name, "--set", "data.samples=40", "--set",
                            "data.test_samples=10", *size)
            self.assert_starts(self.scratch / name, "packed")

    def test_a_table_without_names(self):
        table = self.scratch / "iris.csv"
        table.write_text("".join(f"{i % 7},{i % 5}.5,{'pq'[i % 2]}\n" for i in range(60)))
        self.assert_starts(table, "csv")
        self.assertIn("header = false", (self.scratch / "job.toml").read_text())
        found = json.loads(self.distbelief("check", "job.toml", "--json").out)
        self.assertEqual(found["train_samples"] + found["test_samples"], 60)

    def test_never_replaces_a_file_unless_forced(self):
        table = self.scratch / "t.csv"
        table.write_text("a,b,y\n" + "".join(f"{i},{i % 5},{'pq'[i % 2]}\n" for i in range(40)))
        job = self.scratch / "job.toml"
        job.write_text("mine\n")
        self.assertIn("--force", self.distbelief("init", table, code=2).err)
        self.assertEqual(job.read_text(), "mine\n")
        self.distbelief("init", table, "--force")
        self.assertIn('name = "csv"', job.read_text())
        self.assertIn("column 'y' has 2 classes", job.read_text())
        found = json.loads(self.distbelief("check", "job.toml", "--json").out)
        self.assertEqual((found["train_samples"], found["test_samples"]), (36, 4))

    def test_values_to_predict_are_learnt(self):
        noise = random.Random(1)
        rows = [(noise.randrange(1, 7), noise.choice(["Ulm", "Bonn"]), noise.uniform(20, 200)) for _ in range(300)]
        table = self.scratch / "prices.tsv"
        table.write_text("rooms\ttown\tarea\tprice\n" + "".join(
            f"{rooms}\t{town}\t{area:.1f}\t{1000 * rooms + 30 * area + 900 * (town == 'Bonn'):.2f}\n"
            for rooms, town, area in rows))
        self.assertIn("'price' has numbers to predict", self.distbelief("init", table).out)
        self.distbelief("train", "job.toml", "--run-dir", "run", "--set", "train.max_steps=100")
        found = json.loads(self.distbelief("eval", "run", "--json").out)
        # The target is standardised: who always answers its mean is off by 1.
        self.assertLess(found["test_metrics"]["rmse"], 0.5)

    def test_says_what_is_damaged_and_writes_nothing(self):
        table = self.scratch / "t.csv"
        table.write_text("a,y\n1,p\n2,q,r\n")
        self.assertIn("line 3: 2 fields are wanted, found 3", self.distbelief("init", table, code=2).err)
        self.assertIn("there is no file", self.distbelief("init", "nowhere", code=1).err)
        self.assertFalse((self.scratch / "job.toml").exists())


class DamagedTest(ProgramTest):
    """A file that goes bad is named by the worker that meets it, and the run ends."""

    def test_an_image_that_cannot_be_decoded(self):
        for label in (0, 1):
            for part in ("train", "test"):
                (self.scratch / part / str(label)).mkdir(parents=True)
                for i in range(4):
                    content = picture(label, i)
                    if part == "train" and label == 1 and i == 3:
                        content = content[:len(content) // 2]
                    (self.scratch / part / str(label) / f"{i}.png").write_bytes(content)
        outcome = self.distbelief("train", "--run-dir", "run", "--set", "data.name=image_folder", "--set",
                                  f"data.path={self.scratch}", "--set", "data.resize=16", "--set", "data.crop=16",
                                  "--set", "model.name=mlp", "--set", "train.batch_size=4", "--workers", "2", code=2)
        self.assertIn("train/1/3.png', byte ", outcome.err)
        self.assertIn("damaged PNG", outcome.err)


if __name__ == "__main__":
    main()
