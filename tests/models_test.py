"""Every kind of model learns: with two workers, to the bits that one has, and on held-out data above a baseline."""
import json
import math
import tomllib

import exported
import program
from program import settings

SMALL = {"train.epochs": 2, "train.batch_size": 8, "parallel.lanes": 4, "report.interval_seconds": 0.0,
         "train.lr": 0.003, "train.optimizer": "adam"}
IMAGES = {**SMALL, "data.name": "synthetic", "data.samples": 27, "data.test_samples": 16, "data.height": 16,
          "data.width": 16}
TOKENS = {**SMALL, "data.name": "synthetic_tokens", "data.samples": 27, "data.test_samples": 16, "data.length": 12,
          "data.vocabulary": 16}
TABLE = {**SMALL, "data.name": "synthetic_table", "data.samples": 51, "data.test_samples": 70}

LENET = {**IMAGES, "model.name": "lenet"}
WIDE_RESNET = {**IMAGES, "model.name": "wide_resnet", "model.depth": 10, "model.widths": [4, 8, 16], "model.factor": 2}
AUTOENCODER = {**IMAGES, "model.name": "autoencoder", "model.hidden": [32], "model.code": 4}
CONVOLUTION_AUTOENCODER = {**AUTOENCODER, "model.layers": "convolution", "model.hidden": [4, 8]}
VAE = {**AUTOENCODER, "model.name": "vae"}
CONVOLUTION_VAE = {**CONVOLUTION_AUTOENCODER, "model.name": "vae"}
UNET = {**SMALL, "model.name": "unet", "model.width": 4, "data.name": "synthetic_shapes", "data.samples": 27,
        "data.test_samples": 8, "data.size": 16}
CLASSES = {**TABLE, "model.name": "wide_and_deep"}
VALUES = {**TABLE, "model.name": "wide_and_deep", "data.target": "value"}
BERT = {**TOKENS, "model.name": "bert", "model.layers": 2, "model.width": 32, "model.heads": 4, "model.dropout": 0.1}
LSTM = {**TOKENS, "model.name": "lstm", "model.width": 16, "model.streams": 8, "data.order": "streams"}
GRU = {**LSTM, "model.name": "gru"}
DCGAN = {**IMAGES, "model.name": "dcgan", "model.latent": 8, "model.width": 4, "data.normalize": False}
SPEECH = {**SMALL, "model.name": "frame_lstm", "model.width": 8, "data.name": "synthetic_speech", "data.samples": 27,
          "data.test_samples": 16}
LOGIC = {**SMALL, "model.name": "tree_lstm", "model.width": 8, "data.name": "synthetic_logic", "data.samples": 27,
         "data.test_samples": 16, "data.nodes": 7}
ACTOR = {**SMALL, "model.name": "actor_critic", "model.environments": 8, "model.rollout": 8, "model.hidden": [16],
         "data.name": "cartpole", "data.samples": 32, "data.test_samples": 10}
FBNET = {**IMAGES, "model.name": "fbnet", "model.stem": 4, "model.widths": [4, 6], "model.depth": 2,
         "model.architecture": "k3_e1 skip k5_e3_g2 k3_e1_g2"}
SEARCH = {**IMAGES, "model.name": "fbnet_search", "model.stem": 4, "model.widths": [4, 6], "model.depth": 2,
          "model.latencies": [90, 80, 200, 180, 110, 100, 260, 240, 0] * 2 + [50, 45, 90, 85, 60, 55, 120, 110] +
                             [40, 35, 70, 65, 50, 45, 90, 85, 0]}
GRID_WORLD = {**ACTOR, "data.name": "grid_world"}
FEW_LABELS = {**IMAGES, "model.name": "cnn", "train.task": "few_labels", "train.labelled": 0.5}


class ModelsTest(program.ProgramTest):
    def trained(self, job, workers=1, *arguments, **changes):
        self.runs = getattr(self, "runs", 0) + 1
        return self.train(f"run{self.runs}", {**job, **changes}, "--workers", workers, *arguments)

    def assert_same_bits(self, job, metrics):
        one, two = self.trained(job, 1), self.trained(job, 2)
        self.assertEqual(one["weights_sha256"], two["weights_sha256"])
        self.assertEqual(one["test_loss"], two["test_loss"])
        self.assertEqual(one["test_metrics"], two["test_metrics"])
        self.assertEqual(set(one["test_metrics"]), set(metrics))
        return one


