"""Bad input and broken runs: a clear error, the right exit code, and nothing left behind."""
import gzip
import json
import os
import re
import signal
import socket
import struct
import time

import program
from program import ENDLESS, MLP, PROGRAM, settings


class ErrorsTest(program.ProgramTest):
    """setUp and tearDown hold every test to leaving no process, segment or temporary file."""

    def refused(self, *arguments, code=2):
        """What `train` says about a job that it will not start; no run folder may appear."""
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", *arguments, code=code)
        self.assertFalse((self.scratch / "run").exists(), "a run folder was made")
        self.assertTrue(outcome.err.startswith("distbelief: "), outcome.err)
        return outcome.err

    def job_file(self, text):
        path = self.scratch / "job.toml"
        path.write_text(text)
        return path

    def idx_folder(self, samples=32):
        folder = self.scratch / "idx"
        folder.mkdir()
        for part in ("train", "t10k"):
            images = struct.pack(">4B3i", 0, 0, 8, 3, samples, 8, 8) + bytes(range(64)) * samples
            labels = struct.pack(">4Bi", 0, 0, 8, 1, samples) + bytes(i % 10 for i in range(samples))
            (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
            (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
        return folder

    def idx_job(self, folder):
        return ["--data-dir", folder, *settings({"model.name": "mlp", "data.name": "mnist", "train.batch_size": 8})]


class JobFileTest(ErrorsTest):
    def test_a_misspelt_key_names_file_line_and_the_nearest_key(self):
        error = self.refused(self.job_file("[model]\nname = \"mlp\"\n\n[train]\nepcohs = 3\n"))
        self.assertRegex(error, r"job\.toml:5\b")
        self.assertIn("train.epcohs", error)
        self.assertIn("train.epochs", error)

    def test_a_misspelt_option_of_a_model_names_file_line_and_the_nearest(self):
        error = self.refused(self.job_file("[model]\nname = \"mlp\"\nhiden = [3]\n"))
        self.assertRegex(error, r"job\.toml:3\b")
        self.assertIn("hidden", error)

    def test_misspelt_names_in_a_job_file(self):
        for line, text, near in ((2, '[model]\nname = "resnett18"\n', "resnet18"),
                                 (2, '[data]\nname = "fashion_mnits"\n', "fashion_mnist"),
                                 (3, '[model]\nname = "cnn"\nactivation = "gelo"\n', "gelu"),
                                 (3, '[model]\nname = "resnet18"\nstem = "cifra"\n', "cifar")):
            error = self.refused(self.job_file(text))
            self.assertRegex(error, rf"job\.toml:{line}\b")
            self.assertIn(f"did you mean '{near}'?", error)

    def test_settings_that_nothing_would_read(self):
        for changes, named in (({"train.label_smoothing": 0.1, "model.name": "autoencoder", "model.code": 4}, "train.label_smoothing"),
                               ({"train.loss": "mse", "train.task": "few_labels", "train.labelled": 0.5}, "train.loss"),
                               ({"train.loss": "nll"}, "log-probabilities")):
            self.assertIn(named, self.refused("--workers", 1, *settings({**MLP, **changes})))

    def test_momentum_beside_replicas_at_their_own_pace_is_advised_against(self):
        served = {**MLP, "parallel.sync": "parameter_server", "parallel.mode": "async", "parallel.lanes": 1}
        for momentum, told in ((0.9, True), (0.0, False)):
            run = self.distbelief("check", *settings({**served, "train.momentum": momentum}), "--workers", 2)
            self.assertEqual("adagrad" in run.err, told, run.err)

    def test_bounds_that_contradict_the_number_of_workers(self):
        self.assertIn("elastic.min", self.refused("--workers", 2, *settings({**MLP, "elastic.min": 3})))
        self.assertIn("elastic.max", self.refused("--workers", 2, *settings({**MLP, "elastic.max": 1})))
        self.assertIn("/nope", self.refused("--workers", 2, *settings({**MLP, "elastic.certs": "/nope"})))

    def test_check_refuses_what_train_would(self):
        for flags, named in ((settings({**MLP, "elastic.certs": "/nope"}), "/nope"),
                             (settings({**MLP, "train.init_partial": True}), "train.init"),
                             ([*settings(MLP), "--workers", 3, "--hosts", "a:1,b:1"], "disagree")):
            self.assertIn(named, self.distbelief("check", *flags, code=2).err)

    def test_check_counts_the_workers_of_hosts_without_asking_them(self):
        answer = json.loads(self.distbelief("check", *settings(MLP), "--hosts", "a:1,b:3", "--json").out)
        self.assertEqual((answer["workers"], answer["lanes"]), (4, 4))

    def test_faults_that_cannot_happen(self):
        for fault in ("kill:rank=9,step=1", "slow:factor=0"):
            self.assertIn(fault, self.refused("--workers", 2, *settings(MLP), "--inject", fault))

    def test_a_wrong_type(self):
        error = self.refused(self.job_file("[train]\nlr = \"fast\"\n"))
        self.assertRegex(error, r"job\.toml:2\b")
        self.assertIn("train.lr", error)
        self.assertIn("number", error)

    def test_broken_toml_and_no_file(self):
        self.assertRegex(self.refused(self.job_file("[train\n")), r"job\.toml:1\b")
        self.assertIn("absent.toml", self.refused("absent.toml"))

    def test_an_impossible_mix(self):
        error = self.refused(self.job_file("[train]\nclip_norm = 1.0\n[parallel]\noverlap = \"update\"\n"))
        self.assertRegex(error, r"job\.toml:4\b")
        self.assertIn("clip_norm", error)

    def test_more_workers_than_lanes(self):
        error = self.refused(*settings({**MLP, "parallel.lanes": 2}), "--workers", 3)
        self.assertIn("parallel.lanes", error)

    def test_a_model_that_no_memory_holds(self):
        job = {**MLP, "model.hidden": [1_000_000_000, 1_000_000_000]}
        self.assertRegex(self.refused(*settings(job), code=1), "could not build model 'mlp': .*can't allocate memory.* [0-9]{12}")

    def test_the_setting_that_is_at_fault_is_named(self):
        self.assertIn("data.test_samples=0: option 'test_samples' ", self.refused(*settings({**MLP, "data.test_samples": 0})))

    def test_an_unknown_model_and_an_unknown_data_set(self):
        self.assertIn("resnet18", self.refused(*settings({**MLP, "model.name": "resnet81"})))
        error = self.refused(*settings({"model.name": "mlp", "data.name": "fashon_mnist"}))
        self.assertIn("fashion_mnist", error)

    def test_bad_flags(self):
        for flags in (["--workers", "0"], ["--workers", "many"], ["--nonsense"], ["--hosts", "a:0"],
                      ["--set", "train.lr"], ["--set", "train.lr=0.1x"]):
            outcome = self.distbelief("train", "--run-dir", self.scratch / "run", *flags, code=2)
            self.assertTrue(outcome.err.startswith("distbelief: "), outcome.err)
            self.assertFalse((self.scratch / "run").exists())

    def test_check_gives_the_same_answers_and_starts_nothing(self):
        outcome = self.distbelief("check", self.job_file("[train]\nepcohs = 3\n"), code=2)
        self.assertRegex(outcome.err, r"job\.toml:2\b")
        self.distbelief("check", *settings(MLP))
        self.assertEqual(sorted(path.name for path in self.scratch.iterdir()), ["err", "job.toml", "out", "tmp"])


class DataTest(ErrorsTest):
    def test_a_missing_folder_is_named(self):
        error = self.refused(*self.idx_job(self.scratch / "nowhere"), code=1)
        self.assertIn(f"the folder '{self.scratch / 'nowhere'}' is missing", error)
        self.assertRegex(error, "train-(images-idx3|labels-idx1)-ubyte")

    def test_a_missing_file_is_named(self):
        folder = self.idx_folder()
        (folder / "t10k-labels-idx1-ubyte.gz").unlink()
        self.assertIn("t10k-labels-idx1-ubyte", self.refused(*self.idx_job(folder), code=1))

    def test_a_truncated_file_is_named_with_the_offset(self):
        folder = self.idx_folder()
        path = folder / "train-images-idx3-ubyte.gz"
        path.write_bytes(path.read_bytes()[:-12])
        error = self.refused(*self.idx_job(folder))
        self.assertIn("train-images-idx3-ubyte.gz", error)
        self.assertRegex(error, r"byte \d+.* cut short")

    def test_content_that_ends_early_is_named_with_the_offset(self):
        folder = self.idx_folder()
        path = folder / "train-images-idx3-ubyte.gz"
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-5]))
        error = self.refused(*self.idx_job(folder))
        self.assertIn("train-images-idx3-ubyte.gz", error)
        self.assertRegex(error, rf"byte {16 + 64 * 32 - 5}\b")

    def test_lying_headers(self):
        folder = self.idx_folder()
        labels = folder / "train-labels-idx1-ubyte.gz"
        content = bytearray(gzip.decompress(labels.read_bytes()))
        for damage, offset in ((lambda c: c.__setitem__(8 + 3, 99), 8 + 3), (lambda c: c.__setitem__(2, 9), 2)):
            damaged = bytearray(content)
            damage(damaged)
            labels.write_bytes(gzip.compress(damaged))
            error = self.refused(*self.idx_job(folder))
            self.assertIn("train-labels-idx1-ubyte.gz", error)
            self.assertRegex(error, rf"byte {offset}\b")

    def test_fewer_labels_than_images(self):
        folder = self.idx_folder()
        labels = folder / "train-labels-idx1-ubyte.gz"
        labels.write_bytes(gzip.compress(struct.pack(">4Bi", 0, 0, 8, 1, 7) + bytes(7)))
        error = self.refused(*self.idx_job(folder))
        self.assertIn("32", error)
        self.assertIn("7", error)

    def test_augmentation_of_tokens(self):
        self.assertIn("data.augment needs images", self.refused(*settings({**program.GPT, "data.augment": ["flip"]})))

    def test_a_model_that_does_not_fit_the_data(self):
        self.assertIn("gpt", self.refused(*settings({"model.name": "gpt", "data.name": "synthetic"})))
        error = self.refused(*settings({"model.name": "resnet18", "data.name": "synthetic", "data.height": 4,
                                        "data.width": 4}))
        self.assertIn("[1, 4, 4]", error)


