"""Small networks, each with generated data that fits it: a step takes milliseconds."""

IMAGES = {"data.name": "synthetic", "data.samples": 41, "data.test_samples": 19, "data.height": 16, "data.width": 16,
          "data.classes": 4}
SMALL_IMAGES = {**IMAGES, "data.height": 8, "data.width": 8}
COLOURS = {**IMAGES, "data.channels": 3, "data.samples": 21}
TOKENS = {"data.name": "synthetic_tokens", "data.samples": 37, "data.test_samples": 17, "data.length": 12,
          "data.vocabulary": 24}
STREAMS = {**TOKENS, "data.order": "streams", "train.batch_size": 8, "model.streams": 8, "train.optimizer": "adam"}
TABLE = {"data.name": "synthetic_table", "data.samples": 61, "data.test_samples": 29}
TEXT = {"data.name": "text", "data.path": "words.txt", "data.level": "sentences", "data.length": 12, "data.words": 60}
SEARCHED = {"model.stem": 4, "model.widths": [4, 6], "model.depth": 2}

# Times that are given, not measured: nanoseconds of the nine candidates of each layer (eight where none can be skipped).
LATENCIES = [90, 80, 200, 180, 110, 100, 260, 240, 0] * 2 + [50, 45, 90, 85, 60, 55, 120, 110] + \
            [40, 35, 70, 65, 50, 45, 90, 85, 0]

# By model, each with how often it is drawn and its variants.
NETWORKS = {
    "mlp": (4, [{**SMALL_IMAGES, "model.hidden": [24, 32, 16]},
                {**SMALL_IMAGES, "model.hidden": [32], "model.dropout": 0.2}, {**TABLE, "model.hidden": [16, 8]},
                {**SMALL_IMAGES, "model.hidden": []}]),
    "cnn": (3, [{**IMAGES, "model.channels": [4, 8], "model.hidden": 16},
                {**IMAGES, "model.channels": [4], "model.hidden": 12, "model.dropout": 0.3},
                {**IMAGES, "model.channels": [4, 6], "model.hidden": 8, "train.task": "few_labels", "train.labelled": 0.4}]),
    "lenet": (1, [{**IMAGES}]),
    "wide_resnet": (1, [{**COLOURS, "model.depth": 10, "model.widths": [4, 6, 8], "model.factor": 1}]),
    "resnet18": (2, [{**COLOURS}]),
    "gpt": (3, [{**TOKENS, "model.layers": 2, "model.width": 16, "model.heads": 2},
                {**TOKENS, "model.layers": 1, "model.width": 16, "model.heads": 4, "model.dropout": 0.1},
                {**TOKENS, "model.layers": 2, "model.width": 16, "model.heads": 2, "model.tied": True}]),
    "bert": (1, [{**TOKENS, "model.layers": 2, "model.width": 16, "model.heads": 2}]),
    "lstm": (1, [{**TOKENS, "model.layers": 1, "model.width": 12}, {**STREAMS, "model.layers": 2, "model.width": 8}]),
    "gru": (1, [{**TOKENS, "model.layers": 2, "model.width": 12}, {**STREAMS, "model.layers": 1, "model.width": 8}]),
    "frame_lstm": (1, [{"model.width": 8, "data.name": "synthetic_speech", "data.samples": 27, "data.test_samples": 16}]),
    "tree_lstm": (1, [{"model.width": 8, "data.name": "synthetic_logic", "data.samples": 33, "data.test_samples": 16,
                       "data.nodes": 7}]),
    "autoencoder": (1, [{**SMALL_IMAGES, "model.hidden": [32], "model.code": 4},
                        {**IMAGES, "model.layers": "convolution", "model.hidden": [4, 8], "model.code": 4}]),
    "vae": (1, [{**SMALL_IMAGES, "model.hidden": [32], "model.code": 4},
                {**IMAGES, "model.layers": "convolution", "model.hidden": [4, 8], "model.code": 4}]),
    "unet": (1, [{"model.width": 4, "data.name": "synthetic_shapes", "data.samples": 27, "data.test_samples": 8,
                  "data.size": 16}]),
    "wide_and_deep": (1, [{**TABLE, "model.hidden": [8]}, {**TABLE, "data.target": "value"}]),
    "actor_critic": (1, [{"model.environments": 8, "model.rollout": 8, "model.hidden": [16], "train.batch_size": 8,
                          "data.name": name, "data.samples": 32, "data.test_samples": 6}
                         for name in ("cartpole", "grid_world")]),
    "fbnet": (1, [{**IMAGES, **SEARCHED, "model.architecture": "k3_e1 skip k5_e3_g2 k3_e1_g2"}]),
    "fbnet_search": (1, [{**IMAGES, **SEARCHED, "model.latencies": LATENCIES}, {**IMAGES, **SEARCHED}]),
    "dcgan": (1, [{**IMAGES, "model.latent": 8, "model.width": 4, "data.normalize": False}]),
    "click_through": (1, [{"model.hidden": [8], "model.width": 4, "data.name": "synthetic_clicks", "data.samples": 64,
                           "data.test_samples": 32, "data.ids": 1000}]),
    "word2vec": (1, [{**TEXT, "model.width": 6, "model.window": 2, "model.negatives": 2}]),
}
# Their rows lie on parameter servers.
TABLES = {"click_through", "word2vec"}
SLICED = {"mlp", "gpt", "bert", "resnet18"}  # parallel.tensor
WHOLE = {"dcgan", "fbnet_search", "actor_critic"}  # run the network more than once in a step: no stages, no zero = 3
CLASSES = {"mlp", "cnn", "lenet", "wide_resnet", "resnet18", "fbnet"}  # of images: train.loss says what is minimised
# Batch statistics, or another loss at every evaluation: not for L-BFGS.
UNSTEADY = {"wide_resnet", "resnet18", "fbnet", "fbnet_search", "dcgan", "vae", "bert", "actor_critic", "word2vec",
            "click_through"}
TEXTS = {"word2vec"}  # read words.txt, which has sentences()
# Deep siblings of resnet18, and code from a file: nothing of theirs is for this tool to find.
NOT_DRAWN = {"resnet34", "resnet50", "resnet101", "resnet152", "torchscript"}


def sentences(random):
    """A text of which a vocabulary can be made, for data.path = words.txt."""
    words = [f"w{number}" for number in range(40)]
    return "".join(" ".join(random.choices(words, k=random.randrange(3, 14))) + "\n" for _ in range(60))
