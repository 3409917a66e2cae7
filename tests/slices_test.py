"""Packed slices: packed, damaged, trained on from a folder, a cache and a server; fetched sets; splits."""
import hashlib
import http.server
import json
import os
import pathlib
import re
import ssl
import struct
import subprocess
import tarfile
import threading

import program
from program import MLP

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
SHAPE = {"data.samples": 600, "data.test_samples": 40, "data.height": 32, "data.width": 32}
SHORT = {**MLP, "train.batch_size": 32, "train.epochs": 3, "parallel.lanes": 6}
for key in SHAPE:
    SHORT.pop(key, None)


class Server:
    """Serves a folder; what goes wrong is set by its attributes. Every request's path and range is kept."""

    def __init__(self, folder, ranges=True, certificate=None):
        outer = self
        self.folder, self.ranges = folder, ranges
        self.gate = None  # an event that answers wait for
        self.cut_after = None  # bytes of a body, then the connection is closed, this many times
        self.cuts = 0
        self.lie = 0  # bytes that Content-Length has too many
        self.astray = 0  # bytes that an answer begins behind what was asked for
        self.flip = False  # another byte in every body
        self.busy = 0  # so many answers of 503
        self.requests = []
        self.connections = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self):
                outer.connections += 1
                super().setup()

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.answer(self)

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # the program ends a connection when it has what it wants
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, handler):
        wanted = handler.headers.get("Range")
        self.requests.append((handler.path, wanted))
        if self.gate and not self.gate.wait(60):
            return
        path = self.folder / handler.path.lstrip("/")
        if self.busy > 0 or not path.is_file():
            status = 503 if self.busy > 0 else 404
            self.busy -= 1
            handler.send_response(status)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        content = path.read_bytes()
        begin, end = 0, len(content)
        if wanted and self.ranges:
            first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted).groups()
            begin, end = int(first) + self.astray, int(last) + 1 if last else end
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        else:
            handler.send_response(200)
        body = bytearray(content[begin:end])
        if self.flip and body:
            body[len(body) // 2] ^= 1
        handler.send_header("Content-Length", str(len(body) + self.lie))
        handler.end_headers()
        if self.cuts > 0 and self.cut_after is not None:
            self.cuts -= 1
            body = body[:self.cut_after]
            handler.close_connection = True
        if self.lie:
            handler.close_connection = True
        try:
            handler.wfile.write(body)
        except OSError:  # the program has what it wants
            handler.close_connection = True


class SlicesTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in self.environment.items()
                            if name.lower() not in ("http_proxy", "https_proxy", "all_proxy")}
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.close()
        super().tearDown()

    def serve(self, folder, **options):
        self.servers.append(Server(folder, **options))
        return self.servers[-1]

    def certificate(self, name):
        """A file with a key and a certificate that vouches for itself."""
        path = self.scratch / f"{name}.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", path, "-out", self.scratch / "certificate", "-days", "2", "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=60)
        path.write_text(path.read_text() + (self.scratch / "certificate").read_text())
        return path

    def pack(self, name="packed", slice_mb=0.016):
        self.distbelief("data", "pack", "synthetic", self.scratch / name, "--slice-mb", slice_mb, "--slices-per-file", 4,
                        *program.settings(SHAPE))
        return self.scratch / name

    def packed_job(self, place):
        return {**SHORT, "data.name": "packed", "data.path": str(place), "data.cache_mb": 1}

    def sha(self, name, job, *arguments):
        return self.train(name, job, *arguments)["weights_sha256"]


