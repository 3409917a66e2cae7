"""report.html in a real browser, and TensorBoard's files through two readers: one written here, one of npm's."""
import base64
import html
import json
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

import browser
import program
from program import ENDLESS, MLP

IMAGES = {**MLP, "data.samples": 256, "data.test_samples": 128, "train.batch_size": 32, "train.epochs": 4}


def numbers(path):
    return [float(value) for value in re.findall(r"-?[\d.]+", path)]


class Page:
    """What is drawn on a page, by the figures' ids."""

    def __init__(self, dom):
        self.figures = dict(re.findall(r'<figure id="([\w-]+)">(.*?)</figure>', dom, re.S))

    def lines(self, figure):
        """The points of each line of a chart."""
        paths = re.findall(r'<path class="line[^"]*"[^>]* d="([^"]*)"', self.figures[figure])
        return [list(zip(numbers(path)[::2], numbers(path)[1::2])) for path in paths]

    def count(self, figure, css):
        return len(re.findall(rf'class="{css}', self.figures[figure]))


class BrowserTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.profile = tempfile.mkdtemp(prefix="distbelief-browser-")
        self.addCleanup(shutil.rmtree, self.profile, ignore_errors=True)
        browser.chromium()

    def page(self, name, **options):
        dom, console = browser.load(self.scratch / name / "report.html", self.profile, **options)
        self.assertEqual(console, [], "the console is silent")
        self.assertIn('class="tip"', dom, "the script ran")
        return Page(dom)

    def test_an_error_in_a_page_is_seen(self):
        for number, script in enumerate(("throw new Error('broken')", "console.error('broken')", "nowhere()")):
            page = self.scratch / f"{number}.html"
            page.write_text(f"<!DOCTYPE html><p id=made></p><script>made.className = 'tip'</script><script>{script}</script>")
            dom, console = browser.load(page, self.profile)
            self.assertIn('class="tip"', dom)
            self.assertEqual(len(console), 1, console)
            self.assertIn("nowhere" if number == 2 else "broken", console[0])

    def test_a_run_that_lost_a_worker_is_drawn(self):
        self.train("run", {**IMAGES, "checkpoint.every_steps": 10}, "--workers", 2, "--inject", "kill:rank=1,step=17")
        page = self.page("run")
        for figure, lines in (("loss", 2), ("accuracy", 3), ("lr", 1), ("throughput", 1)):
            drawn = page.lines(figure)
            self.assertEqual(len(drawn), lines, figure)
            for points in drawn:
                self.assertTrue(all(58 <= x <= 626 and 14 <= y <= 238 for x, y in points), figure)
        self.assertEqual(len(page.lines("loss")[0]), 32, "a point for each step")
        xs = [x for x, _ in page.lines("loss")[0]]
        self.assertEqual(xs, sorted(xs))
        self.assertGreater(xs[-1] - xs[0], 500, "from end to end of the frame")
        self.assertEqual(page.count("phases", "area"), 6)
        self.assertEqual(page.count("workers", "bar"), 2 * 6)
        self.assertGreaterEqual(page.count("throughput", "mark loss"), 2, "lost and recovered")
        self.assertGreaterEqual(page.count("throughput", "mark checkpoint"), 3)
        predictions = json.loads((self.scratch / "run" / "predictions.json").read_text())
        self.assertEqual(sum(cell[2] for cell in predictions["confusion"]), 128)
        right = sum(cell[2] for cell in predictions["confusion"] if cell[0] == cell[1])
        self.assertAlmostEqual(right / 128, self.summary("run")["test_accuracy"], places=9)
        self.assertEqual(page.figures["confusion"].count("<rect"), len(predictions["confusion"]))
        self.assertGreaterEqual(page.figures["samples"].count("data:image/png;base64,"), 12)
        self.page("run", dark=True)
        self.made_anew(page)

    def test_what_is_no_class_is_drawn_too(self):
        """Scores by name: shares together, others each by itself; and what a generator draws."""
        common = {"train.batch_size": 8, "train.epochs": 3, "report.interval_seconds": 0.0, "parallel.lanes": 2}
        self.train("values", {**common, "model.name": "wide_and_deep", "data.name": "synthetic_table", "data.target": "value",
                              "data.samples": 40, "data.test_samples": 30}, "--workers", 1)
        page = self.page("values")
        self.assertEqual([len(page.lines(name)[0]) for name in ("test_rmse", "test_mae")], [3, 3], "a point a validation")
        self.assertNotIn("confusion", page.figures)
        self.train("shapes", {**common, "model.name": "unet", "model.width": 4, "data.name": "synthetic_shapes",
                              "data.samples": 16, "data.test_samples": 8, "data.size": 16}, "--workers", 1)
        page = self.page("shapes")
        self.assertEqual(len(page.lines("accuracy")), 3, "accuracy, f1 and iou")
        self.assertIn("iou", page.figures["accuracy"])
        sheet = (self.scratch / "shapes" / "masks.png").read_bytes()
        self.assertEqual(struct.unpack(">II", sheet[16:24]), (8 * 18 - 2, 3 * 18 - 2), "images, answers and the truth")
        self.assertIn(base64.b64encode(sheet).decode(), page.figures["masks"])
        self.goes_on(common)
        drawn = {"data.name": "synthetic", "data.samples": 16, "data.test_samples": 16, "data.height": 16, "data.width": 16}
        self.train("gan", {**common, **drawn, "model.name": "dcgan", "model.latent": 8, "model.width": 4,
                           "data.normalize": False}, "--workers", 2)
        self.train("vae", {**common, **drawn, "model.name": "vae", "model.hidden": [32], "model.code": 4,
                           "train.optimizer": "adamw", "train.lr": 0.001}, "--workers", 1)
        for run in ("gan", "vae"):
            page = self.page(run)
            sheet = re.search(r'data:image/png;base64,([\w+/=]+)', page.figures["generated"]).group(1)
            kept = (self.scratch / run / "samples.png").read_bytes()
            self.assertEqual(base64.b64decode(sheet), kept)
            self.assertEqual(struct.unpack(">II", kept[16:24]), (8 * 18 - 2, 8 * 18 - 2), "64 images of 16 pixels")
        self.reconstructions("vae")
        self.distbelief("generate", "vae", "--count", 8, "--out", "more.png")
        self.assertEqual(struct.unpack(">II", (self.scratch / "more.png").read_bytes()[16:24]), (8 * 18 - 2, 16))
        self.distbelief("generate", "vae", "--out", "same.png")
        self.assertEqual((self.scratch / "same.png").read_bytes(), kept, "the run's own seed was 1 too")

    def goes_on(self, common):
        (self.scratch / "text.txt").write_text("a < b & b > c; " * 40)
        self.train("text", {**common, "model.name": "lstm", "model.width": 16, "data.name": "text", "data.path": "text.txt",
                            "data.level": "characters", "data.length": 20}, "--workers", 1)
        kept = json.loads((self.scratch / "text" / "samples.json").read_text())
        self.assertEqual((len(kept["prompt"]), len(kept["text"])), (16, 200))
        shown = self.page("text").figures["text"]
        self.assertIn(html.escape(kept["prompt"]), shown)
        self.assertIn(html.escape(kept["text"]), shown)
        said = json.loads(self.distbelief("generate", "text", "--prompt", kept["prompt"], "--json").out)
        self.assertEqual(said["text"], kept["text"], "as the command says it")

    def reconstructions(self, run):
        shown = self.page(run).figures["reconstructions"]
        file = self.scratch / run / "reconstructions.png"
        sheet = file.read_bytes()
        self.assertEqual(base64.b64decode(re.search(r'data:image/png;base64,([\w+/=]+)', shown).group(1)), sheet)
        self.assertEqual(struct.unpack(">II", sheet[16:24]), (8 * 18 - 2, 4 * 18 - 2), "16 images and what became of them")
        file.unlink()
        self.distbelief("report", run, "--score")
        self.assertEqual(file.read_bytes(), sheet)

    def made_anew(self, page):
        (self.scratch / "run" / "report.html").unlink()
        (self.scratch / "run" / "predictions.json").unlink()
        self.distbelief("report", "run", "--score")
        self.assertEqual(self.page("run").figures, page.figures)