class RunFolderTest(ErrorsTest):
    def test_a_folder_that_holds_a_run_already(self):
        self.train("run", MLP)
        before = (self.scratch / "run" / "summary.json").read_bytes()
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", *settings(MLP), code=2)
        self.assertIn("holds a run already", outcome.err)
        self.assertIn("resume", outcome.err)
        self.assertEqual((self.scratch / "run" / "summary.json").read_bytes(), before)

    def test_a_file_is_in_the_way(self):
        (self.scratch / "file").write_text("mine")
        outcome = self.distbelief("train", "--run-dir", self.scratch / "file", *settings(MLP), code=1)
        self.assertIn(str(self.scratch / "file"), outcome.err)
        self.assertIn("--run-dir", outcome.err)
        self.assertEqual((self.scratch / "file").read_text(), "mine")

    def test_a_place_that_cannot_be_written(self):
        # /proc takes no folders, not even root's.
        outcome = self.distbelief("train", "--run-dir", "/proc/distbelief-run", *settings(MLP), code=1)
        self.assertIn("/proc/distbelief-run", outcome.err)


class FullDiskTest(ErrorsTest):
    def test_a_disk_that_is_full(self):
        if os.geteuid() != 0:
            program.cannot("mount a small file system without root")
        # What is left there goes with the mount: it is looked at before.
        script = ('disk=$1; shift; mount -t tmpfs -o size=64k none "$disk" || exit 99; "$@"; code=$?; '
                  'find "$disk" -name "*.tmp*" -o -name "*.partial*" | sed "s/^/left: /"; exit $code')
        (self.scratch / "disk").mkdir()
        job = {**MLP, "model.hidden": [512]}
        outcome = self.command("unshare", "-m", "sh", "-c", script, "sh", self.scratch / "disk", PROGRAM, "train",
                               "--run-dir", self.scratch / "disk" / "run", *settings(job), code=1)
        self.assertIn("no room for the run folder", outcome.err)
        self.assertNotIn("left: ", outcome.out)

    def test_one_that_fills_up_while_it_trains_loses_checkpoints_and_nothing_else(self):
        if os.geteuid() != 0:
            program.cannot("mount a small file system without root")
        # Room until the first checkpoint is there, then none until a save has failed, then room again.
        script = r'''disk=$1; shift; mount -t tmpfs -o size=4m none "$disk" || exit 99; "$@" & run=$!
            wait_for() { for i in $(seq 600); do eval "$1" && return; sleep 0.05; done; echo "never: $1"; }
            wait_for '[ -n "$(ls "$disk"/run/checkpoints/*/manifest.json 2>/dev/null)" ]'
            cat /dev/zero > "$disk/full" 2>/dev/null
            wait_for 'grep -q "no checkpoint at step" "$disk"/run/logs/worker-0.log'
            find "$disk" -name ".tmp*" | sed "s/^/left: /"
            rm "$disk/full"; kill -INT $run; wait $run; echo "ended: $?"
            find "$disk" -name ".tmp*" | sed "s/^/left: /"; ls "$disk/run"'''
        (self.scratch / "disk").mkdir()
        outcome = self.command("unshare", "-m", "sh", "-c", script, "sh", self.scratch / "disk", PROGRAM, "train",
                               "--run-dir", self.scratch / "disk" / "run", *settings({**ENDLESS, "checkpoint.every_steps": 500}))
        self.assertIn("ended: 130", outcome.out, outcome.err)
        self.assertNotIn("left: ", outcome.out)
        self.assertNotIn("never: ", outcome.out)
        self.assertIn("summary.json", outcome.out)

    def test_one_that_is_full_before_the_start_keeps_nothing_so_the_same_command_works_later(self):
        if os.geteuid() != 0:
            program.cannot("mount a small file system without root")
        # Taken up to the last byte, then made room on; what both commands print and exit with.
        script = ('disk=$1; shift; mount -t tmpfs -o size=64m none "$disk" || exit 99; cat /dev/zero > "$disk/full"; '
                  '"$@"; echo "first: $?, left: $(ls "$disk")"; rm "$disk/full"; exec "$@"')
        (self.scratch / "disk").mkdir()
        outcome = self.command("unshare", "-m", "sh", "-c", script, "sh", self.scratch / "disk", PROGRAM, "train",
                               "--run-dir", self.scratch / "disk" / "run", *settings(MLP))
        self.assertRegex(outcome.err, r"no room for the run folder: .* take \d+\.\d MB, but 0\.0 MB are free")
        self.assertIn("first: 1, left: full\n", outcome.out)