class PackTest(SlicesTest):
    def test_packed_verified_and_shown(self):
        folder = self.pack()
        self.assertIn("sound", self.distbelief("data", "verify", folder).out)
        shown = json.loads(self.distbelief("data", "info", folder, "--json").out)
        self.assertEqual(shown["train"], {"samples": 600, "balance": [60] * 10})
        self.assertEqual(shown["input_shape"], [1, 32, 32])
        drawn = self.distbelief("data", "info", folder).out
        self.assertEqual(len(re.findall(r"class \d+ +60  █{40}\n", drawn)), 10, drawn)
        again = self.distbelief("data", "pack", "synthetic", folder, code=2)
        self.assertIn("packed set already", again.err)

    def test_a_damaged_byte_is_found_and_named(self):
        folder = self.pack()
        path = sorted(folder.glob("train-*.slices"))[2]
        index = json.loads((folder / "index.json").read_text())["set"]["train"]
        slice_ = next(entry for entry in index["slices"] if index["files"][entry[2]] == path.name and entry[3] > 0)
        content = bytearray(path.read_bytes())
        content[slice_[3] + slice_[4] // 2] ^= 4
        path.write_bytes(content)
        place = f"'{path}', byte {slice_[3]}: "
        outcome = self.distbelief("data", "verify", folder, code=1)
        self.assertIn(place, outcome.err)
        self.assertEqual(outcome.err.count("byte"), 1, outcome.err)
        trained = self.distbelief("train", "--run-dir", "run", *program.settings(self.packed_job(folder)), code=2)
        self.assertIn(place, trained.err)
        (folder / "index.json").write_text((folder / "index.json").read_text().replace("600", "601"))
        self.assertIn("checksum", self.distbelief("data", "verify", folder, code=1).err)

    def test_splits_are_drawn(self):
        flags = ("data", "info", "synthetic", *program.settings(SHAPE), "--clients", 8, "--split")
        for rule in ("even", "stratified", "label:2", "dirichlet:0.3", "feature:3"):
            split = json.loads(self.distbelief(*flags, rule, "--json").out)["split"]
            self.assertEqual((len(split), sum(client["samples"] for client in split)), (8, 600), rule)
        self.assertEqual([sum(count > 0 for count in client["balance"])
                          for client in json.loads(self.distbelief(*flags, "label:2", "--json").out)["split"]], [2] * 8)
        self.assertIn("share of each class", self.distbelief(*flags, "dirichlet:0.3").out)
        self.assertIn("a split is", self.distbelief(*flags, "odd", code=2).err)


class TrainTest(SlicesTest):
    def test_any_number_of_workers_and_a_lost_one_have_the_same_bits(self):
        job = self.packed_job(self.pack())
        found = {workers: self.sha(f"run{workers}", job, "--workers", workers) for workers in (1, 2, 3)}
        found["lost"] = self.sha("lost", job, "--workers", 2, "--inject", "kill:rank=1,step=25")
        self.assertEqual(len(set(found.values())), 1, found)
        self.assertNotEqual(found[1], self.sha("seed", {**job, "train.seed": 2}, "--workers", 1))

    def test_from_a_server_with_and_without_ranges(self):
        folder = self.pack()
        local = self.sha("local", self.packed_job(folder), "--workers", 2)
        server = self.serve(folder)
        server.busy = 1
        self.assertEqual(self.sha("http", self.packed_job(server.url), "--workers", 2), local)
        largest = max(entry[4] for entry in json.loads((folder / "index.json").read_text())["set"]["train"]["slices"])
        ranges = [[int(number) for number in re.findall(r"\d+", wanted)] for path, wanted in server.requests if wanted]
        self.assertGreater(max(end - begin for begin, end in ranges), largest, "neighbours came together")
        self.assertLess(4 * server.connections, len(server.requests), "connections are used again")
        self.assertIn("sound", self.distbelief("data", "verify", server.url).out)
        plain = self.serve(folder, ranges=False)
        plain.cut_after, plain.cuts = 500, 3
        self.assertEqual(self.sha("plain", self.packed_job(plain.url), "--workers", 1), local)

    def test_a_server_that_is_not_there_or_sends_other_bytes(self):
        folder = self.pack()
        server = self.serve(folder)
        server.close()
        self.servers.remove(server)
        outcome = self.distbelief("data", "verify", server.url, code=1)
        self.assertIn("attempts", outcome.err)
        damaged = self.serve(folder)
        damaged.flip = True
        self.assertIn("index.json", self.distbelief("data", "verify", damaged.url, code=1).err)


class SecureTest(SlicesTest):
    """Over https, from a server whose certificate the system does not know."""

    def setUp(self):
        super().setUp()
        self.environment.pop("SSL_CERT_FILE", None)
        self.own, self.other = self.certificate("own"), self.certificate("other")

    def test_trained_on_verified_and_shown(self):
        folder = self.pack()
        local = self.sha("local", self.packed_job(folder), "--workers", 1)
        server = self.serve(folder, certificate=self.own)
        self.assertEqual(self.sha("named", {**self.packed_job(server.url), "data.ca_file": str(self.own)}, "--workers", 2),
                         local)
        self.assertIn("sound", self.distbelief("data", "verify", server.url, "--ca-file", self.own).out)
        self.environment["SSL_CERT_FILE"] = str(self.own)
        self.assertEqual(self.sha("environment", self.packed_job(server.url), "--workers", 2), local)
        self.assertIn("sound", self.distbelief("data", "verify", server.url).out)
        self.assertIn("600 to train on", self.distbelief("data", "info", server.url).out)

    def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(self):
        server = self.serve(self.pack(), certificate=self.own)
        job = program.settings(self.packed_job(server.url))
        for arguments in (("data", "verify", server.url), ("data", "verify", server.url, "--ca-file", self.other),
                          ("data", "info", server.url), ("train", "--run-dir", "run", *job)):
            outcome = self.distbelief(*arguments, code=1)
            self.assertIn("certificate", outcome.err)
            self.assertIn("data.ca_file, --ca-file or SSL_CERT_FILE", outcome.err)
            self.assertNotIn("attempts", outcome.err)
        self.assertEqual(server.requests, [])
        missing = self.distbelief("data", "verify", server.url, "--ca-file", "nowhere.pem", code=1)
        self.assertIn("--ca-file", missing.err)

    def test_fetched_from_a_mirror(self):
        home, to, content = self.scratch / "home", self.scratch / "to", b"small"
        home.mkdir()
        (home / "b.bin").write_bytes(content)
        (self.scratch / "set.json").write_text(json.dumps({"name": "mine", "files": [
            {"name": "b.bin", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}]}))
        server = self.serve(home, certificate=self.own)
        flags = ("data", "get", self.scratch / "set.json", "--to", to, "--mirror", server.url)
        self.assertIn("SSL_CERT_FILE", self.distbelief(*flags, code=1).err)
        self.assertEqual(list(to.iterdir()), [])
        self.distbelief(*flags, "--ca-file", self.own)
        self.assertEqual((to / "b.bin").read_bytes(), content)


class MoreTrainTest(SlicesTest):
    def test_resumed_in_the_middle_of_an_epoch(self):
        job = {**self.packed_job(self.pack()), "checkpoint.every_steps": 7, "checkpoint.every_epochs": 0,
               "checkpoint.keep": 99}
        whole = self.sha("run", job, "--workers", 2)
        for path in sorted((self.scratch / "run" / "checkpoints").glob("step-*")):
            if int(path.name[5:]) > 30:
                for file in path.iterdir():
                    file.unlink()
                path.rmdir()
        self.distbelief("resume", self.scratch / "run", "--workers", 3)
        self.assertEqual(self.summary("run")["weights_sha256"], whole)

    def test_a_cache_is_packed_once_and_read_ever_after(self):
        job = {**SHORT, **SHAPE, "data.name": "synthetic", "data.cache": str(self.scratch / "cache")}
        first = self.sha("first", job, "--workers", 2)
        index, = (self.scratch / "cache").glob("synthetic-*/index.json")
        written = index.stat().st_mtime_ns
        self.assertEqual(self.sha("second", job, "--workers", 3), first)
        self.assertEqual(index.stat().st_mtime_ns, written)
        index.unlink()
        self.assertEqual(self.sha("third", job, "--workers", 1), first)
        self.assertTrue(index.exists())

    def test_what_was_trained_from_a_cache_of_ones_own_files_can_be_used(self):
        (self.scratch / "people.csv").write_text("age,town,risk\n" + "".join(
            f"{i % 60},{'Ulm' if i % 2 else 'Bonn'},{'low' if i % 3 else 'high'}\n" for i in range(80)))
        (self.scratch / "story.txt").write_text("the cat sat on the mat. " * 40)
        short = {"train.batch_size": 8, "train.epochs": 0, "train.max_steps": 2, "data.cache": str(self.scratch / "cache")}
        self.train("table", {**short, "data.name": "csv", "data.path": "people.csv", "model.name": "mlp",
                             "model.hidden": [4]}, "--workers", 1)
        self.assertEqual(len(json.loads(self.distbelief("predict", "table", "test:0", "people.csv", "--json").out)), 81)
        self.train("text", {**short, "data.name": "text", "data.path": "story.txt", "data.length": 8, "model.name": "gpt",
                            "model.layers": 1, "model.width": 8, "model.heads": 2}, "--workers", 1)
        self.assertTrue(self.distbelief("generate", "text", "--prompt", "the ", "--count", 3).out.startswith("the "))
        self.distbelief("predict", "text", "text:the c")


class AskedTest(SlicesTest):
    """A packed table and a packed text say what their columns and tokens mean."""

    def test_rows_and_prompts(self):
        (self.scratch / "people.csv").write_text("age,town,risk\n" + "".join(
            f"{i % 60},{'Ulm' if i % 2 else 'Bonn'},{'low' if i % 3 else 'high'}\n" for i in range(80)))
        (self.scratch / "story.txt").write_text("the cat sat on the mat. " * 40)
        short = {"train.batch_size": 8, "train.epochs": 0, "train.max_steps": 2}
        for name, path, *more in (("csv", "people.csv"), ("text", "story.txt", "--set", "data.length=8")):
            self.distbelief("data", "pack", name, f"packed-{name}", "--set", f"data.path={path}", *more)
            (self.scratch / path).unlink()
        packed = {**short, "data.name": "packed"}
        self.train("table", {**packed, "data.path": "packed-csv", "model.name": "mlp", "model.hidden": [4]}, "--workers", 1)
        (self.scratch / "asked.csv").write_text("town,age\nUlm,3\nRome,\n")
        answers = json.loads(self.distbelief("predict", "table", "asked.csv", "test:0", "--json").out)
        self.assertEqual([answer["input"] for answer in answers], ["asked.csv:2", "asked.csv:3", "test:0"])
        self.assertEqual({found["name"] for found in answers[0]["classes"]}, {"low", "high"})
        self.train("text", {**packed, "data.path": "packed-text", "model.name": "gpt", "model.layers": 1, "model.width": 8,
                            "model.heads": 2}, "--workers", 1)
        self.assertTrue(self.distbelief("generate", "text", "--prompt", "the ", "--count", 3).out.startswith("the "))
        self.distbelief("predict", "text", "text:the c")
        self.distbelief("data", "verify", "packed-csv")


class GetTest(SlicesTest):
    def setUp(self):
        super().setUp()
        self.home = self.scratch / "home"
        self.home.mkdir()
        self.contents = {"a.bin": os.urandom(300_000), "b.bin": b"small"}
        for name, content in self.contents.items():
            (self.home / name).write_bytes(content)
        self.server = self.serve(self.home)
        self.to = self.scratch / "to"
        self.describe(files=self.contents)

    def describe(self, **lists):
        """Writes set.json, with what is in each list of files."""
        (self.scratch / "set.json").write_text(json.dumps({"name": "mine", "homes": [self.server.url], **{
            key: [{"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                  for name, content in contents.items()] for key, contents in lists.items()}}))

    def get(self, *arguments, code=0):
        return self.distbelief("data", "get", self.scratch / "set.json", "--to", self.to, *arguments, code=code)

    def assert_fetched(self):
        self.assertEqual({path.name: path.read_bytes() for path in self.to.iterdir()}, self.contents)

    def test_fetched_once(self):
        self.assertIn("300.0 kB fetched", self.get().out)
        self.assert_fetched()
        before = len(self.server.requests)
        self.assertIn("0 bytes fetched", self.get().out)
        self.assertEqual(len(self.server.requests), before)

    def test_an_archive_is_unpacked_once_and_removed(self):
        with tarfile.open(self.home / "set.tar.gz", "w:gz") as archive:
            for name in self.contents:
                archive.add(self.home / name, f"folder/{name}")
            archive.add(self.home / "b.bin", "folder/readme")
        self.describe(files={"set.tar.gz": (self.home / "set.tar.gz").read_bytes()}, unpacked=self.contents)
        self.server.cut_after, self.server.cuts = 70_000, 1
        self.assertIn("0 bytes was there already", self.get().out)
        self.assert_fetched()
        before = len(self.server.requests)
        self.assertIn("0 bytes fetched, 300.0 kB was there", self.get().out)
        self.assertEqual(len(self.server.requests), before)
        (self.to / "b.bin").write_bytes(b"other")
        self.get()
        self.assert_fetched()
        self.assertGreater(len(self.server.requests), before)

    def test_progress_is_shown_on_a_terminal(self):
        shown = self.shown_on_terminal("data", "get", self.scratch / "set.json", "--to", self.to)
        self.assertRegex(shown, r"\ra\.bin █{30} *100\.0 %  [\d.]+ [kMG]B/s\x1b\[K")
        self.assertIn("\r\x1b[K'mine' is in", shown)
        self.assert_fetched()

    def test_a_cut_connection_is_continued_where_it_broke(self):
        self.server.cut_after, self.server.cuts = 70_000, 3
        self.get()
        self.assert_fetched()
        self.assertEqual([wanted for path, wanted in self.server.requests if path == "/a.bin"],
                         [None, "bytes=70000-", "bytes=140000-", "bytes=210000-"])

    def test_what_an_earlier_fetch_left_is_continued(self):
        self.to.mkdir()
        (self.to / ".part-a.bin").write_bytes(self.contents["a.bin"][:200_000])
        self.assertIn("100.0 kB fetched, 200.0 kB was there", self.get().out)
        self.assert_fetched()
        self.assertEqual(self.server.requests[0], ("/a.bin", "bytes=200000-"))

    def test_a_wrong_part_of_an_earlier_fetch_is_fetched_again(self):
        self.to.mkdir()
        (self.to / ".part-a.bin").write_bytes(b"x" * 1000)
        self.get()
        self.assert_fetched()

    def test_a_server_without_ranges_begins_anew(self):
        self.server.ranges = False
        self.to.mkdir()
        (self.to / ".part-a.bin").write_bytes(self.contents["a.bin"][:200_000])
        self.get()
        self.assert_fetched()

    def test_of_two_at_once_one_fetches(self):
        self.server.gate = threading.Event()
        first = self.start([program.PROGRAM, "data", "get", self.scratch / "set.json", "--to", self.to])
        self.wait_until(lambda: self.server.requests, "the first asked for a file")
        with subprocess.Popen([program.PROGRAM, "data", "get", self.scratch / "set.json", "--to", self.to],
                              env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as second:
            told = second.stdout.readline()
            self.server.gate.set()
            out, err = second.communicate(timeout=60)
        self.assertIn("another process fetches into", told)
        self.assertEqual(second.returncode, 0, err)
        self.assertEqual(self.finish(first).code, 0, self.shown())
        self.assertIn("0 bytes fetched", out)
        self.assertEqual([path for path, _ in self.server.requests], ["/a.bin", "/b.bin"])
        self.assert_fetched()

    def test_wrong_bytes_are_refused_and_not_kept(self):
        self.server.flip = True
        outcome = self.get(code=2)
        self.assertIn("is not the file it should be", outcome.err)
        self.assertIn(hashlib.sha256(self.contents["a.bin"]).hexdigest(), outcome.err)
        self.assertEqual(list(self.to.iterdir()), [])
        good = self.serve(self.home)
        self.get("--mirror", good.url)
        self.assert_fetched()

    def test_a_server_that_lies_about_the_length(self):
        self.server.lie = 1000
        self.get()
        self.assert_fetched()

    def test_a_server_that_says_less_than_it_sends(self):
        self.server.lie = -1
        self.assertIn("299999 with", self.get(code=2).err)
        self.assertEqual(list(self.to.iterdir()), [])

    def test_a_server_that_sends_another_range(self):
        self.to.mkdir()
        (self.to / ".part-a.bin").write_bytes(self.contents["a.bin"][:200_000])
        self.server.astray = 1
        self.assertIn("another range than the one asked for", self.get(code=1).err)
        self.assertEqual((self.to / ".part-a.bin").read_bytes(), self.contents["a.bin"][:200_000])

    def test_a_file_of_another_length(self):
        for content in (b"y" * 400_000, self.contents["a.bin"][:-1]):
            (self.home / "a.bin").write_bytes(content)
            self.assertIn("is not the file it should be", self.get(code=2).err)
            self.assertEqual(list(self.to.iterdir()), [])

    def test_fashion_mnist_as_its_home_has_it(self):
        # Debian's files are those of the public home but for the name and the time in their gzip headers.
        if not FASHION.is_dir():
            program.cannot("dataset-fashion-mnist is not installed")
        for name, seconds in (("train-images-idx3", 1504176606), ("train-labels-idx1", 1504176606),
                              ("t10k-images-idx3", 1504176627), ("t10k-labels-idx1", 1504176627)):
            content = (FASHION / f"{name}-ubyte.gz").read_bytes()
            header = b"\x1f\x8b\x08\x08" + struct.pack("<I", seconds) + b"\0\x03" + f"{name}-ubyte\0".encode()
            (self.home / f"{name}-ubyte.gz").write_bytes(header + content[10:])
        outcome = self.distbelief("data", "get", "fashion_mnist", "--mirror", self.server.url, "--to", self.to)
        self.assertIn("30.9 MB fetched", outcome.out)
        self.assertIn("60000 to train on", self.distbelief("data", "info", "fashion_mnist", "--data-dir", self.to).out)
        self.assertIn("is installed in", self.distbelief("data", "get", "fashion_mnist").out)

    def test_what_is_not_there(self):
        (self.home / "b.bin").unlink()
        self.assertIn("404", self.get(code=1).err)
        self.assertIn("did you mean 'mnist'", self.distbelief("data", "get", "mnits", code=2).err)


if __name__ == "__main__":
    program.main()