class LongRunTest(program.ProgramTest):
    def test_a_million_points_make_a_small_page_in_little_memory(self):
        folder = self.scratch / "run"
        folder.mkdir()
        (folder / "job.toml").write_text("")
        with open(folder / "metrics.jsonl", "w", encoding="utf-8") as file:
            for step in range(1, 1_000_001):
                file.write('{"step":%d,"loss":%.4f,"loss_mean":%.4f,"lr":0.1,"samples_per_second":%d,"seconds":%d,'
                           '"unix_seconds":%d,"phase_seconds":{"forward":%d,"backward":%d}}\n'
                           % (step, 2 + step % 7, 2 + step % 7, 1000 + step % 9, step, 10**9 + step, step, step))
        outcome = self.command("sh", "-c", f"ulimit -v 4000000; exec {program.PROGRAM} report run")
        self.assertEqual(outcome.out, "run/report.html\n")
        self.assertLess((folder / "report.html").stat().st_size, 2_000_000)


class LiveTest(program.ProgramTest):
    def test_the_page_and_the_event_file_follow_a_run(self):
        child = self.start_training("run", {**ENDLESS, "report.page_seconds": 0.2, "report.tensorboard": True},
                                    "--workers", 2)
        page = self.scratch / "run" / "report.html"
        self.wait_until(page.exists, "the first page is there")
        text = page.read_text()
        self.assertIn('<meta http-equiv="refresh"', text)
        self.assertIn(">training<", text)
        self.wait_until(lambda: page.read_text() != text, "the page is renewed")
        self.assertTrue(page.read_text().endswith("</html>\n"), "whole")
        self.control("stop", "run")
        self.finish(child)
        self.assertIn("interrupted", page.read_text())
        self.assertNotIn("http-equiv", page.read_text())
        self.assert_events(self.scratch / "run")

    def assert_events(self, run):
        [path] = (run / "tensorboard").iterdir()
        events = list(read_events(path))
        self.assertEqual(events[0], {"version": "brain.Event:2", "time": events[0]["time"]})
        losses = {event["step"]: event["value"] for event in events[1:] if event["tag"] == "train/loss"}
        lines = [line for line in program.lines_of(run / "metrics.jsonl") if "loss" in line]
        self.assertGreater(len(lines), 2)
        self.assertEqual(set(losses), {line["step"] for line in lines})
        for line in lines:
            self.assertEqual(losses[line["step"]], struct.unpack("<f", struct.pack("<f", line["loss"]))[0])
        self.assertEqual(events[1]["time"], lines[0]["unix_seconds"])
        self.assertIn("phase_seconds/backward", {event.get("tag") for event in events})