class SharedMemoryTest(ErrorsTest):
    def test_too_little_is_said_before_the_start_with_what_is_needed(self):
        if os.geteuid() != 0:
            program.cannot("mount a small /dev/shm without root")
        # What is left there goes with the mount: it is looked at before.
        script = ('mount -t tmpfs -o size=64m none /dev/shm || exit 99; "$@"; code=$?; ls -A /dev/shm | sed "s/^/left: /"; '
                  'exit $code')
        job = {**MLP, "model.hidden": [2048, 2048, 2048, 2048], "train.optimizer": "adam"}
        outcome = self.command("unshare", "-m", "sh", "-c", script, "sh", PROGRAM, "train", "--run-dir",
                               self.scratch / "run", "--workers", 2, *settings(job), code=1)
        self.assertIn("/dev/shm", outcome.err)
        needed = [float(number) for number in re.findall(r"([\d.]+) MB", outcome.err)]
        self.assertTrue(any(number > 64 for number in needed), outcome.err)
        self.assertFalse((self.scratch / "run").exists())
        self.assertNotIn("left: ", outcome.out)
        outcome = self.command("unshare", "-m", "sh", "-c", script, "sh", PROGRAM, "train", "--run-dir",
                               self.scratch / "small", "--workers", 2, *settings(MLP))
        self.assertNotIn("left: ", outcome.out)


        # One worker shares nothing with others; snapshots are what it takes.
        alone = {**job, "model.hidden": [4096, 4096]}
        outcome = self.command("unshare", "-m", "sh", "-c", script, "sh", PROGRAM, "check", "--workers", 1, *settings(alone), code=1)
        self.assertRegex(outcome.err, r"mlp with 1 worker needs ([\d.]+) MB; .* or do without snapshots, which take \1 MB of it "
                                      r"\(checkpoint.snapshots = false\)")
        self.assertNotIn("fewer", outcome.err)
        self.command("unshare", "-m", "sh", "-c", script, "sh", PROGRAM, "check", "--workers", 1, *settings(alone),
                     "--set", "checkpoint.snapshots=false")


