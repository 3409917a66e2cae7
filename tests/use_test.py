"""Using what was trained: predict, export, --init, and networks that come from Python and go back there."""
import gzip
import json
import pathlib
import random
import shutil
import struct
import sys
import textwrap

import exported
import numpy
import program
import read_safetensors
from images import Pixels, jpeg, png
from program import RESNET

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
SMALL = {**RESNET, "model.name": "cnn"}
STILL = {"train.lr": 1e-30, "train.max_steps": 1, "train.epochs": 0, "train.momentum": 0.0}


ARTICLES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class UseTest(program.ProgramTest):
    def python(self, code, *arguments):
        """Runs a script under Debian's torch and gives what it prints."""
        script = self.scratch / "script.py"  # TorchScript reads the source of what it compiles
        script.write_text(textwrap.dedent(code))
        return self.command(sys.executable, script, *arguments).out


class ExportTest(UseTest):
    def test_weights_go_out_and_come_back(self):
        trained = self.train("run", {**SMALL, "train.epochs": 1}, "--workers", 2)
        self.distbelief("export", "run", "--to", "safetensors", "out.safetensors")
        tensors, metadata = read_safetensors.read(self.scratch / "out.safetensors")
        kept, _ = read_safetensors.read(self.scratch / "run" / "model.safetensors")
        self.assertEqual(metadata["format"], "pt")
        self.assertEqual(sorted(tensors), sorted(kept))
        for name, values in kept.items():
            self.assertTrue((tensors[name] == values).all(), name)
        self.begin_again(trained)
        self.begin_elsewhere(sorted(tensors)[-1], len(tensors))

    def begin_again(self, trained):
        still = {**SMALL, **STILL, "train.seed": 99}
        for name, extra in (("again", []), ("stages", ["--set", "parallel.pipeline=2"])):
            begun = self.train(name, still, "--workers", 2, "--init", "out.safetensors", *extra)
            self.assertEqual(begun["weights_sha256"], trained["weights_sha256"], name)
        lost = self.train("lost", {**still, "train.max_steps": 6}, "--workers", 2, "--init", "out.safetensors",
                          "--inject", "kill:rank=1,step=1")
        self.assertEqual((lost["weights_sha256"], lost["recoveries"]), (trained["weights_sha256"], 1))

    def begin_elsewhere(self, weight, count):
        other = {**SMALL, **STILL, "data.classes": 7}
        refused = self.distbelief("train", *program.settings(other), "--init", "out.safetensors", code=2).err
        self.assertIn(f"{count - 2} tensors fit; different: {weight} is float32 [10,", refused)
        self.assertIn("--init-partial", refused)
        taken = self.distbelief("train", "--run-dir", "part", *program.settings(other), "--init", "out.safetensors",
                                "--init-partial").out
        self.assertIn(f"{count - 2} tensors fit; different: {weight}", taken)
        before, _ = read_safetensors.read(self.scratch / "out.safetensors")
        after, _ = read_safetensors.read(self.scratch / "part" / "model.safetensors")
        equal = [name for name in before if before[name].shape == after[name].shape and (before[name] == after[name]).all()]
        self.assertEqual(len(equal), count - 2)
        self.distbelief("resume", "part", "--set", f"train.max_steps={other['train.max_steps'] + 1}")
        nothing = self.distbelief("train", *program.settings({**RESNET, **STILL}), "--init", "out.safetensors",
                                  "--init-partial", code=2).err
        self.assertIn("is it a file of another network?", nothing)

    def test_python_loads_them(self):
        if not exported.has_torch():
            program.cannot("read them in Python: there is no python3-torch")
        self.train("run", {**RESNET, "train.max_steps": 2}, "--workers", 2)
        self.distbelief("export", "run", "--to", "state_dict", "out.pth")
        self.distbelief("export", "run", "--to", "torchscript", "out.pt")
        lines = self.python("""
            import sys, numpy, torch
            sys.path.insert(0, sys.argv[1])
            import read_safetensors
            wanted, _ = read_safetensors.read("run/model.safetensors")
            state = torch.load("out.pth")
            script = torch.jit.load("out.pt")
            assert sorted(state) == sorted(wanted) == sorted(script.state_dict())
            for name, values in wanted.items():
                assert numpy.array_equal(state[name].numpy(), values), name
                assert numpy.array_equal(script.state_dict()[name].numpy(), values), name
            print(tuple(script(torch.zeros(5, 3, 16, 16)).shape), state["bn1.num_batches_tracked"].dtype)
            """, pathlib.Path(__file__).parent)
        self.assertEqual(lines, "(5, 10) torch.int64\n")

    def test_a_trace_in_python_answers_as_predict_does(self):
        if not exported.has_torch():
            program.cannot("load it in Python: there is no python3-torch")
        tokens = [[(7 * row + 3 * i) % 32 for i in range(16)] for row in range(3)]
        (self.scratch / "rows.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in tokens))
        recurrent = {key: value for key, value in program.GPT.items() if key != "model.heads"}
        for name, job in (("gpt", program.GPT),
                          ("lstm", {**recurrent, "model.streams": 8, "data.order": "streams"})):
            self.train(name, {**job, "model.name": name, "train.max_steps": 2}, "--workers", 1)
            self.distbelief("export", name, "--to", "torchscript", f"{name}.pt")
            asked = json.loads(self.distbelief("predict", name, "rows.csv", "--json", "--top", 32).out)
            given = json.loads(self.python("""
                import json, sys, torch
                script = torch.jit.load(sys.argv[1] + ".pt")
                assert not [name for name in script.state_dict() if name.endswith("state.rows")]
                logits = script(torch.tensor(json.loads(sys.argv[2]))).view(3, 16, 32)[:, -1]
                print(json.dumps(torch.softmax(logits, 1).tolist()))
                """, name, json.dumps(tokens)))
            for answer, wanted in zip(asked, given):
                self.assertEqual(len(answer["classes"]), 32)
                for found in answer["classes"]:
                    self.assertAlmostEqual(found["probability"], wanted[found["class"]], places=6, msg=name)


class MoreExportTest(UseTest):
    def test_a_generator_is_traced_from_noise(self):
        if not exported.has_torch():
            program.cannot("load it in Python: there is no python3-torch")
        self.train("run", {**SMALL, "model.name": "dcgan", "model.latent": 6, "model.width": 4, "data.channels": 1,
                           "data.normalize": False, "train.max_steps": 2}, "--workers", 1)
        self.distbelief("export", "run", "--to", "torchscript", "out.pt")
        self.assertEqual(self.python("""
            import torch
            images = torch.jit.load("out.pt")(torch.randn(5, 6))
            print(tuple(images.shape), bool((images >= 0).all() and (images <= 1).all()))
            """), "(5, 1, 16, 16) True\n")

    def test_what_only_training_carries_on_stays_behind(self):
        recurrent = {**{key: value for key, value in program.GPT.items() if key != "model.heads"}, "model.name": "lstm"}
        carrying = {**recurrent, "model.streams": 8, "data.order": "streams"}
        trained = self.train("run", {**carrying, "train.max_steps": 2}, "--workers", 1)
        self.distbelief("export", "run", "--to", "safetensors", "out.safetensors")
        kept, _ = read_safetensors.read(self.scratch / "run" / "model.safetensors")
        given, _ = read_safetensors.read(self.scratch / "out.safetensors")
        self.assertEqual(sorted(set(kept) - set(given)), ["layers.0.state.rows", "layers.1.state.rows"])
        for file in ("out.safetensors", "run/model.safetensors"):
            for name, job in (("plain", recurrent), ("streams", carrying)):
                begun = self.train(f"{name}-{len(file)}", {**job, **STILL}, "--workers", 1, "--init", file)
                self.assertEqual(begun["weights_sha256"], trained["weights_sha256"], (file, name))


def torchvision_resnet(depth, classes):
    """Names and shapes of all parameters and buffers of torchvision.models.resnetN(num_classes=classes)."""
    basic, blocks = {18: (True, (2, 2, 2, 2)), 50: (False, (3, 4, 6, 3))}[depth]
    found, inputs = {}, 64

    def add(convolution, norm, sizes):
        found[f"{convolution}.weight"] = sizes
        found.update({f"{norm}.{part}": sizes[:1] for part in ("weight", "bias", "running_mean", "running_var")})
        found[f"{norm}.num_batches_tracked"] = ()

    add("conv1", "bn1", (64, 3, 7, 7))
    for stage, count in enumerate(blocks):
        width = 64 << stage
        outputs = width if basic else 4 * width
        for block in range(count):
            at = f"layer{stage + 1}.{block}"
            sizes = ([(width, inputs, 3, 3), (width, width, 3, 3)] if basic else
                     [(width, inputs, 1, 1), (width, width, 3, 3), (outputs, width, 1, 1)])
            for i, size in enumerate(sizes, 1):
                add(f"{at}.conv{i}", f"{at}.bn{i}", size)
            if block == 0 and inputs != outputs:
                add(f"{at}.downsample.0", f"{at}.downsample.1", (outputs, inputs, 1, 1))
            inputs = outputs
    return {**found, "fc.weight": (classes, inputs), "fc.bias": (classes,)}


class TorchvisionTest(UseTest):
    DEPTH = 18

    def test_weights_with_its_names_and_shapes_fit(self):
        wanted = torchvision_resnet(self.DEPTH, 10)
        draw = numpy.random.default_rng(1)
        given = {name: draw.uniform(0.01, 0.02, shape).astype(numpy.float32) if shape else numpy.array(7)
                 for name, shape in wanted.items()}
        read_safetensors.write(self.scratch / "theirs.safetensors", given)
        job = {**RESNET, **STILL, "model.name": f"resnet{self.DEPTH}", "model.stem": "imagenet", "data.height": 64,
               "data.width": 64, "data.samples": 8}
        self.train("run", job, "--workers", 2, "--init", "theirs.safetensors")
        found, metadata = read_safetensors.read(self.scratch / "run" / "model.safetensors")
        self.assertEqual({name: tensor.shape for name, tensor in found.items()}, wanted)
        buffers = set(metadata["buffers"].split(","))
        self.assertEqual(buffers, {name for name in wanted if "running_" in name or "num_batches" in name})
        for name in set(wanted) - buffers:
            self.assertTrue((found[name] == given[name]).all(), name)


class MoreTorchvisionTest(TorchvisionTest):
    DEPTH = 50


class PredictTest(UseTest):
    def test_files_rows_and_test_samples_get_the_same_answers(self):
        self.train("run", {"model.name": "mlp", "model.hidden": [16], "data.train_limit": 512, "data.test_limit": 64,
                           "train.epochs": 2, "train.batch_size": 32}, "--workers", 2)
        wanted = json.loads((self.scratch / "run" / "predictions.json").read_text())["first"][:4]
        pixels = gzip.decompress((DATA / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
        images = [pixels[784 * sample["sample"]:784 * (sample["sample"] + 1)] for sample in wanted]
        (self.scratch / "rows.csv").write_text("\n".join(
            [",".join(f"p{i}" for i in range(784))] + [",".join(map(str, image)) for image in images]) + "\n")
        for i, image in enumerate(images):
            (self.scratch / f"{i}.pgm").write_bytes(b"P5\n# a comment\n28 28\n255\n" + image)
            (self.scratch / f"{i}.ppm").write_bytes(b"P6 28 28 255\n" + bytes(v for value in image for v in 3 * [value]))
            (self.scratch / f"{i}.png").write_bytes(png(28, 28, image))
        given = [*(f"test:{sample['sample']}" for sample in wanted), "rows.csv", *(f"{i}.{kind}" for kind in ("pgm", "ppm", "png") for i in range(4))]
        every = json.loads(self.distbelief("predict", "run", *given, "--json", "--top", 2).out)
        self.assertEqual(len(every), 5 * 4)
        for first in range(0, len(every), 4):
            answers = every[first:first + 4]
            self.assertEqual([answer["classes"][0]["class"] for answer in answers],
                             [sample["predicted"] for sample in wanted], answers)
            for answer, sample in zip(answers, wanted):
                self.assertEqual(len(answer["classes"]), 2)
                self.assertAlmostEqual(answer["classes"][0]["probability"], sample["probability"], places=5)
                self.assertEqual(answer["classes"][0]["name"], ARTICLES[sample["predicted"]])
        self.assertRegex(self.distbelief("predict", "run", "test:0").out, r"^test:0: [A-Z][\w/ -]+ \(\d+\.\d %\), [A-Z]")
        self.refusals()

    def test_photographs_are_read_as_in_training(self):
        for name, level in (("dark", 30), ("light", 200)):
            (self.scratch / "photos" / name).mkdir(parents=True)
            for i in range(10):
                (self.scratch / "photos" / name / f"{i}.png").write_bytes(png(24, 18, bytes([level + i]) * 24 * 18))
        self.train("run", {"model.name": "mlp", "model.hidden": [8], "data.name": "image_folder", "data.path": "photos",
                           "data.resize": 16, "data.crop": 12, "train.batch_size": 4, "train.epochs": 8}, "--workers", 1)
        answers = json.loads(self.distbelief("predict", "run", "photos/dark/3.png", "photos/light/4.png", "--json").out)
        self.assertEqual([answer["classes"][0]["name"] for answer in answers], ["dark", "light"])
        self.same_of_both_formats()
        kept = json.loads((self.scratch / "run" / "predictions.json").read_text())
        self.assertEqual(kept["names"], ["dark", "light"])
        self.assertIn("dark taken for dark", (self.scratch / "run" / "report.html").read_text())

    def same_of_both_formats(self):
        levels = [[20, 90, 250], [0, 130, 255]]
        (self.scratch / "asked.png").write_bytes(png(24, 16, bytes(
            levels[y // 8][x // 8] for y in range(16) for x in range(24))))
        for name in ("asked.jpg", "asked.jpeg"):
            (self.scratch / name).write_bytes(jpeg(levels))
        answers = json.loads(self.distbelief("predict", "run", "asked.png", "asked.jpg", "asked.jpeg", "--json").out)
        self.assertEqual([answer["input"] for answer in answers], ["asked.png", "asked.jpg", "asked.jpeg"])
        self.assertEqual([answer["classes"] for answer in answers], 3 * [answers[0]["classes"]])
        (self.scratch / "cut.jpg").write_bytes(jpeg(levels)[:60])
        self.assertIn("cut.jpg', byte ", self.distbelief("predict", "run", "cut.jpg", code=2).err)

    def refusals(self):
        for name, data, expected in (("short.pgm", b"P5 28 28 255\n" + bytes(7), "short.pgm', byte 20: damaged PNM: it ends after 20 bytes, its header wants 797"),
                                     ("bomb.ppm", b"P6 99999999 99999999 255\n", "99999999 x 99999999 pixels"),
                                     ("few.csv", b"1,2,3\n", "line 1: 3 numbers; this network takes images [1, 28, 28]"),
                                     ("words.csv", b"a,b\nc,d\n", "line 2: 2 fields are no numbers")):
            (self.scratch / name).write_bytes(data)
            self.assertIn(expected, self.distbelief("predict", "run", name, code=2).err)
        self.assertIn("numbers from 0 to 63", self.distbelief("predict", "run", "test:64", code=2).err)

    def test_labels_in_order_are_read_off_the_likeliest_path(self):
        """Whatever it hears, a network with such a bias says one symbol, or nothing."""
        job = {"model.name": "frame_lstm", "model.width": 8, "data.name": "synthetic_speech", "data.samples": 32,
               "data.test_samples": 8, "train.batch_size": 8, **STILL}
        self.train("run", job, "--workers", 1)
        self.distbelief("export", "run", "--to", "safetensors", "out.safetensors")
        weights = bytearray((self.scratch / "out.safetensors").read_bytes())
        length = int.from_bytes(weights[:8], "little")
        first, end = json.loads(weights[8:8 + length])["head.bias"]["data_offsets"]
        for symbol, wanted, shown in ((3, [{"class": 3}], "test:0: 3\ntest:1: 3\n"),
                                      (0, [], "test:0: nothing\ntest:1: nothing\n")):
            bias = [1000.0 * (i == symbol) for i in range((end - first) // 4)]
            weights[8 + length + first:8 + length + end] = struct.pack(f"<{len(bias)}f", *bias)
            (self.scratch / "biased.safetensors").write_bytes(weights)
            self.train(f"says{symbol}", job, "--workers", 1, "--init", "biased.safetensors")
            answers = json.loads(self.distbelief("predict", f"says{symbol}", "test:0-1", "--json").out)
            self.assertEqual(answers, [{"input": f"test:{i}", "labels": wanted} for i in range(2)])
            self.assertEqual(self.distbelief("predict", f"says{symbol}", "test:0-1").out, shown)


class MorePredictTest(UseTest):
    def test_codes_are_put_in_groups(self):
        coder = {"model.name": "autoencoder", "model.hidden": [16], "model.code": 3, "train.batch_size": 16,
                 "train.optimizer": "adamw", "train.lr": 0.003, "train.epochs": 2}
        run = self.train("images", {**coder, "data.train_limit": 512, "data.test_limit": 200}, "--workers", 2)
        found = [answer["cluster"] for answer in self.grouped("images", 200, 10)]
        labels = gzip.decompress((DATA / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:208]
        most = [max([labels[i] for i in range(200) if found[i] == group].count(label) for label in range(10))
                for group in set(found)]
        self.assertAlmostEqual(sum(most) / 200, run["test_metrics"]["cluster_purity"], places=9)
        self.train("table", {**coder, "data.name": "synthetic_table", "data.target": "value", "data.samples": 64,
                             "data.test_samples": 40, "model.clusters": 4}, "--workers", 1)
        self.grouped("table", 40, 4)
        self.assertRegex(self.distbelief("predict", "table", "test:0").out, r"^test:0: code( [-\d.e]+){3}, cluster [0-3]")
        (self.scratch / "table" / "clusters.json").unlink()
        self.assertNotIn("cluster", json.loads(self.distbelief("predict", "table", "test:0", "--json").out)[0])
        self.distbelief("report", "table", "--score")
        self.grouped("table", 40, 4)

    def grouped(self, run, samples, groups):
        """Answers for all test samples, each in the group whose centre is nearest."""
        kept = json.loads((self.scratch / run / "clusters.json").read_text())
        self.assertEqual((len(kept["centres"]), len(kept["samples"]), sum(kept["samples"])), (groups, groups, samples))
        self.assertEqual(kept["weights_sha256"], self.summary(run)["weights_sha256"])
        answers = json.loads(self.distbelief("predict", run, f"test:0-{samples - 1}", "--json").out)
        for answer in answers:
            distances = [sum((a - b) ** 2 for a, b in zip(answer["code"], centre)) for centre in kept["centres"]]
            self.assertEqual(distances[answer["cluster"]], min(distances))
        self.assertEqual([sum(answer["cluster"] == i for answer in answers) for i in range(groups)], kept["samples"])
        return answers

    def test_the_report_has_the_probabilities_of_predict(self):
        for loss in ("mse", "cross_entropy"):
            self.train(loss, {**program.MLP, "train.loss": loss}, "--workers", 1)
            kept = json.loads((self.scratch / loss / "predictions.json").read_text())["first"]
            asked = [f"test:{shown['sample']}" for shown in kept]
            answers = json.loads(self.distbelief("predict", loss, *asked, "--json").out)
            for answer, shown in zip(answers, kept, strict=True):
                self.assertEqual(answer["classes"][0]["class"], shown["predicted"])
                self.assertAlmostEqual(answer["classes"][0]["probability"], shown["probability"], places=6)

    def test_rows_of_tables_have_categories_and_gaps(self):
        noise = random.Random(2)
        rows = [(noise.randrange(1, 7), noise.choice(["Ulm", "Bonn"]), noise.choice(["", "1", "2"])) for _ in range(200)]
        table = self.scratch / "prices.csv"
        table.write_text("rooms,town,bath,price\n" + "".join(
            f"{rooms},{town},{bath},{1000 * rooms + 900 * (town == 'Bonn') + 500 * (bath == '2')}.5\n" for rooms, town, bath in rows))
        common = {"model.name": "mlp", "model.hidden": [16], "data.name": "csv", "data.path": str(table),
                  "train.batch_size": 10, "train.epochs": 20, "train.optimizer": "adamw", "train.lr": 0.01}
        self.train("values", {**common, "data.standardize_target": True}, "--workers", 1)
        (self.scratch / "asked.csv").write_text("town,rooms,bath,note\nBonn,5,2,x\nUlm,1,,y\nParis,3,NA,z\n")
        answers = json.loads(self.distbelief("predict", "values", "asked.csv", "--json").out)
        self.assertEqual([answer["input"] for answer in answers], ["asked.csv:2", "asked.csv:3", "asked.csv:4"])
        for answer, wanted in zip(answers, (6400, 1000)):  # in the target's own units
            self.assertAlmostEqual(answer["values"][0], wanted, delta=400)
        self.train("classes", {**common, "data.target": "town", "data.ignore": "price", "train.max_steps": 5}, "--workers", 1)
        self.assertRegex(self.distbelief("predict", "classes", "asked.csv").out, r"^asked.csv:2: (Ulm|Bonn) \(\d+")
        (self.scratch / "bad.csv").write_text("town,bath\nUlm,2\n")
        self.assertIn("line 1: column 'rooms' is wanted", self.distbelief("predict", "values", "bad.csv", code=2).err)

    def test_trees_are_asked_by_expression_or_file(self):
        forms = {"0": ["(and true false)", "(not true)", "(and false (not true))"],
                 "1": ["(or true false)", "(not false)", "(or false (not false))"]}
        lines = [f"{label} {form}" for label, some in forms.items() for form in some]
        (self.scratch / "trees").mkdir()
        (self.scratch / "trees" / "train.sexp").write_text("\n".join(16 * lines) + "\n")
        (self.scratch / "trees" / "test.sexp").write_text("\n".join(lines) + "\n")
        self.train("run", {"model.name": "tree_lstm", "model.width": 16, "data.name": "s_expressions", "data.path": "trees",
                           "train.batch_size": 16, "train.epochs": 12, "train.optimizer": "adamw", "train.lr": 0.02},
                   "--workers", 2)
        (self.scratch / "asked.sexp").write_text("(or true false)\n\n1 (and true false)\n")
        answers = json.loads(self.distbelief("predict", "run", "tree:(not true)", "asked.sexp", "test:3", "--json").out)
        self.assertEqual([(answer["input"], answer["classes"][0]["class"]) for answer in answers],
                         [("tree:(not true)", 0), ("asked.sexp:1", 1), ("asked.sexp:3", 0), ("test:3", 1)])
        for asked, expected in (("tree:(not", "wants ')' at character 5"), ("text:not", "trees of up to 4 nodes"),
                                ("tree:(a (b (c (d e))))", "has 5 nodes, the largest for training has 4")):
            self.assertIn(expected, self.distbelief("predict", "run", asked, code=2).err)

    def test_segmentations_and_reconstructions_are_pictures(self):
        self.train("pixels", {"model.name": "unet", "model.width": 4, "data.name": "synthetic_shapes", "data.size": 16,
                              "data.samples": 64, "data.test_samples": 8, "train.batch_size": 8}, "--workers", 2)
        (self.scratch / "own.png").write_bytes(png(40, 40, bytes(1600)))
        answers = json.loads(self.distbelief("predict", "pixels", "test:2", "own.png", "--json").out)
        self.assertEqual([answer["picture"] for answer in answers], ["pixels/predicted/test-2.png", "pixels/predicted/own.png"])
        for answer in answers:
            self.assertAlmostEqual(sum(found["share"] for found in answer["classes"]), 1)
            colours = [bytes.fromhex(found["colour"][1:]) for found in answer["classes"]]
            pixels = Pixels(self.scratch / answer["picture"])
            self.assertEqual((pixels.width, pixels.height), (16, 16))
            for colour, found in zip(colours, answer["classes"]):
                self.assertEqual(pixels.count(colour), 256 * found["share"])
        shown = self.distbelief("predict", "pixels", "test:0", "--out", "elsewhere").out
        self.assertRegex(shown, r"^test:0: elsewhere/test-0.png: \d \(\d+\.\d %\)")
        self.train("code", {"model.name": "vae", "model.hidden": [16], "model.code": 3, "data.name": "synthetic",
                            "data.samples": 64, "data.test_samples": 8, "data.height": 12, "data.width": 20,
                            "train.batch_size": 8, "train.optimizer": "adamw", "train.lr": 0.001}, "--workers", 1)
        answer = json.loads(self.distbelief("predict", "code", "test:1", "--json").out)[0]
        self.assertEqual((set(answer), len(answer["code"])), ({"input", "code", "cluster", "picture"}, 3))
        pixels = Pixels(self.scratch / answer["picture"])
        self.assertEqual((pixels.width, pixels.height), (20, 12))

    def test_text_is_continued_or_filled_in(self):
        (self.scratch / "abc.txt").write_text("abcdabcdabcdabcd" * 40)
        text = {"data.name": "text", "data.path": "abc.txt", "data.length": 8, "data.stride": 3, "train.batch_size": 16, "train.epochs": 5,
                "train.optimizer": "adamw", "train.lr": 0.01, "model.layers": 1, "model.width": 16, "model.heads": 2}
        self.train("next", {**text, "model.name": "gpt"}, "--workers", 1)
        (self.scratch / "asked.txt").write_text("abcdabcdabcdabcda")
        answers = json.loads(self.distbelief("predict", "next", "text:abc", "asked.txt", "--json", "--top", 1).out)
        self.assertEqual([answer["classes"][0]["name"] for answer in answers], ["d", "b"])
        self.assertIn('text:abc: "d" (', self.distbelief("predict", "next", "text:abc").out)
        self.assertIn("there is no text", self.distbelief("predict", "next", "text:", code=2).err)
        self.train("hidden", {**text, "model.name": "bert", "train.max_steps": 3}, "--workers", 1)
        filled, both = json.loads(self.distbelief("predict", "hidden", "text:ab[MASK]d", "text:[MASK]b[MASK]", "--json").out)
        self.assertEqual(len(filled["classes"]), 3)
        self.assertEqual(filled["hidden"], [{"place": 2, "classes": filled["classes"]}])
        self.assertEqual(([found["place"] for found in both["hidden"]], "classes" in both), ([0, 2], False))
        self.assertIn("write [MASK]", self.distbelief("predict", "hidden", "text:abcd", code=2).err)


class ChangedDataTest(UseTest):
    """What a run learnt from its files is kept with it: they may change, or go."""

    def table(self, rows):
        (self.scratch / "prices.csv").write_text("rooms,town,price\n" + "".join(
            f"{rooms},{town},{1000 * rooms + 900 * (town == 'Bonn')}.5\n" for rooms, town in rows))

    def test_a_table(self):
        noise = random.Random(2)
        rows = [(noise.randrange(1, 7), noise.choice(["Ulm", "Bonn"])) for _ in range(200)]
        self.table(rows)
        job = {"model.name": "mlp", "model.hidden": [16], "data.name": "csv", "data.path": "prices.csv",
               "data.standardize_target": True, "train.batch_size": 10, "train.epochs": 10, "train.optimizer": "adamw",
               "train.lr": 0.01, "parallel.lanes": 2}
        self.train("run", job, "--workers", 1)
        shutil.copytree(self.scratch / "run", self.scratch / "run2")
        (self.scratch / "asked.csv").write_text("rooms,town\n5,Bonn\n1,Ulm\n")
        answers = self.distbelief("predict", "run", "asked.csv").out
        unchanged = self.distbelief("eval", "run", "--json")
        self.assertEqual(unchanged.err, "")
        self.assertEqual(json.loads(unchanged.out)["test_loss"], self.summary("run")["test_loss"])
        self.assertNotIn("has changed", self.distbelief("resume", "run", "--set", "train.epochs=11").err)
        self.assertTrue(self.summary("run")["reproducible"])
        self.table(rows + [(noise.randrange(100, 200), "Aachen") for _ in range(300)])
        self.assertEqual(self.distbelief("predict", "run2", "asked.csv").out, answers)
        changed = self.distbelief("eval", "run2")
        self.assertIn("has changed since it was trained", changed.err)
        self.assertIn("test:0", self.distbelief("predict", "run2", "test:0").out)
        refused = self.distbelief("resume", "run2", "--set", "train.epochs=11", "--set", "data.ignore=town", code=2)
        self.assertIn("cannot change data.ignore", refused.err)
        refused = self.distbelief("resume", "run2", "--set", "train.epochs=11", code=2)
        self.assertIn("the data has 500 samples now and had 200 when the run began", refused.err)
        self.table([(rooms + 1, town) for rooms, town in rows])
        went_on = self.distbelief("resume", "run2", "--set", "train.epochs=11")
        self.assertEqual(self.summary("run2")["steps"], 11 * 18)
        self.assertIn("has changed since it was last trained", went_on.err)
        self.assertFalse(self.summary("run2")["reproducible"])
        self.assertIn("data files were changed", self.summary("run2")["reproducible_note"])
        self.assertEqual(len(json.loads((self.scratch / "run2" / "data.json").read_text())["set"]["fingerprints"]), 2)
        self.without_files()

    def without_files(self):
        (self.scratch / "prices.csv").unlink()
        self.distbelief("predict", "run", "asked.csv")
        self.distbelief("export", "run", "--to", "torchscript", "net.pt")
        self.assertIn("prices.csv", self.distbelief("eval", "run", code=1).err)
        self.assertIn("prices.csv", self.distbelief("predict", "run", "test:0", code=1).err)
        data = self.scratch / "run" / "data.json"
        text = data.read_text()
        data.write_text(text.replace("Bonn", "Rome"))
        self.assertIn("data.json': its checksum is wrong", self.distbelief("predict", "run", "asked.csv", code=2).err)
        data.unlink()  # as an earlier version left it
        self.assertIn("prices.csv", self.distbelief("predict", "run", "asked.csv", code=1).err)

    def test_photographs(self):
        for name, level in (("dark", 30), ("light", 200)):
            (self.scratch / "photos" / name).mkdir(parents=True)
            for i in range(10):
                (self.scratch / "photos" / name / f"{i}.png").write_bytes(png(24, 18, bytes([level + i]) * 24 * 18))
        self.train("run", {"model.name": "mlp", "model.hidden": [8], "data.name": "image_folder", "data.path": "photos",
                           "data.resize": 16, "data.crop": 12, "train.batch_size": 4, "train.epochs": 4}, "--workers", 1)
        (self.scratch / "photos" / "dark" / "3.png").rename(self.scratch / "asked.png")
        answers = self.distbelief("predict", "run", "asked.png").out
        self.assertIn("dark", answers)
        (self.scratch / "photos" / "a-new-class").mkdir()
        (self.scratch / "photos" / "a-new-class" / "1.png").write_bytes((self.scratch / "asked.png").read_bytes())
        self.assertIn("has a class 'a-new-class'", self.distbelief("eval", "run", code=2).err)
        (self.scratch / "photos").rename(self.scratch / "elsewhere")
        self.assertEqual(self.distbelief("predict", "run", "asked.png").out, answers)
        self.distbelief("export", "run", "--to", "torchscript", "net.pt")

    def test_trees_and_text(self):
        (self.scratch / "trees").mkdir()
        lines = ["0 (and true false)", "0 (not true)", "1 (or true false)", "1 (not false)"]
        for part, times in (("train", 24), ("test", 1)):
            (self.scratch / "trees" / f"{part}.sexp").write_text("\n".join(times * lines) + "\n")
        self.train("trees-run", {"model.name": "tree_lstm", "model.width": 16, "data.name": "s_expressions",
                                 "data.path": "trees", "train.batch_size": 16, "train.epochs": 16,
                                 "train.optimizer": "adamw", "train.lr": 0.02}, "--workers", 1)
        score = self.distbelief("eval", "trees-run").out
        self.assertIn("100.00 %", score)
        with (self.scratch / "trees" / "train.sexp").open("a") as file:
            file.write("0 (a true false)\n")  # a name before all others
        self.assertEqual(self.distbelief("eval", "trees-run").out, score)
        (self.scratch / "abc.txt").write_text("bcdebcdebcde" * 40)
        self.train("text-run", {"data.name": "text", "data.path": "abc.txt", "data.length": 8, "train.batch_size": 16,
                                "train.epochs": 2, "model.name": "gpt", "model.layers": 1, "model.width": 16,
                                "model.heads": 2}, "--workers", 1)
        said = self.distbelief("generate", "text-run", "--prompt", "bcd", "--count", 8).out
        for change in ("abcde" * 90, None):
            (self.scratch / "abc.txt").write_text(change) if change else (self.scratch / "abc.txt").unlink()
            self.assertEqual(self.distbelief("generate", "text-run", "--prompt", "bcd", "--count", 8).out, said)


class AnswerTest(UseTest):
    """Answers of models that are no classifiers say what they are."""
    ACTOR = {"model.name": "actor_critic", "model.environments": 8, "model.rollout": 8, "model.hidden": [16],
             "data.name": "cartpole", "data.samples": 32, "data.test_samples": 10, "train.batch_size": 8,
             "train.max_steps": 2}

    def answers(self, run, *inputs):
        return json.loads(self.distbelief("predict", run, *inputs, "--json").out)

    def test_an_actor_answers_with_its_action_and_a_value(self):
        self.train("one", self.ACTOR, "--workers", 1)
        (self.scratch / "states.csv").write_text("0.1,0,0.02,0\n")
        for answer in self.answers("one", "test:0", "states.csv"):
            self.assertEqual(set(answer), {"input", "action", "probabilities", "value"})
            self.assertEqual(answer["action"], max((0, 1), key=lambda i: answer["probabilities"][i]))
            self.assertAlmostEqual(sum(answer["probabilities"]), 1, places=6)
        self.assertRegex(self.distbelief("predict", "one", "test:0").out,
                         r"^test:0: action [01] \(\d+\.\d %, \d+\.\d %\), value -?[\d.e-]+\n$")
        self.train("three", {**self.ACTOR, "model.voters": 3}, "--workers", 1)
        for answer in self.answers("three", "test:0-9"):
            self.assertEqual(len(answer["votes"]), 3)
            self.assertEqual(answer["action"], max((0, 1), key=answer["votes"].count))
        self.assertRegex(self.distbelief("predict", "three", "test:0").out, r", votes [01] [01] [01]\n$")

    def test_a_discriminator_says_how_real_an_image_is(self):
        self.train("run", {**SMALL, "model.name": "dcgan", "model.latent": 6, "model.width": 4, "data.channels": 1,
                           "data.normalize": False, "train.max_steps": 2}, "--workers", 1)
        first, second, again = self.answers("run", "test:0", "test:1", "test:0")
        self.assertEqual(set(first), {"input", "real"})
        self.assertTrue(0 < first["real"] < 1)
        self.assertEqual(first, again)
        self.assertNotEqual(first["real"], second["real"])
        self.assertRegex(self.distbelief("predict", "run", "test:0").out, r"^test:0: real \(\d+\.\d %\)\n$")

    def test_tokens_that_are_hidden_are_told(self):
        self.train("run", {"model.name": "bert", "model.layers": 2, "model.width": 32, "model.heads": 4,
                           "data.name": "synthetic_tokens", "data.samples": 512, "data.test_samples": 16, "data.length": 12,
                           "data.vocabulary": 8, "train.batch_size": 16, "train.max_steps": 2}, "--workers", 1)
        (self.scratch / "asked.csv").write_text("1,2,3,?,5,6,7,0,1,2,3,4\n1,2,8,4,5,6,7,0,1,2,?,4\n")
        one, two, shown = self.answers("run", "asked.csv", "test:3")
        self.assertEqual([found["place"] for found in one["hidden"]], [3])
        self.assertEqual(one["classes"], one["hidden"][0]["classes"])
        self.assertEqual([found["place"] for found in two["hidden"]], [2, 10])
        self.assertEqual([found["place"] for found in shown["hidden"]], [3, 10])
        self.assertTrue(all(found["truth"]["class"] < 8 and len(found["classes"]) == 3 for found in shown["hidden"]))
        self.assertRegex(self.distbelief("predict", "run", "test:3", "--top", 1).out,
                         r"^test:3: place 3, which is \d: \d \(\d+\.\d %\); place 10, which is \d: \d \(\d+\.\d %\)\n$")
        (self.scratch / "shown.csv").write_text("1,2,3,4,5,6,7,0,1,2,3,4\n")
        self.assertIn("write ? in place of one", self.distbelief("predict", "run", "shown.csv", code=2).err)


class TorchScriptTest(UseTest):
    JOB = {"model.name": "torchscript", "model.file": "net.pt", "data.train_limit": 1024, "data.test_limit": 1000,
           "train.epochs": 2, "train.batch_size": 32, "parallel.lanes": 2, "train.lr": 0.02}

    def setUp(self):
        super().setUp()
        exported.export(self, "net.pt")

    def test_trained_here_and_loaded_there(self):
        two = self.train("two", self.JOB, "--workers", 2)
        self.assertGreater(two["test_accuracy"], 0.6)
        one = self.train("one", self.JOB, "--workers", 1)
        lost = self.train("lost", self.JOB, "--workers", 2, "--inject", "kill:rank=1,step=20")
        self.assertEqual(lost["recoveries"], 1)
        self.assertEqual({one["weights_sha256"], lost["weights_sha256"]}, {two["weights_sha256"]})
        tensors, _ = read_safetensors.read(self.scratch / "two" / "model.safetensors")
        self.assertEqual(sorted(tensors), sorted([
            "features.0.bias", "features.0.weight", "features.1.bias", "features.1.num_batches_tracked",
            "features.1.running_mean", "features.1.running_var", "features.1.weight", "head.bias", "head.weight",
            "scale"]))
        (self.scratch / "net.pt").unlink()  # the run has its own
        self.distbelief("export", "two", "--to", "torchscript", "back.pt")
        accuracy = self.python("""
            import gzip, numpy, pathlib, sys, torch
            data = pathlib.Path(sys.argv[1])
            pixels = numpy.frombuffer(gzip.decompress((data / "t10k-images-idx3-ubyte.gz").read_bytes()), numpy.uint8, offset=16)
            labels = numpy.frombuffer(gzip.decompress((data / "t10k-labels-idx1-ubyte.gz").read_bytes()), numpy.uint8, offset=8)
            images = (torch.from_numpy(pixels[:784000].reshape(1000, 1, 28, 28) / 255.0).float() - 0.2860) / 0.3530
            net = torch.jit.load("back.pt")
            assert not net.training
            print((net(images).argmax(1).numpy() == labels[:1000]).mean())
            net.train()
            """, DATA)
        self.assertAlmostEqual(float(accuracy), two["test_accuracy"], places=4)
        self.goes_on_elsewhere(two)

    def goes_on_elsewhere(self, trained):
        (self.scratch / "two").rename(self.scratch / "moved")
        more = {"train.epochs": 3}
        self.distbelief("resume", "moved", *program.settings(more))
        self.assertEqual(self.summary("moved")["epochs"], 3)
        self.assertNotEqual(self.summary("moved")["weights_sha256"], trained["weights_sha256"])

    def test_what_is_no_network_is_refused(self):
        (self.scratch / "bad.pt").write_text("nothing")
        job = {**self.JOB, "model.file": "bad.pt"}
        self.assertIn("bad.pt as TorchScript", self.distbelief("train", *program.settings(job), code=2).err)
        self.distbelief("check", program.SOURCE / "examples" / "jobs" / "torchscript.toml")
        self.assertIn("option 'file'", self.distbelief("check", "--set", "model.name=torchscript", code=2).err)


class MoreTorchScriptTest(TorchScriptTest):
    def test_shares_of_it_make_the_same_network(self):
        job = {**self.JOB, "train.max_steps": 12, "train.epochs": 0, "data.test_limit": 100}
        wanted = self.train("whole", job, "--workers", 2)["weights_sha256"]
        for zero in (2, 3):
            shared = self.train(f"zero{zero}", {**job, "parallel.zero": zero}, "--workers", 2)
            self.assertEqual((shared["zero"], shared["weights_sha256"]), (zero, wanted))
        self.distbelief("export", "zero3", "--to", "torchscript", "back.pt")
        self.assertEqual(self.python("""
            import torch
            print(tuple(torch.jit.load("back.pt")(torch.zeros(3, 1, 28, 28)).shape))
            """), "(3, 10)\n")


if __name__ == "__main__":
    program.main()