class SameBitsTest(ModelsTest):
    def test_unet(self):
        self.assert_same_bits(UNET, {"accuracy", "iou", "f1"})

    def test_two_networks_and_two_backwards(self):
        self.assert_same_bits(DCGAN, {"moment_distance", "real_recognised", "generated_recognised"})

    def test_two_learning_rates(self):
        import read_safetensors  # wants numpy, which a build that lists these tests may not have
        step = {**DCGAN, "train.epochs": 0, "train.max_steps": 1}
        one = self.trained(step, **{"train.lr_discriminator": step["train.lr"]})
        self.assertEqual(one["weights_sha256"], self.trained(step, 2)["weights_sha256"], "0 means the same")
        self.trained(step, 2, **{"train.lr_discriminator": 0.0005})
        before, after = (read_safetensors.read(self.scratch / run / "model.safetensors")[0] for run in ("run2", "run3"))
        for name in (name for name in before if name.endswith(".weight")):
            moved = not (before[name] == after[name]).all()
            self.assertEqual(moved, name.startswith("discriminator."), name)

    def test_labels_in_order_and_trees(self):
        self.assert_same_bits(SPEECH, {"label_error"})
        self.assert_same_bits(LOGIC, {"accuracy", "f1", "auc"})

    def test_environments(self):
        self.assert_same_bits(ACTOR, {"mean_return"})
        self.assert_same_bits(GRID_WORLD, {"mean_return"})

    def test_few_labels(self):
        self.assert_same_bits(FEW_LABELS, {"accuracy", "top5", "f1"})
        self.assert_same_bits({**FEW_LABELS, "train.unlabelled": False}, {"accuracy", "top5", "f1"})


class MoreSameBitsTest(ModelsTest):
    def test_convolutional(self):
        self.assert_same_bits(LENET, {"accuracy", "top5", "f1"})
        self.assert_same_bits(WIDE_RESNET, {"accuracy", "top5", "f1"})

    def test_autoencoders(self):
        for job in (AUTOENCODER, CONVOLUTION_AUTOENCODER, VAE, CONVOLUTION_VAE):
            summary = self.assert_same_bits(job, {"rmse", "cluster_purity"})
            self.assertIsNone(summary["test_accuracy"])

    def test_tables(self):
        self.assert_same_bits(CLASSES, {"accuracy", "f1", "auc"})
        self.assert_same_bits(VALUES, {"rmse", "mae"})

    def test_masked_tokens(self):
        self.assert_same_bits(BERT, {"accuracy", "perplexity"})

    def test_environments_on_threads_and_with_votes(self):
        voted = self.assert_same_bits({**ACTOR, "model.voters": 3}, {"mean_return"})
        threaded = self.trained({**ACTOR, "model.voters": 3}, 1, **{"parallel.threads": 2})
        self.assertEqual(threaded["weights_sha256"], voted["weights_sha256"])

    def test_chosen_blocks(self):
        self.assert_same_bits(FBNET, {"accuracy", "top5", "f1"})