class LauncherRefusalTest(ErrorsTest):
    """Under mpirun, where no supervisor looks first."""

    def refused(self, *arguments, code=2, before=()):
        outcome = self.command(*before, *program.mpirun(2), PROGRAM, "train", "--run-dir", self.scratch / "run", *arguments,
                               code=code)
        self.assertFalse((self.scratch / "run").exists(), "a run folder was made")
        complaints = re.findall(r"(?m)^distbelief: (.*)", outcome.err)
        self.assertEqual(len(complaints), 1, outcome.err)  # of two workers
        return complaints[0]

    def test_what_is_refused_leaves_nothing_so_the_corrected_command_works(self):
        nowhere = self.scratch / "nowhere"
        self.assertIn(str(nowhere), self.refused(*self.idx_job(nowhere), code=1))
        unfit = {"model.name": "resnet18", "data.name": "synthetic", "data.height": 4, "data.width": 4}
        self.assertIn("[1, 4, 4]", self.refused(*settings(unfit)))
        run = [*program.mpirun(2), PROGRAM, "train", "--run-dir", self.scratch / "run", *settings(MLP)]
        self.command(*run)
        before = (self.scratch / "run" / "summary.json").read_bytes()
        self.assertEqual(self.command(*run, code=2).err.count("holds a run already"), 1)
        for flags, complaint in ((("--workers", 3), "--workers 3 under a launcher that started 1"),
                                 (("--hosts", "a:1", "--hostfile", "hosts"), "leave out --hosts, --hostfile: ")):
            self.assertIn(complaint, self.command(*program.mpirun(1), PROGRAM, "resume", self.scratch / "run", *flags, code=2).err)
        self.assertEqual((self.scratch / "run" / "summary.json").read_bytes(), before)

    def test_what_only_a_supervisor_can_do_is_refused(self):
        for flags, complaint in ((("--workers", 2), "--workers 2 under a launcher that started 1"),
                                 (("--hosts", "a:1", "--hostfile", "hosts", "--servers-at", "127.0.0.1:1",
                                   "--inject", "kill:rank=0,step=1"), "leave out --hosts, --hostfile, --servers-at, --inject: "),
                                 (("--set", "parallel.sync=parameter_server"), "nobody starts under mpirun"),
                                 (("--set", "elastic.hostfile=hosts", "--set", "elastic.discovery=hosts",
                                   "--set", 'elastic.spares=["a:1"]', "--set", "elastic.standby=true", "--set", "elastic.auto=true"),
                                  "leave out elastic.hostfile, elastic.discovery, elastic.spares, elastic.standby, elastic.auto: ")):
            outcome = self.command(*program.mpirun(1), PROGRAM, "train", "--run-dir", self.scratch / "run", *settings(MLP),
                                   *flags, code=2)
            self.assertIn(complaint, outcome.err)
            self.assertFalse((self.scratch / "run").exists(), "a run folder was made")

    def test_workers_of_different_instruction_sets_are_refused(self):
        if self.distbelief("host").out.startswith("baseline "):
            program.cannot("use another instruction set than baseline")
        train = [PROGRAM, "train", "--run-dir", self.scratch / "run", *settings(MLP)]
        outcome = self.command(*program.mpirun(1), "env", "DISTBELIEF_ISA=baseline", *train, ":", "-n", 1,
                               "env", "-u", "DISTBELIEF_ISA", *train, code=2)
        self.assertRegex(outcome.err, "would compute different bits: worker 0 has .*baseline.*worker 1 has .*DISTBELIEF_ISA")
        self.assertFalse((self.scratch / "run").exists(), "a run folder was made")

    def test_too_little_shared_memory_is_said_before_the_start(self):
        if os.geteuid() != 0:
            program.cannot("mount a small /dev/shm without root")
        script = 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"'
        job = {**MLP, "model.hidden": [2048, 2048, 2048, 2048], "train.optimizer": "adam"}
        error = self.refused(*settings(job), code=1, before=["unshare", "-m", "sh", "-c", script, "sh"])
        self.assertIn("/dev/shm", error)