# Reads records with npm's tfrecord, which checks lengths and checksums, and messages by TensorFlow's own field numbers.
READER = """
const {RecordReader} = require("tfrecord/lib/record_reader");
const protobuf = require("protobufjs");
const root = protobuf.parse(`syntax = "proto3";
  message Value { string tag = 1; float simple_value = 2; }
  message Summary { repeated Value value = 1; }
  message Event { double wall_time = 1; int64 step = 2; oneof what { string file_version = 3; Summary summary = 5; } }`).root;
const Event = root.lookupType("Event");
(async () => {
  const reader = await RecordReader.create(process.argv[2]);
  for (let record; (record = await reader.readRecord()) !== null;) {
    const event = Event.toObject(Event.decode(record), {longs: Number});
    // JSON has no numbers that are not finite.
    console.log(JSON.stringify(event, (key, value) =>
      typeof value === "number" && !Number.isFinite(value) ? String(value) : value));
  }
})().catch(error => { console.error(error); process.exit(1); });
"""


class IndependentReaderTest(program.ProgramTest):
    def reader(self):
        """Command that reads an event file; the package comes from npm's registry."""
        if shutil.which("npm") is None or shutil.which("node") is None:
            program.cannot("node and npm are not installed")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="distbelief-npm-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "package.json").write_text("{}")
        installed = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "tfrecord@0.2"],
                                   cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        if installed.returncode != 0:
            program.cannot(f"npm has no package tfrecord: {installed.stderr.strip().splitlines()[-1:]}")
        (folder / "read.js").write_text(READER)
        return ["node", str(folder / "read.js")]

    def test_both_readers_find_the_same_in_a_file(self):
        command = self.reader()
        self.train("run", {**IMAGES, "report.tensorboard": True}, "--workers", 2)
        [path] = (self.scratch / "run" / "tensorboard").iterdir()
        lines = subprocess.run([*command, str(path)], cwd=self.scratch, capture_output=True, text=True, timeout=60, check=True)
        theirs = [json.loads(line) for line in lines.stdout.splitlines()]
        ours = list(read_events(path))
        self.assertEqual(len(theirs), len(ours))
        self.assertGreater(len(ours), 20)
        self.assertEqual(theirs[0], {"wallTime": ours[0]["time"], "fileVersion": "brain.Event:2"})
        for found, event in zip(theirs[1:], ours[1:]):
            [value] = found["summary"]["value"]
            self.assertEqual((found["wallTime"], found.get("step", 0), value["tag"]), (event["time"], event["step"], event["tag"]))
            self.assertEqual(struct.pack("<f", float(value.get("simpleValue", 0))), struct.pack("<f", event["value"]))
        damaged = bytearray(path.read_bytes())
        damaged[-10] ^= 1
        (self.scratch / "damaged").write_bytes(damaged)
        refused = subprocess.run([*command, "damaged"], cwd=self.scratch, capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("CRC32C", refused.stderr, "it looks at checksums")


def crc32c(data):
    """Bit by bit, from the polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def unmasked(value):
    value = (value - 0xA282EAD8) & 0xFFFFFFFF
    return (value >> 17 | value << 15) & 0xFFFFFFFF


def fields(message):
    """(number, value) of each field of a protobuf message; no knowledge of what it is."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            yield key >> 3, message[at:at + size]
            at += size


def read_events(path):
    data = pathlib.Path(path).read_bytes()
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert unmasked(check) == crc32c(data[at:at + 8]), f"checksum of the length at byte {at}"
        record = data[at + 12:at + 12 + length]
        [check] = struct.unpack_from("<I", data, at + 12 + length)
        assert unmasked(check) == crc32c(record), f"checksum of the record at byte {at}"
        at += 16 + length
        event = dict(fields(record))
        found = {"time": struct.unpack("<d", event[1])[0]}
        if 3 in event:
            found["version"] = event[3].decode()
        if 5 in event:
            value = dict(fields(dict(fields(event[5]))[1]))
            found |= {"step": event.get(2, 0), "tag": value[1].decode(), "value": struct.unpack("<f", value[2])[0]}
        yield found


if __name__ == "__main__":
    program.main()