class CarriedStateTest(ModelsTest):
    def test_lanes_carry_their_state_to_the_same_bits_on_any_number_of_workers(self):
        for job in (LSTM, GRU):
            whole = self.assert_same_bits(job, {"accuracy", "top5", "perplexity"})
            other = self.trained({**job, "model.streams": 0})
            self.assertNotEqual(other["weights_sha256"], whole["weights_sha256"], "the state has no effect")

    def test_and_in_a_pipeline_and_after_a_kill(self):
        whole = self.trained(LSTM)
        cut = self.trained(LSTM, 2, **{"parallel.pipeline": 2})
        self.assertEqual(cut["pipeline"], 2)
        self.assertEqual(cut["weights_sha256"], whole["weights_sha256"])
        self.assertEqual(cut["test_metrics"], whole["test_metrics"], "validation reads on in every stage")
        killed = self.trained(LSTM, 2, "--inject", "kill:rank=1,step=5")
        self.assertEqual(killed["recoveries"], 1)
        self.assertEqual(killed["weights_sha256"], whole["weights_sha256"])

    def test_streams_that_are_not_the_batch_are_refused(self):
        run = self.distbelief("train", "--run-dir", "r", *settings({**LSTM, "model.streams": 4}), "--workers", 1, code=2)
        self.assertIn("model.streams", run.err)
        run = self.distbelief("train", "--run-dir", "r", *settings({**LSTM, "data.order": "shuffled"}), "--workers", 1,
                              code=2)
        self.assertIn("data.order", run.err)
        text = {key: value for key, value in LSTM.items() if not key.startswith("data.")}
        overlapping = {**text, "data.order": "streams", "data.name": "text", "data.length": 32, "data.stride": 8,
                       "data.path": "/usr/share/common-licenses/GPL-3"}
        run = self.distbelief("train", "--run-dir", "r", *settings(overlapping), "--workers", 1, code=2)
        self.assertIn("leave data.stride out", run.err)
        apart = {**overlapping, "data.stride": 64}
        self.assertIn("leave data.stride out",
                      self.distbelief("train", "--run-dir", "r", *settings(apart), "--workers", 1, code=2).err)
        alone = {**overlapping, "data.stride": 0, "data.level": "sentences"}
        self.assertIn("stand alone", self.distbelief("train", "--run-dir", "r", *settings(alone), "--workers", 1, code=2).err)
        for stride, told in ((8, "repeats most"), (64, "a gap between")):
            packed = self.scratch / f"packed{stride}"
            self.distbelief("data", "pack", "text", packed, "--data-dir", overlapping["data.path"],
                            *settings({"data.length": 32, "data.stride": stride}))
            job = {**text, "data.order": "streams", "data.name": "packed", "data.path": str(packed)}
            self.assertIn(told, self.distbelief("train", "--run-dir", "r", *settings(job), "--workers", 1, code=2).err)


