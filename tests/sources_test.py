"""Training from files of one's own: every kind of source, made here, and `distbelief init` on each."""
import ctypes
import gzip
import io
import json
import random
import re
import resource
import statistics
import struct
import tarfile
import zlib

from images import png
from program import PROGRAM, ProgramTest, main, settings

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
        plain = (self.scratch / "job.toml").read_text()
        (self.scratch / "story.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
        self.distbelief("init", "story.txt.gz", "--out", "packed.toml")
        length = r"(?m)^length = .*$"
        self.assertEqual(re.search(length, (self.scratch / "packed.toml").read_text())[0], re.search(length, plain)[0])

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

    def test_webdataset_with_names_in_json(self):
        with tarfile.open(self.folder("named") / "s.tar", "w") as tar:
            for i in range(20):
                about = json.dumps({"kind": ["zebra", "ant"][i % 2], "height": 16.5})
                for ending, content in (("png", picture(i % 2, i)), ("json", about.encode())):
                    info = tarfile.TarInfo(f"caf\u00e9{i:04}.{ending}")  # pax, in UTF-8
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        self.assert_starts(self.scratch / "named", "webdataset")
        self.assertIn('json_key = "kind"', (self.scratch / "job.toml").read_text())
        answer = json.loads(self.distbelief("predict", "started-webdataset-0", "test:0", "--json").out)[0]
        self.assertEqual({found["name"] for found in answer["classes"]}, {"ant", "zebra"})

    def test_decimal_commas(self):
        path = self.scratch / "prices.csv"
        path.write_text("rooms;area;price\n" + "".join(f"{i % 5};{i % 90},{i % 10};{30 * i},50\n" for i in range(120)))
        job = {**COMMON, "model.name": "mlp", "model.hidden": [8], "data.name": "csv", "data.path": str(path)}
        refused = self.distbelief("train", "--run-dir", "none", *settings(job), code=2).err
        self.assertIn("set option 'decimal' to \",\"", refused)
        self.assert_starts(path, "csv")
        self.assertIn('decimal = ","', (self.scratch / "job.toml").read_text())
        (self.scratch / "asked.csv").write_text("rooms;area\n3;45,5\n")
        answer = json.loads(self.distbelief("predict", "started-csv-0", "asked.csv", "--json").out)[0]
        self.assertEqual(len(answer["values"]), 1)

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


class LookTest(FilesTest):
    """`data info` and `data pack` take files and folders, as `init` does."""

    def test_a_table(self):
        table = self.scratch / "people.csv"
        table.write_text("age,town,risk\n" + "".join(f"{i % 70},{['Ulm', 'Bonn'][i % 2]},{'ab'[i % 3 > 1]}\n"
                                                     for i in range(60)))
        shown = self.distbelief("data", "info", table)
        self.assertIn("54 to train on, 6 to test on", shown.out)
        self.assertRegex(shown.out, r"  a +\d+  █{40}\n  b +\d+  █+")
        self.assertIn('is data set \'csv\', taken with --set data.target="risk"', shown.err)
        found = json.loads(self.distbelief("data", "info", table, "--set", "data.target=town", "--split", "stratified",
                                           "--clients", 2, "--json").out)
        self.assertEqual((found["name"], found["class_names"], len(found["split"])), ("csv", ["Bonn", "Ulm"], 2))
        self.distbelief("data", "pack", table, "packed")
        self.assertIn("54 to train on", self.distbelief("data", "info", "packed").out)
        self.assertIn("there is no file or folder", self.distbelief("data", "info", "peeple.csv", code=1).err)
        self.assertIn("there is no data set 'syntetic'", self.distbelief("data", "info", "syntetic", code=2).err)

    def test_folders_and_text(self):
        for label in ("cat", "dog"):
            for i in range(6):
                (self.folder(f"pictures/{label}") / f"{i}.png").write_bytes(picture(label == "dog", i))
        (self.scratch / "pictures" / "dog" / "2.png").write_bytes(b"damaged")
        self.assertRegex(self.distbelief("data", "info", "image_folder", "--data-dir", "pictures").out, r"  dog +\d  █+")
        (self.scratch / "pictures" / "dog" / "2.png").unlink()
        self.assertRegex(self.distbelief("data", "info", "pictures").out, r"  dog +\d  █+")
        self.distbelief("data", "pack", "pictures", "packed", "--set", "data.resize=16", "--set", "data.crop=12")
        found = json.loads(self.distbelief("data", "info", "packed", "--json").out)
        self.assertEqual((found["input_shape"], found["class_names"]), ([3, 12, 12], ["cat", "dog"]))
        (self.scratch / "story").write_text("Der Bär tanzt im Wald, und der Wald tanzt mit.\n" * 200)
        self.assertIn("int64 [128]", self.distbelief("data", "info", "./story").out)


class InitTest(FilesTest):
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
        # The target is standardised for learning, what is measured is in its own units.
        prices = [1000 * rooms + 30 * area + 900 * (town == "Bonn") for rooms, town, area in rows]
        deviation = statistics.pstdev(prices)
        self.assertLess(found["test_metrics"]["rmse"], 0.5 * deviation)
        self.assertAlmostEqual(found["test_metrics"]["rmse"] / found["test_loss"] ** 0.5, deviation, delta=0.1 * deviation)
        asked = json.loads(self.distbelief("eval", "run", "--metric", "mae", "--json").out)
        self.assertEqual(asked["test_metrics"], {"mae": found["test_metrics"]["mae"]})
        both = self.distbelief("eval", "--metric", "mae", "--metric", "rmse", "run").out
        self.assertRegex(both, r"^test loss [\d.]+, mae [\d.]+, rmse [\d.]+, over 30 items\n")
        refused = self.distbelief("eval", "run", "--metric", "accuracy", code=2).err
        self.assertIn("task 'regression' has no metric 'accuracy'; it has loss, rmse, mae", refused)

    def test_says_what_is_damaged_and_writes_nothing(self):
        table = self.scratch / "t.csv"
        table.write_text("a,y\n1,p\n2,q,r\n")
        self.assertIn("line 3: 2 fields are wanted, found 3", self.distbelief("init", table, code=2).err)
        self.assertIn("there is no file", self.distbelief("init", "nowhere", code=1).err)
        self.assertFalse((self.scratch / "job.toml").exists())


class MoreInitTest(FilesTest):
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


class HeldOutTest(ProgramTest):
    def test_a_run_does_not_go_on_to_be_tested_on_what_it_was_trained_on(self):
        for label in (0, 1):
            (self.scratch / "photos" / str(label)).mkdir(parents=True)
            for i in range(20):
                (self.scratch / "photos" / str(label) / f"{i}.png").write_bytes(picture(label, i))
        job = {"data.name": "image_folder", "data.path": str(self.scratch / "photos"), "data.resize": 16, "data.crop": 16,
               "model.name": "mlp", "train.batch_size": 4, "train.epochs": 1}
        self.train("run", job, "--workers", 1)
        (self.scratch / "photos" / "0" / "3.png").unlink()
        refused = self.distbelief("resume", "run", "--set", "train.epochs=2", code=2).err
        self.assertIn("has 39 samples now and had 40", refused)
        (self.scratch / "photos" / "0" / "3.png").write_bytes(picture(0, 99))
        self.assertIn("has changed since", self.distbelief("resume", "run", "--set", "train.epochs=2").err)


class HostileTest(ProgramTest):
    """Small files that ask for much: refused with file and place, within a memory cap, and nothing is left behind."""

    CAP = 3 << 30  # of addresses; the libraries alone take about a third

    def capped(self, *arguments):
        child = self.start([PROGRAM, *arguments],
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (self.CAP, self.CAP)))
        return self.finish(child)

    def refused(self, *arguments, says):
        before = sorted(self.scratch.rglob("*"))
        outcome = self.capped(*arguments)
        self.assertIn(outcome.code, (1, 2), outcome)
        for words in says:
            self.assertIn(words, outcome.err)
        self.assertNotIn("bad_alloc", outcome.err)
        after = [path for path in sorted(self.scratch.rglob("*")) if path.name not in ("out", "err")]
        self.assertEqual(after, [path for path in before if path.name not in ("out", "err")])

    def info_refused(self, name, path, *sets, says):
        self.refused("data", "info", name, "--set", f"data.path={path}", *sets, says=says)

    def bomb(self, name, head, body, times):
        """`head` and `times` times `body`, which deflates to next to nothing, in gzip members that may be joined."""
        path = self.scratch / name
        unit = gzip.compress(body * (1 << 20 >> 4), 9)
        path.write_bytes(gzip.compress(head) + unit * times)
        self.assertLess(path.stat().st_size, 4 << 20)
        return path

    def test_compressed_files(self):
        folder = self.scratch / "idx"
        folder.mkdir()
        head = struct.pack(">4I", 0x803, 1 << 20, 64, 64)
        images = self.bomb("idx/train-images-idx3-ubyte.gz", head, bytes(16), 512)
        for name in ("train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
            (folder / name).write_bytes(images.read_bytes())
        self.info_refused("mnist", folder, says=[f"'{images}', byte "])
        table = self.bomb("t.csv.gz", b"a,b,c,y\n", b"1,2,3,4\n5,6,7,8\n", 512)
        self.info_refused("csv", table, says=[f"'{table}', byte ", "gunzip"])
        text = self.bomb("t.txt.gz", b"", b"All work no play", 512)
        self.info_refused("text", text, says=[f"'{text}', byte ", "gunzip"])

    def test_a_wide_table(self):
        """As many columns as there may be, each with another value in every row, in a small file."""
        columns = 1 << 16
        def table(name, value):
            path = self.scratch / name
            header = ",".join(f"c{i}" for i in range(columns))
            rows = (",".join([value(i)] * (columns - 1) + ["pq"[i % 2]]) for i in range(180))
            path.write_bytes(gzip.compress("\n".join([header, *rows]).encode(), 1))
            self.assertLess(path.stat().st_size, 2 << 20)
            return path
        text = table("text.csv.gz", lambda i: f"t{i:03}")
        self.info_refused("csv", text, says=[f"'{text}', line ", "option 'ignore'"])
        outcome = self.capped("data", "info", "csv", "--set", f"data.path={table('numbers.csv.gz', str)}")
        self.assertEqual(outcome.code, 0, outcome)
        self.assertIn(str(columns - 1), outcome.out)

    def test_an_image(self):
        def chunk(kind, content):
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        pixels = chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
        huge = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", 50_000, 50_000, 8, 2, 0, 0, 0)) + pixels
        for name in ("a/1.png", "b/1.png", "b/2.png"):
            path = self.scratch / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(huge)
        self.info_refused("image_folder", self.scratch / "photos", "--split", "feature:0", "--clients", 2,
                          says=["photos/", ".png', byte "])
        shown = self.capped("data", "info", "image_folder", "--set", f"data.path={self.scratch / 'photos'}")
        self.assertEqual(shown.code, 0, "who counts images does not decode them")
        self.assertRegex(shown.out, r"  b +\d+  █+\n")

    def test_long_files(self):
        """Plain ones, which are as long as they say, though no disk holds their zeros."""
        folder = self.scratch / "idx"
        folder.mkdir()
        images = folder / "train-images-idx3-ubyte"
        with images.open("wb") as file:
            file.write(struct.pack(">4I", 0x803, 1 << 20, 64, 64))
            file.truncate(16 + (1 << 32))
        for name in ("train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
            (folder / name).write_bytes(struct.pack(">2I", 0x801, 1) + bytes(1))
        says = ["not memory enough", f"'{images}'", str(16 + (1 << 32))]
        self.info_refused("mnist", folder, says=says)
        self.refused("init", folder, "--out", self.scratch / "job.toml", says=says)
        self.distbelief("train", "--run-dir", "run", *settings(
            {"model.name": "mlp", "model.hidden": [4], "data.name": "synthetic", "data.samples": 8, "data.channels": 1,
             "data.height": 64, "data.width": 64, "train.batch_size": 4, "train.epochs": 1}), "--workers", 1)
        self.refused("predict", "run", images, says=says)

    def test_text(self):
        """Memory for what is kept of it, and once for the file while it is read; not for every different word."""
        text = self.scratch / "long.txt"
        with text.open("wb") as file:
            file.truncate(256 << 20)
        self.CAP = 1 << 30  # 4 bytes a token, grown by doubling, would not fit
        for level in ("bytes", "characters"):
            shown = self.capped("data", "info", "text", "--set", f"data.path={text}", "--set", f"data.level={level}")
            self.assertEqual(shown.code, 0, shown)
        self.CAP = HostileTest.CAP
        words = self.scratch / "words.txt"
        with words.open("w") as file:
            for start in range(0, 2_000_000, 50_000):
                file.write(" ".join(f"{i:x}" for i in range(start, start + 50_000)) + "\n")
        self.info_refused("text", words, "--set", "data.level=sentences", says=[f"'{words}'", "different words", "128 MiB"])

    def test_a_tar_with_a_way_out(self):
        path = self.scratch / "s.tar"
        with tarfile.open(path, "w") as tar:
            info = tarfile.TarInfo("../outside.png")
            info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
        self.info_refused("webdataset", path, says=[f"'{path}', byte ", "../outside.png"])

    def test_weights(self):
        job = settings({"model.name": "mlp", "model.hidden": [4], "data.name": "synthetic", "data.samples": 8})
        entry = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
        headers = {"overlap": json.dumps({"a": entry, "b": entry}).encode(),
                   "beyond": json.dumps({"a": {**entry, "data_offsets": [0, 1 << 40], "shape": [1 << 38]}}).encode()}
        for name, header in headers.items():
            path = self.scratch / f"{name}.safetensors"
            path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
            self.refused("train", *job, "--init", path, says=[f"{name}.safetensors", "offset"])
        long = self.scratch / "long.safetensors"
        with long.open("wb") as file:
            file.write(struct.pack("<Q", 1 << 30) + b"[")
            file.truncate(2 << 30)
        self.refused("train", *job, "--init", long, says=["long.safetensors", "offset 0"])

    def test_an_index(self):
        packed = self.scratch / "packed"
        self.distbelief("data", "pack", "synthetic", packed, "--set", "data.samples=40", "--set", "data.test_samples=10")
        index = json.loads((packed / "index.json").read_text())
        index["set"]["train"]["slices"][0][4] = 1 << 31
        text = json.dumps(index["set"], separators=(",", ":"), sort_keys=True).encode()
        library = ctypes.CDLL("libxxhash.so.0")
        library.XXH3_64bits.restype = ctypes.c_uint64
        index["xxh3"] = f"{library.XXH3_64bits(text, ctypes.c_size_t(len(text))):016x}"
        (packed / "index.json").write_text(json.dumps(index))
        self.refused("data", "info", packed, "--split", "even", "--clients", 2,
                     says=[f"'{packed}/index.json': slice 0 at byte 0 of 'train-00000.slices' cannot have 2147483648"])
        with (packed / "index.json").open("wb") as file:
            file.truncate(1 << 32)
        self.refused("data", "verify", packed, says=[f"'{packed}/index.json'"])


if __name__ == "__main__":
    main()
