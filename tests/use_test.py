"""Using what was trained: predict, export, --init, and networks that come from Python and go back there."""
import gzip
import importlib.util
import json
import pathlib
import sys
import textwrap

import program
import read_safetensors
from program import RESNET

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
SMALL = {**RESNET, "model.name": "cnn"}
STILL = {"train.lr": 1e-30, "train.max_steps": 1, "train.epochs": 0, "train.momentum": 0.0}


def has_torch():
    return importlib.util.find_spec("torch") is not None


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
        nothing = self.distbelief("train", *program.settings({**RESNET, **STILL}), "--init", "out.safetensors",
                                  "--init-partial", code=2).err
        self.assertIn("is it a file of another network?", nothing)

    def test_python_loads_them(self):
        if not has_torch():
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


class PredictTest(UseTest):
    def test_files_rows_and_test_samples_get_the_same_answers(self):
        self.train("run", {"model.name": "mlp", "model.hidden": [16], "data.train_limit": 512, "data.test_limit": 64,
                           "train.epochs": 2, "train.batch_size": 32}, "--workers", 2)
        wanted = json.loads((self.scratch / "run" / "predictions.json").read_text())["first"][:4]
        pixels = gzip.decompress((DATA / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
        images = [pixels[784 * i:784 * (i + 1)] for i in range(4)]
        (self.scratch / "rows.csv").write_text("\n".join(
            [",".join(f"p{i}" for i in range(784))] + [",".join(map(str, image)) for image in images]) + "\n")
        for i, image in enumerate(images):
            (self.scratch / f"{i}.pgm").write_bytes(b"P5\n# a comment\n28 28\n255\n" + image)
            (self.scratch / f"{i}.ppm").write_bytes(b"P6 56 56 255\n" + self.doubled(image))
        for given in (["test:0-3"], ["rows.csv"], [f"{i}.pgm" for i in range(4)], [f"{i}.ppm" for i in range(4)]):
            answers = json.loads(self.distbelief("predict", "run", *given, "--json", "--top", 2).out)
            self.assertEqual([answer["classes"][0]["class"] for answer in answers],
                             [sample["predicted"] for sample in wanted], given)
            for answer, sample in zip(answers, wanted):
                self.assertEqual(len(answer["classes"]), 2)
                self.assertAlmostEqual(answer["classes"][0]["probability"], sample["probability"], places=5)
        self.assertRegex(self.distbelief("predict", "run", "test:0").out, r"^test:0: \d \(\d+\.\d %\), \d ")
        self.refusals()

    def doubled(self, image):
        rows = [image[28 * y:28 * (y + 1)] for y in range(28)]
        return b"".join(bytes([value]) * 6 for y in range(56) for value in rows[y // 2])

    def refusals(self):
        for name, data, expected in (("short.pgm", b"P5 28 28 255\n" + bytes(7), "its header wants"),
                                     ("bomb.ppm", b"P6 99999999 99999999 255\n", "claims 99999999 x 99999999 pixels"),
                                     ("few.csv", b"1,2,3\n", "3 numbers; this network takes 784"),
                                     ("words.csv", b"a,b\nc,d\n", "words.csv:2: a field is no number")):
            (self.scratch / name).write_bytes(data)
            self.assertIn(expected, self.distbelief("predict", "run", name, code=2).err)
        self.assertIn("numbers from 0 to 63", self.distbelief("predict", "run", "test:64", code=2).err)


class TorchScriptTest(UseTest):
    JOB = {"model.name": "torchscript", "model.file": "net.pt", "data.train_limit": 1024, "data.test_limit": 1000,
           "train.epochs": 2, "train.batch_size": 32, "parallel.lanes": 2, "train.lr": 0.02}

    def setUp(self):
        super().setUp()
        if not has_torch():
            program.cannot("export networks in Python: there is no python3-torch")
        self.python("""
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
            torch.jit.script(Net()).save("net.pt")
            """)

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


if __name__ == "__main__":
    program.main()