class CarriedTextTest(ModelsTest):
    LENGTH, STREAMS, WIDTH = 8, 8, 16

    def state_after(self, weights, text):
        """What both layers hold after these bytes: output and cell of each."""
        import numpy  # which a build that lists these tests may not have
        inputs = [weights["tok.weight"][byte] for byte in text]
        states = []
        for layer in range(2):
            w_in, w_state, b_in, b_state = (weights[f"layers.{layer}.rnn.{kind}_l0"]
                                            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            output = cell = numpy.zeros(self.WIDTH)
            outputs = []
            for value in inputs:
                i, f, g, o = numpy.split(w_in @ value + b_in + w_state @ output + b_state, 4)
                i, f, o = (1 / (1 + numpy.exp(-gate)) for gate in (i, f, o))
                cell = f * cell + i * numpy.tanh(g)
                output = o * numpy.tanh(cell)
                outputs.append(output)
            states.append(numpy.concatenate([output, cell]))
            inputs = outputs
        return states

    def test_each_place_holds_the_state_after_its_own_part_of_the_text(self):
        import numpy
        import read_safetensors
        text = bytes(97 + (i * i + i // 7) % 26 for i in range(800))
        (self.scratch / "text").write_bytes(text)
        job = {**LSTM, "data.name": "text", "data.path": "text", "data.level": "bytes", "data.length": self.LENGTH,
               "model.width": self.WIDTH, "train.optimizer": "sgd", "train.lr": 1e-30, "train.max_steps": 3}
        for key in ("data.samples", "data.test_samples", "data.vocabulary"):
            del job[key]
        self.trained(job, 2)
        weights, _ = read_safetensors.read(self.scratch / "run1" / "model.safetensors")
        samples = (int(len(text) * 0.9) - 1 - self.LENGTH) // self.LENGTH + 1
        for place in range(self.STREAMS):
            begin = place * (samples // self.STREAMS) * self.LENGTH
            wanted = self.state_after(weights, text[begin:begin + 3 * self.LENGTH])
            for layer in range(2):
                found = weights[f"layers.{layer}.state.rows"][place]
                self.assertTrue(numpy.allclose(found, wanted[layer], rtol=1e-4, atol=1e-5), (place, layer))


class PipelineTest(ModelsTest):
    def test_new_models_are_cut_to_the_same_bits(self):
        for job in (UNET, BERT, VAE):
            with self.subTest(model=job["model.name"]):
                whole = self.trained(job)
                cut = self.trained(job, 2, **{"parallel.pipeline": 2})
                self.assertEqual(cut["pipeline"], 2)
                self.assertEqual(cut["weights_sha256"], whole["weights_sha256"])
                self.assertEqual(cut["test_metrics"], whole["test_metrics"])

    def test_adversaries_are_not(self):
        run = self.distbelief("train", "--run-dir", "r", *settings({**DCGAN, "parallel.pipeline": 2}), "--workers", 2,
                              code=2)
        self.assertIn("parallel.pipeline", run.err)


class ArchitectureSearchTest(ModelsTest):
    def test_a_search_has_the_same_bits_and_leaves_a_job_that_trains(self):
        self.assert_same_bits(SEARCH, {"accuracy", "top5", "f1", "latency_share"})
        found = tomllib.loads((self.scratch / "run1" / "found.toml").read_text())
        self.assertEqual(found["model"]["name"], "fbnet")
        self.assertEqual(len(found["model"]["architecture"].split()), 4)
        shown = self.distbelief("train", "run1/found.toml", "--run-dir", "found").out
        self.assertIn("run folder: found", shown)
        self.assertEqual(self.summary("found")["steps"], 8)

    def test_a_heavy_latency_finds_the_fastest(self):
        job = {**SEARCH, "model.latency_weight": 1000.0, "train.epochs": 6, "train.lr": 0.1}
        self.trained(job)
        found = tomllib.loads((self.scratch / "run1" / "found.toml").read_text())
        self.assertEqual(found["model"]["architecture"], "skip skip k3_e1_g2 skip")
        self.assertEqual(self.summary("run1")["test_metrics"]["latency_share"], 45 / (2 * 260 + 120 + 90))

    def test_costs_that_are_counted_are_the_same_for_every_run(self):
        job = {key: value for key, value in SEARCH.items() if key != "model.latencies"}
        first, again = self.trained(job), self.trained(job, 2)
        self.assertEqual(again["weights_sha256"], first["weights_sha256"])
        self.assertEqual(again["test_metrics"], first["test_metrics"])
        self.assertTrue(first["reproducible"])
        self.assertNotIn("model.latencies", first["reproducible_note"])

    def test_what_was_measured_stays_with_the_run(self):
        job = {**SEARCH, "model.costs": "measured"}
        del job["model.latencies"]
        first = self.trained(job)
        written = tomllib.loads((self.scratch / "run1" / "job.toml").read_text())
        self.assertEqual(len(written["model"]["latencies"]), 9 + 9 + 8 + 9)
        self.assertIn("model.latencies that job.toml has", first["reproducible_note"])
        self.distbelief("train", "run1/job.toml", "--run-dir", "again", "--workers", 2)
        self.assertEqual(self.summary("again")["weights_sha256"], first["weights_sha256"])

    def test_under_a_launcher_nothing_is_measured(self):
        job = {**SEARCH, "model.costs": "measured"}
        del job["model.latencies"]
        run = self.command(*program.mpirun(2), program.PROGRAM, "train", "--run-dir", "r", *settings(job), code=2)
        self.assertIn("model.latencies", run.err)


class GenerateTest(ModelsTest):
    GPT = {**TOKENS, "model.name": "gpt", "model.layers": 1, "model.width": 32, "model.heads": 2,
           "data.vocabulary": 256}

    def generated(self, *arguments):
        return json.loads(self.distbelief("generate", "run1", "--json", *arguments).out)["tokens"]

    def test_a_prompt_is_continued_by_seed_temperature_and_the_likeliest(self):
        self.trained(self.GPT)
        first = self.generated("--tokens", "1,2,3", "--count", 30)
        self.assertEqual(len(first), 30)
        self.assertEqual(first, self.generated("--tokens", "1,2,3", "--count", 30))
        self.assertNotEqual(first, self.generated("--tokens", "1,2,3", "--count", 30, "--seed", 2))
        likeliest = self.generated("--prompt", "\1\2\3", "--count", 30, "--temperature", 0)
        self.assertEqual(likeliest, self.generated("--tokens", "1,2,3", "--count", 30, "--top-k", 1, "--seed", 7))
        refused = self.distbelief("generate", "run1", code=2)
        self.assertIn("--prompt", refused.err)

    def test_text_is_continued_in_its_own_characters(self):
        (self.scratch / "text.txt").write_text("\u00fcber den wolken, unter dem meer. " * 60)
        job = {**self.GPT, "data.name": "text", "data.path": str(self.scratch / "text.txt"),
               "data.level": "characters", "train.epochs": 8, "train.lr": 0.01}
        for key in ("data.samples", "data.test_samples", "data.vocabulary"):
            del job[key]
        self.trained(job)
        shown = self.distbelief("generate", "run1", "--prompt", "\u00fcber ", "--count", 20, "--temperature", 0).out
        self.assertTrue(shown.startswith("\u00fcber "), shown)
        self.assertEqual(len(shown), len("\u00fcber ") + 20 + 1)
        self.assertLessEqual(set(shown[:-1]), set("\u00fcber den wolken, unter dem meer. "))
        answer = json.loads(self.distbelief("generate", "run1", "--prompt", "\u00fcber ", "--count", 20, "--json",
                                            "--temperature", 0).out)
        self.assertEqual(answer["text"], shown[5:-1])
        self.assertEqual(len(answer["tokens"]), 20)

    def test_a_sheet_of_samples_is_a_png(self):
        self.trained(DCGAN)
        self.distbelief("generate", "run1", "--count", 12)
        sheet = (self.scratch / "run1" / "samples.png").read_bytes()
        self.assertEqual(sheet[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual((int.from_bytes(sheet[16:20], "big"), int.from_bytes(sheet[20:24], "big")),
                         (8 * 18 - 2, 2 * 18 - 2))
        self.assertIn("generates nothing", self.trained_refusal())

    def trained_refusal(self):
        self.trained(LENET)
        return self.distbelief("generate", "run2", code=2).err


ANY_WORKERS = {"lenet": LENET, "wide_resnet": WIDE_RESNET, "unet": UNET, "autoencoder": AUTOENCODER,
               "autoencoder_convolutions": CONVOLUTION_AUTOENCODER, "vae": VAE,
               "vae_convolutions": CONVOLUTION_VAE, "table_classes": CLASSES,
               "table_values": VALUES, "bert": BERT, "lstm": LSTM, "gru": GRU, "dcgan": DCGAN, "speech": SPEECH,
               "logic": LOGIC, "cartpole": ACTOR, "grid_world": GRID_WORLD, "election": {**ACTOR, "model.voters": 3},
               "few_labels": FEW_LABELS, "fbnet": FBNET, "fbnet_search": SEARCH}


class EveryKindTest(ModelsTest):
    """What no other test but HeldOutTest trains from its start to its end, in seconds."""

    def test_two_steps_and_a_validation(self):
        for name in ("lenet", "wide_resnet", "autoencoder", "autoencoder_convolutions", "vae_convolutions", "table_classes",
                     "table_values", "lstm", "gru", "fbnet", "fbnet_search", "few_labels"):
            with self.subTest(name):
                found = self.trained(ANY_WORKERS[name], **{"train.max_steps": 2})
                self.assertEqual((found["status"], found["steps"]), ("done", 2))
                numbers = (found["final_train_loss"], found["test_loss"], *found["test_metrics"].values())
                self.assertTrue(all(map(math.isfinite, numbers)), found)


class AnyWorkersTest(ModelsTest):
    """Every kind of model has the same bits at 1 to 4 workers; a test for each of ANY_WORKERS is added below."""

    def test_network_from_python(self):
        exported.export(self, "net.pt")
        self.assert_one_result({**IMAGES, "model.name": "torchscript", "model.file": "net.pt", "data.height": 28,
                                "data.width": 28})

    def assert_one_result(self, job):
        found = {self.trained(job, workers)["weights_sha256"] for workers in (1, 2, 3, 4)}
        self.assertEqual(len(found), 1)


for _name, _job in ANY_WORKERS.items():
    setattr(AnyWorkersTest, f"test_{_name}", lambda self, job=_job: self.assert_one_result(job))


RISK = {"data.path": str(program.SOURCE / "examples" / "data" / "risk.csv")}
RENTS = {"data.path": str(program.SOURCE / "examples" / "data" / "rents.csv")}
# In place of a baseline: what the same network has before its first step. Random layers keep much of what images are: groups
# of their codes agree with classes far better than chance does.
UNTRAINED = None
# What a test set's metric is without looking at the samples, and by how much three seeds must beat it.
MARGINS = {
    # job file, and in what way: metric, baseline, must be (above: +, below: -) it by, changes that keep the test short
    "mnist_lenet": ("accuracy", 0.10, 0.60, {"data.name": "fashion_mnist", "data.train_limit": 12000,  # is installed
                                             "data.test_limit": 2000, "train.epochs": 2}),
    "fashion_mnist_wide_resnet": ("accuracy", 0.10, 0.60, {"data.train_limit": 6000, "data.test_limit": 2000,
                                                          "train.epochs": 2, "train.batch_size": 64}),
    "fashion_mnist_autoencoder": ("cluster_purity", UNTRAINED, 0.10, {"data.train_limit": 12000, "train.epochs": 3}),
    "fashion_mnist_autoencoder convolutions": ("cluster_purity", UNTRAINED, 0.02, {
        "model.layers": "convolution", "model.hidden": [16, 32], "data.train_limit": 6000, "data.test_limit": 2000,
        "train.epochs": 3}),
    "fashion_mnist_vae": ("cluster_purity", UNTRAINED, 0.02, {"data.train_limit": 6000, "data.test_limit": 2000,
                                                             "train.epochs": 3}),
    "shapes_unet": ("iou", 0.25, 0.40, {}),
    "table_classes_wide_and_deep": ("auc", 0.5, 0.40, {"data.samples": 8000}),
    "table_values_wide_and_deep": ("rmse", 0.94, -0.60, {"data.samples": 8000}),
    "csv_mlp": ("auc", 0.5, 0.35, RISK),
    "csv_classes_wide_and_deep": ("auc", 0.5, 0.35, RISK),
    "csv_values_wide_and_deep": ("rmse", 355, -160, RENTS),
    "tokens_bert": ("accuracy", 0.03125, 0.30, {}),
    "tokens_lstm": ("perplexity", 32, -20, {}),
    "tokens_gru": ("perplexity", 32, -20, {}),
    "speech_ctc": ("label_error", 1.0, -0.80, {"data.samples": 2000}),
    "logic_tree_lstm": ("accuracy", 0.55, 0.30, {}),
    "cartpole_actor_critic": ("mean_return", 22, 453, {}),
    "cartpole_election": ("mean_return", 22, 400, {}),
    "fashion_mnist_fbnet": ("accuracy", 0.10, 0.60, {"data.train_limit": 12000, "data.test_limit": 2000,
                                                    "train.epochs": 2}),
    "grid_world_actor_critic": ("mean_return", -0.31, 1.0, {}),
    "fashion_mnist_dcgan": ("moment_distance", 1.0, -0.5, {"data.train_limit": 12000, "data.test_limit": 2000,
                                                          "train.epochs": 4}),
    "text_gpt": ("perplexity", 33.1, -15.0, {"train.epochs": 3}),
    "torchscript": ("accuracy", 0.10, 0.50, {"model.file": "net.pt", "data.train_limit": 6000, "data.test_limit": 2000,
                                            "train.epochs": 2, "train.batch_size": 64}),
}
# A second metric of the same runs. An autoencoder that gave the training images' mean for every test image would have an
# rmse of 0.83, of pixels in deviations.
MORE_MARGINS = {
    "fashion_mnist_autoencoder": [("rmse", 0.83, -0.25)],
    "fashion_mnist_autoencoder convolutions": [("rmse", 0.83, -0.10)],
    "fashion_mnist_vae": [("rmse", 0.83, -0.10)],
}


CARRIED_MARGIN = 1.5  # of perplexity


def listed(values):
    return ", ".join(f"{value:.4f}" for value in values)


class DefaultJobTest(ModelsTest):
    def test_it_learns_what_the_quick_start_promises(self):
        self.distbelief("train", "--run-dir", self.scratch / "run", "--workers", 2, within=1500)
        accuracy = self.summary("run")["test_accuracy"]
        print(f"the default job: accuracy {accuracy:.4f} after {self.summary('run')['epochs']} epochs", flush=True)
        self.assertGreaterEqual(accuracy, 0.915)


class HeldOutTest(ModelsTest):
    """Three seeds, two workers, the job files of examples/jobs; a test for each of MARGINS is added below."""

    def job(self, name):
        return program.SOURCE / "examples" / "jobs" / f"{name}.toml"

    def scored(self, name, seed, changes, note=""):
        folder = f"{name}{note}-{seed}"
        trained = self.distbelief("train", self.job(name), "--run-dir", self.scratch / folder, "--workers", 2,
                                  *settings({**changes, "train.seed": seed}), within=900)
        self.seconds = getattr(self, "seconds", 0) + trained.seconds
        return json.loads(self.distbelief("eval", folder, "--json").out)["test_metrics"]

    def beats_its_baseline(self, name):
        *first, changes = MARGINS[name]
        if "model.file" in changes:
            exported.export(self, changes["model.file"])
        scores = [self.scored(name.split()[0], seed, changes) for seed in (1, 2, 3)]
        for metric, baseline, margin in [first] + MORE_MARGINS.get(name, []):
            found = [score[metric] for score in scores]
            baselines = [baseline] * 3
            if baseline is UNTRAINED:
                still = {**changes, "train.lr": 1e-30, "train.epochs": 0, "train.max_steps": 1}
                baselines = [self.scored(name.split()[0], seed, still, "-untrained")[metric] for seed in (1, 2, 3)]
            print(f"{name}: {metric} {listed(found)}; baseline {listed(baselines)}, margin {margin}; {self.seconds:.0f} s",
                  flush=True)
            for value, trivial in zip(found, baselines):
                if margin > 0:
                    self.assertGreater(value, trivial + margin)
                else:
                    self.assertLess(value, trivial + margin)

    def beats_itself_without_state(self, name):
        """The same samples in the same order, each from zeros: what is in the state is worth the margin."""
        for seed in (1, 2, 3):
            carried = self.scored(name, seed, {})["perplexity"]
            fresh = self.scored(name, seed, {"model.streams": 0}, "-fresh")["perplexity"]
            print(f"{name} seed {seed}: perplexity {carried:.3f}, from zeros {fresh:.3f}; {self.seconds:.0f} s", flush=True)
            self.assertLess(carried, fresh - CARRIED_MARGIN)
            self.assertLess(carried, 33.1 - 20)  # by the frequency of characters

    def test_text_lstm(self):
        self.beats_itself_without_state("text_lstm")

    def test_text_gru(self):
        self.beats_itself_without_state("text_gru")

    def test_searched_architectures_are_faster_than_the_slowest_and_learn(self):
        name = "fashion_mnist_fbnet_search"
        limits = {"data.train_limit": 6000, "data.test_limit": 2000, "train.batch_size": 64, "train.epochs": 2,
                  "model.temperature": 2.0, "model.cooling": 0.98}
        for seed in (1, 2, 3):
            searched = self.scored(name, seed, limits)
            found = self.scratch / f"{name}-{seed}" / "found.toml"
            self.distbelief("train", found, "--run-dir", f"found-{seed}", "--workers", 2,
                            "--set", "train.epochs=4", within=900)
            trained = self.summary(f"found-{seed}")["test_metrics"]
            print(f"{name} seed {seed}: {tomllib.loads(found.read_text())['model']['architecture']}; accuracy "
                  f"{searched['accuracy']:.4f} in the search, {trained['accuracy']:.4f} by itself; latency "
                  f"{searched['latency_share']:.3f} of the slowest; {self.seconds:.0f} s", flush=True)
            self.assertGreater(trained["accuracy"], 0.10 + 0.50)
            self.assertLess(searched["latency_share"], 1.0 - 0.3)

    def test_few_labels_beat_the_labels_alone(self):
        name = "fashion_mnist_few_labels"
        for seed in (1, 2, 3):
            with_others = self.scored(name, seed, {})["accuracy"]
            labels_alone = self.scored(name, seed, {"train.unlabelled": False}, "-alone")["accuracy"]
            print(f"{name} seed {seed}: {with_others:.4f}, labels alone {labels_alone:.4f}; {self.seconds:.0f} s",
                  flush=True)
            self.assertGreater(with_others, labels_alone + 0.005)


for _name in MARGINS:
    setattr(HeldOutTest, f"test_{_name.replace(' ', '_')}", lambda self, name=_name: self.beats_its_baseline(name))


if __name__ == "__main__":
    program.main()