class LauncherTest(ErrorsTest):
    def test_ctrl_c_saves_and_leaves_nothing_within_two_seconds(self):
        child = self.start_training("run", ENDLESS, launcher=program.mpirun(2))
        began = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 10)
        self.assert_all_gone(within=max(0.1, began + 2 - time.monotonic()))
        self.assertLess(time.monotonic() - began, 2.1)
        self.assertIn(outcome.code, (1, 130), outcome.err)  # the launcher's own, whatever ours is; Open MPI: 1
        self.assertTrue(program.lines_of(self.scratch / "run" / "metrics.jsonl"))
        self.assertEqual(self.summary("run")["status"], "interrupted")
        self.assertTrue(list((self.scratch / "run" / "checkpoints").glob("step-*/manifest.json")))
        self.assert_nothing_left()


class StoppedStartTest(ErrorsTest):
    def test_a_worker_that_never_comes_to_mpi_does_not_hold_the_others_for_ever(self):
        # The second process stops itself before it is our program.
        script = 'test "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 || kill -STOP $$; exec "$@"'
        job = {**MLP, "parallel.deadline_seconds": 1}  # a minute is given all the same
        outcome = self.command(*program.mpirun(2), "sh", "-c", script, "sh", PROGRAM, "train", "--run-dir",
                               self.scratch / "run", *settings(job), code=1)
        self.assertRegex(outcome.err, r"distbelief: .*MPI_Init_thread did not end within 60 s")
        self.assertFalse((self.scratch / "run").exists())

    def test_a_worker_that_never_leaves_mpi_does_not_hold_the_others_for_ever(self):
        source, library = self.scratch / "stop.c", self.scratch / "stop.so"
        source.write_text("""#define _GNU_SOURCE
            #include <dlfcn.h>
            #include <signal.h>
            #include <stdlib.h>
            int MPI_Finalize(void) {
              const char* rank = getenv("OMPI_COMM_WORLD_RANK");
              if (rank == NULL) rank = getenv("PMI_RANK");
              if (rank != NULL && *rank == '1') raise(SIGSTOP);
              return ((int (*)(void))dlsym(RTLD_NEXT, "MPI_Finalize"))();
            }""")
        self.command("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
        job = {**MLP, "parallel.deadline_seconds": 1}
        outcome = self.command(*program.mpirun(2), "env", f"LD_PRELOAD={library}", PROGRAM, "train", "--run-dir",
                               self.scratch / "run", *settings(job), code=1)
        self.assertRegex(outcome.err, r"distbelief: worker 0: MPI_Finalize did not end within 60 s")
        self.assertEqual(self.summary("run")["status"], "done")


class FailureTest(ErrorsTest):
    def test_a_killed_worker_ends_the_others_at_once_where_restarts_are_off(self):
        for rank in (0, 1):
            child = self.start_training(f"run{rank}", {**ENDLESS, "elastic.restarts": 0}, "--workers", 2)
            os.kill(self.workers()[rank], signal.SIGKILL)
            began = time.monotonic()
            outcome = self.finish(child, 20)
            self.assertEqual(outcome.code, 1, outcome.err)
            self.assertLess(time.monotonic() - began, 5)
            self.assert_nothing_left()
            self.assertTrue(program.lines_of(self.scratch / f"run{rank}" / "metrics.jsonl"))

    def test_a_worker_that_is_killed_while_it_saves_leaves_no_half_of_a_checkpoint(self):
        job = {**ENDLESS, "checkpoint.every_steps": 3, "elastic.restarts": 0}
        self.distbelief("train", "--run-dir", self.scratch / "run", "--workers", 2, *settings(job),
                        "--inject", "kill:rank=0,step=6,point=mid-rename", code=1)
        self.assertTrue((self.scratch / "run" / "checkpoints" / "step-00000003").exists())
        self.assert_nothing_left()

    def test_a_worker_that_stops_answering_is_named_with_operation_and_step(self):
        job = {**ENDLESS, "parallel.deadline_seconds": 3, "elastic.restarts": 0}
        child = self.start_training("run", job, "--workers", 2)
        os.kill(self.workers()[1], signal.SIGSTOP)
        began = time.monotonic()
        outcome = self.finish(child, 30)
        self.assertEqual(outcome.code, 1, outcome.err)
        self.assertTrue(2.5 < time.monotonic() - began < 12, time.monotonic() - began)
        self.assertRegex(outcome.err, r"worker 0: .*(worker|rank)s? 1\b.*\[in [a-z].*\] \[step \d+\]")
        self.assertRegex(outcome.err, r"3(\.0)? ?s")

    def never_answered(self, part, *threads):
        """The end of a run on packed slices in which these threads do not come back from the files of one part, as with
        a dead NFS server, and cannot be told to."""
        source, library = self.scratch / "hang.c", self.scratch / "hang.so"
        source.write_text("""#define _GNU_SOURCE
            #include <dlfcn.h>
            #include <pthread.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <string.h>
            #include <sys/types.h>
            #include <unistd.h>
            static ssize_t hang_or(const char* name, int file, void* to, size_t count, off_t offset) {
              char thread[32] = "", link[64], path[4096] = "";
              pthread_getname_np(pthread_self(), thread, sizeof thread);
              snprintf(link, sizeof link, "/proc/self/fd/%d", file);
              const int is_part = readlink(link, path, sizeof path - 1) > 0 && strstr(path, getenv("HANGING_PART"));
              while (is_part && thread[0] && strstr(getenv("HANGING_THREADS"), thread)) pause();
              return ((ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, name))(file, to, count, offset);
            }
            ssize_t pread(int f, void* t, size_t n, off_t o) { return hang_or("pread", f, t, n, o); }
            ssize_t pread64(int f, void* t, size_t n, off_t o) { return hang_or("pread64", f, t, n, o); }""")
        self.command("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
        self.distbelief("data", "pack", "synthetic", self.scratch / "packed", *settings(
            {key: value for key, value in MLP.items() if key.startswith("data.") and key != "data.name"}))
        job = {key: value for key, value in MLP.items() if not key.startswith("data.")}
        job |= {"data.name": "packed", "data.path": str(self.scratch / "packed"), "parallel.deadline_seconds": 2}
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", "--workers", 2,
                                  *settings({**job, "elastic.restarts": 0}), code=1,
                                  env={**self.environment, "LD_PRELOAD": str(library), "HANGING_THREADS": " ".join(threads), "HANGING_PART": f"/{part}-"})
        self.assertLess(outcome.seconds, 25)
        self.assert_nothing_left()
        return outcome.err

    def test_data_that_never_answer_end_the_run_with_the_place_that_waited(self):
        self.assertRegex(self.never_answered("train", "db-loader", "db-slices"),
                         r"distbelief: worker \d: .*the data source did not answer.*load batch.*\[step 0\]")

    def test_so_do_data_to_test_on(self):
        self.assertRegex(self.never_answered("test", "db-reader", "db-slices"),  # whichever comes first
                         r"distbelief: worker \d: .*the data source did not answer.*\[in validate\].*\[step [1-9]\d*\]")

    def test_a_disk_that_takes_longer_than_the_deadline_ends_nothing(self):
        source, library = self.scratch / "slow.c", self.scratch / "slow.so"
        source.write_text("""#define _GNU_SOURCE
            #include <dlfcn.h>
            #include <pthread.h>
            #include <string.h>
            #include <unistd.h>
            int fsync(int file) {
              char thread[32] = "";
              pthread_getname_np(pthread_self(), thread, sizeof thread);
              if (strcmp(thread, "db-checkpoint") == 0 || strcmp(thread, "db-patience") == 0) usleep(700000);
              return ((int(*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
            }""")
        self.command("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
        job = {**MLP, "parallel.deadline_seconds": 1, "elastic.restarts": 0, "checkpoint.snapshots": False}
        outcome = self.distbelief("train", "--run-dir", "run", "--workers", 2, *settings(job),
                                  env={**self.environment, "LD_PRELOAD": str(library)})
        self.assertGreater(outcome.seconds, 5, "nothing was slow")
        self.assertEqual(self.summary("run")["status"], "done")
        self.assertEqual(self.events("run", "lost"), [])

    def test_one_that_throws_in_a_step_is_shown_with_its_rank_and_ends_the_others_at_once(self):
        job = {**ENDLESS, "report.interval_seconds": 0.0, "elastic.restarts": 0}  # a line for each step
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", "--workers", 3, *settings(job),
                                  "--inject", "throw:rank=1,step=20", code=1)
        ended = time.time()
        self.assertRegex(outcome.err, r"distbelief: worker 1: .*injected fault.*\[step 20\]")
        last = program.lines_of(self.scratch / "run" / "metrics.jsonl")[-1]
        self.assertLessEqual(last["step"], 20)
        self.assertLess(ended - last["unix_seconds"], 5)

    def test_one_that_throws_at_the_start_ends_the_others(self):
        # Worker 1 alone cannot open its log: a folder is in the way.
        (self.scratch / "run" / "logs" / "worker-1.log").mkdir(parents=True)
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", "--workers", 3, *settings(ENDLESS), code=1)
        self.assertRegex(outcome.err, r"distbelief: worker 1: .*worker-1\.log")
        self.assertLess(outcome.seconds, 20)

    def test_a_loss_that_is_no_number_shows_rank_message_and_step(self):
        # A learning rate that no network survives: the loss is no number any more.
        outcome = self.distbelief("train", "--run-dir", self.scratch / "run", "--workers", 2,
                                  *settings({**MLP, "train.epochs": 50, "train.lr": 1e30}), code=1)
        self.assertRegex(outcome.err, r"distbelief: worker \d: ")
        self.assertIn("loss", outcome.err)
        self.assertRegex(outcome.err, r"step \d+")
        self.assertIn("logs", outcome.err)

    def test_a_killed_supervisor_takes_its_workers_along(self):
        child = self.start_training("run", ENDLESS, "--workers", 2)
        self.assertEqual(len(self.workers()), 2)
        os.kill(child.pid, signal.SIGKILL)
        self.finish(child, 5)
        self.assert_all_gone(within=5)


class InterruptTest(ErrorsTest):
    def interrupt(self, send, name="run", **changes):
        child = self.start_training(name, {**ENDLESS, **changes}, "--workers", 2)
        began = time.monotonic()
        send(child.pid)
        outcome = self.finish(child, 10)
        self.assert_all_gone(within=max(0.1, began + 2 - time.monotonic()))
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertLess(time.monotonic() - began, 2.1)
        self.assertIn(f"distbelief resume {name}", outcome.err)
        self.assertTrue(program.lines_of(self.scratch / name / "metrics.jsonl"))
        summary = self.summary(name)
        self.assertEqual(summary["status"], "interrupted")
        self.assertGreater(summary["steps"], 0)
        self.assertTrue(list((self.scratch / name / "checkpoints").glob("step-*/manifest.json")))
        self.assert_nothing_left()

    def test_after_the_last_step_the_run_is_done(self):
        job = {**MLP, "train.epochs": 1000, "train.validate_every": 0, "checkpoint.every_epochs": 0, "data.test_samples": 20_000}
        child = self.start([PROGRAM, "train", "--run-dir", "run", *settings(job), "--workers", "2"])
        lines = lambda: program.lines_of(self.scratch / "run" / "metrics.jsonl")
        self.wait_until(lambda: any(line["step"] == 4000 for line in lines()), "the last step was done")
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertEqual(self.summary("run")["status"], "done")
        self.assertNotIn("interrupted", outcome.err)

    def test_the_last_interval_is_kept(self):
        child = self.start_training("run", ENDLESS, "--workers", 2, "--set", "report.interval_seconds=0.5")
        os.kill(child.pid, signal.SIGINT)
        self.assertEqual(self.finish(child, 10).code, 130)
        lines = [line for line in program.lines_of(self.scratch / "run" / "metrics.jsonl") if "loss" in line]
        self.assertEqual(lines[-1]["step"], self.summary("run")["steps"])

    def test_ctrl_c_to_the_supervisor_alone(self):
        self.interrupt(lambda pid: os.kill(pid, signal.SIGINT))

    def test_ctrl_c_to_the_process_group(self):
        self.interrupt(lambda pid: os.killpg(pid, signal.SIGINT))

    def test_termination(self):
        self.interrupt(lambda pid: os.kill(pid, signal.SIGTERM))

    def test_ctrl_c_during_the_start(self):
        child = self.start([PROGRAM, "train", "--run-dir", "run", *settings(ENDLESS), "--workers", "2"])
        self.wait_until(lambda: len(self.workers()) == 2, "the workers were started")
        began = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertLess(time.monotonic() - began, 2.1)
        # There is nothing to resume: the same command begins again.
        self.assertIn("nothing was saved yet", outcome.err)
        refusal = self.distbelief("resume", "run", code=2).err
        self.assertRegex(refusal, r"has no whole checkpoint .* train again\n")
        (self.scratch / "run" / "notes").write_text("mine")
        self.assertGreater(self.train("run", MLP, "--workers", 2)["steps"], 0)
        self.assertEqual(len(self.events("run", "ended")), 1, "files of the run before were kept")
        self.assertTrue((self.scratch / "run" / "notes").exists())
        self.assertIn("go on with it: distbelief resume", self.distbelief("train", "--run-dir", "run", *settings(MLP), code=2).err)

    def test_ctrl_c_while_the_data_are_looked_at(self):
        server = socket.create_server(("127.0.0.1", 0))  # connects, and never answers
        self.addCleanup(server.close)
        server.settimeout(30)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/set"
        child = self.start([PROGRAM, "train", "--run-dir", "run", *settings({"data.name": "packed", "data.path": address})])
        self.addCleanup(server.accept()[0].close)
        began = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertLess(time.monotonic() - began, 2.1)
        self.assertFalse((self.scratch / "run").exists())
        self.assert_nothing_left()

    def test_ctrl_c_while_a_cache_is_packed(self):
        job = {**MLP, "data.samples": 20_000_000, "data.cache": "cache"}
        for command in (["train", "--run-dir", "run"], ["plan", "--workers", "2"]):
            with self.subTest(command=command[0]):
                self.packing_ends_at_once([PROGRAM, *command, *settings(job)])

    def packing_ends_at_once(self, command):
        child = self.start(command)
        packed = lambda: [path for path in (self.scratch / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
        self.wait_until(packed, "the cache is packed")
        began = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertLess(time.monotonic() - began, 2.1)
        self.assertEqual(packed(), [])
        self.assertFalse((self.scratch / "run").exists())
        self.assert_nothing_left()

    def test_nohup_outlives_the_terminal(self):
        child = self.start([PROGRAM, "train", "--run-dir", "run", *settings(ENDLESS), "--workers", "2"],
                           preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        last = lambda: max((line["unix_seconds"] for line in program.lines_of(self.scratch / "run" / "metrics.jsonl")), default=0)
        self.wait_until(lambda: last() > 0, "the run took steps")
        os.killpg(child.pid, signal.SIGHUP)
        sent = time.time()
        # One that heard of it would have ended by then.
        self.wait_until(lambda: last() > sent + 2 or child.poll() is not None, "the run goes on")
        self.assertIsNone(child.poll(), self.shown())
        os.killpg(child.pid, signal.SIGTERM)
        self.assertEqual(self.finish(child, 10).code, 130)

    def test_ctrl_c_with_a_stopped_worker(self):
        child = self.start_training("run", ENDLESS, "--workers", 2)
        os.kill(self.workers()[1], signal.SIGSTOP)
        began = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assert_all_gone(within=max(0.1, began + 2 - time.monotonic()))
        # Nobody could save: the newest snapshot is put aside, and the run goes on from it.
        self.assert_nothing_left()
        self.assertEqual(list((self.scratch / "run" / "checkpoints").glob("step-*")), [])
        self.assertRegex(outcome.err, "the newest state is in run/snapshots.memory; resume goes on from it")
        self.assertIn("go on with: distbelief resume run", outcome.err)
        steps = 1 + program.lines_of(self.scratch / "run" / "metrics.jsonl")[-1]["step"]
        file = self.scratch / "run" / "snapshots.memory"
        self.assertIn("not read under mpirun", self.command(*program.mpirun(1), PROGRAM, "resume", self.scratch / "run", code=2).err)
        self.assertIn("not read with checkpoint.snapshots = false", self.distbelief("resume", "run", "--set", "checkpoint.snapshots=false", code=2).err)
        before = file.read_bytes()
        child = self.start([PROGRAM, "resume", "run", "--set", "elastic.restarts=0"])
        self.wait_until(self.workers, "workers are there")
        for pid in self.workers().values():
            os.kill(pid, signal.SIGKILL)  # before their first step
        self.assertEqual(self.finish(child, 20).code, 1)
        self.assertEqual(file.read_bytes(), before, "a resume that came to nothing leaves what it was to go on from")
        self.assert_nothing_left()
        self.distbelief("resume", "run", "--set", f"train.max_steps={steps}")
        resumed = [line for line in program.lines_of(self.scratch / "run" / "events.jsonl") if line["event"] == "resumed"]
        self.assertGreater(resumed[0]["step"], 0)
        self.assertFalse(file.exists())

    def test_ctrl_c_before_anything_could_be_saved_offers_no_resume(self):
        child = self.start_training("run", {**ENDLESS, "checkpoint.snapshots": False}, "--workers", 2)
        os.kill(self.workers()[1], signal.SIGSTOP)
        os.kill(child.pid, signal.SIGINT)
        outcome = self.finish(child, 10)
        self.assertEqual(outcome.code, 130, outcome.err)
        self.assertIn("nothing was saved yet", outcome.err)
        self.assertNotIn("distbelief resume", outcome.err)
        refusal = self.distbelief("train", "--run-dir", "run", *settings(MLP), code=2).err  # it has measured something
        self.assertIn("saved nothing to go on from; name another --run-dir, or remove that run", refusal)


if __name__ == "__main__":
    program.main()
