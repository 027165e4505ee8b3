"""A failure ends at once, with one line that says why and the exit code that fits."""

import os
import resource
import shutil
import signal
import stat
import time

import support

# Does not end by itself while a test looks at it.
ENDLESS = ["--epochs=1000", "--checkpoint-every=50"]


class Failure(support.TrainerTest):
    def complaint(self, worker):
        """The trainer's own lines on stderr."""
        return [l for l in worker.text("err").splitlines() if l.startswith("ddprun-train")]

    def data_with(self, name, change):
        root = self.path("data")
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(support.MNIST, root)
        change(os.path.join(root, name))
        return root

    def test_data_that_cannot_be_used(self):
        root = self.data_with("train-labels-idx1-ubyte.gz", os.unlink)
        worker = self.run_alone(["--data-root=" + root], expect=2)
        (line,) = self.complaint(worker)
        self.assertIn("neither train-labels-idx1-ubyte nor", line)
        self.assertIn(root, line)
        self.assertFalse(os.path.exists(self.checkpoints), "nothing may have been started")

    def test_must_resume_what_is_not_there(self):
        workers = self.run_world(["--resume=must"], ranks=2, expect=2)
        self.assertIn("there is no checkpoint in", self.complaint(workers[0])[-1])
        self.assertIn("rank 0 did not start: --resume=must, but there is no checkpoint", self.complaint(workers[1])[-1])

    def test_directory_that_cannot_be_written(self):
        open(self.path("file"), "w").close()
        worker = self.run_alone(["--checkpoint-dir=" + self.path("file/ckpt")], expect=1)
        self.assertIn("file/ckpt", self.complaint(worker)[-1])

    def test_directory_in_use_by_another_run(self):
        (holder,) = self.start(ENDLESS, run="holder")
        self.assertTrue(holder.wait_for_step(1))
        (intruder,) = self.run_world(ENDLESS, run="intruder", expect=76)
        self.assertIn("holder", self.complaint(intruder)[-1])
        self.assertIn("in use", self.complaint(intruder)[-1])
        self.assertIsNone(holder.process.poll())

    def test_a_superseded_generation_stops_by_itself(self):
        (old,) = self.start(ENDLESS, generation=1)
        self.assertTrue(old.wait_for_step(100))
        (new,) = self.start(ENDLESS, generation=2)
        self.assertEqual(old.wait(), 76)
        self.assertTrue(new.wait_for_step(200))
        self.assertIn("generation 2", self.complaint(old)[-1])

    def test_a_dead_peer_ends_the_others_at_once(self):
        ends = {"gloo": "(closed|reset) by peer", "shm": r"the process of rank \d has ended"}
        for victim, backend in ((0, "gloo"), (1, "shm")):
            self.checkpoints = self.path(f"ckpt-{backend}{victim}")
            workers = self.start(ENDLESS + ["--backend=" + backend], ranks=2)
            self.assertTrue(workers[0].wait_for_step(20))
            survivor = workers[1 - victim]
            killed_at = time.monotonic()
            workers[victim].kill()
            self.assertEqual(survivor.wait(), 75)
            took = time.monotonic() - killed_at
            print(f"rank {1 - victim} ended {1000 * took:.0f} ms after its peer ({backend})", flush=True)
            self.assertRegex(self.complaint(survivor)[-1],
                             rf"a peer of rank {1 - victim} is gone: .*{ends[backend]}")

    def test_a_silent_peer_counts_as_gone_after_the_timeout(self):
        workers = self.start(ENDLESS + ["--collective-timeout=3", "--backend=gloo"], ranks=2)
        self.assertTrue(workers[0].wait_for_step(20))
        workers[1].kill(signal.SIGSTOP)
        self.assertEqual(workers[0].wait(), 75)
        self.assertRegex(self.complaint(workers[0])[-1], "a peer of rank 0 is gone: .*[Tt]imed out")

    def test_a_peer_that_never_comes(self):
        workers = self.start(["--collective-timeout=1"], ranks=2)
        workers[1].kill(signal.SIGSTOP)
        self.assertEqual(workers[0].wait(), 75)
        self.assertIn("rank 0 cannot join the world of 2 ranks at the store",
                      workers[0].text("err"))

    def test_no_store(self):
        (worker,) = self.start(["--collective-timeout=1"],
                               environment={"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2})
        self.assertEqual(worker.wait(), 75)
        self.assertIn("127.0.0.1:1", self.complaint(worker)[-1])

    # Said by every rank alike, whatever is missing here: plug-in, driver or GPU.
    def test_a_gpu_that_is_not_there_is_refused(self):
        no_gpu = {"CUDA_VISIBLE_DEVICES": ""}
        for worker in self.start(["--epochs=1", "--device=cuda"], ranks=2, environment=no_gpu):
            self.assertEqual(worker.wait(), 2, worker.text("err"))
            (line,) = self.complaint(worker)
            self.assertIn("--device=cuda needs a GPU: ", line)
            self.assertIn("--device=cpu --backend=auto trains without one", line)
        worker = self.run_alone(["--device=cpu", "--backend=nccl"], expect=2)
        self.assertIn("--backend=nccl is for GPUs", worker.text("err"))
        self.assertFalse(os.path.exists(self.checkpoints), "nothing may have been started")

    def test_backend_is_chosen_by_where_the_ranks_are(self):
        short = ["--model=toy", "--epochs=1", "--checkpoint-every=1000"]
        two_nodes = {"LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
        interface = {"GLOO_SOCKET_IFNAME": "lo,other"}
        cases = [([], None, "through shared memory"),
                 ([], two_nodes, "through Gloo (not all ranks are of one node)"),
                 (["--backend=shm"], two_nodes, "through shared memory"),
                 (["--backend=gloo"], interface, "through Gloo (--backend=gloo)")]
        for i, (flags, environment, says) in enumerate(cases):
            with self.subTest(says, flags=flags):
                workers = self.run_world(short + flags + [f"--checkpoint-dir=c{i}"], ranks=2,
                                         environment=environment)
                self.assertIn("the ranks talk " + says, workers[0].text("err"))
        workers = self.run_world(["--backend=gloo"], ranks=2, environment={"GLOO_SOCKET_IFNAME": "nope9"}, expect=1)
        self.assertIn("nope9", self.complaint(workers[0])[-1])

    def test_ranks_that_were_started_differently_say_so_and_ask_not_to_be_restarted(self):
        # Whichever backend they would have met through.
        for worker in self.run_world(["--model=toy"], ranks=2, more={1: ["--backend=gloo"]},
                                     expect=76):
            self.assertIn("--backend is gloo on rank 1, auto on rank 0", worker.text("err"))
            worker.listen()
            self.assertIn("READY", worker.said)
        self.assertFalse(os.path.exists(self.checkpoints))

    def test_metrics_whose_reader_goes_away_do_not_end_the_training(self):
        os.mkfifo(self.path("m.fifo"))
        (worker,) = self.start(["--model=toy", "--epochs=40", "--metrics=m.fifo", "--progress-every=0"])
        with open(self.path("m.fifo"), "rb") as reader:
            self.assertIn(b'"step"', reader.readline())
        self.assertEqual(worker.wait(), 0, worker.text("err"))
        self.assertIn("Broken pipe; nothing more is written to it", worker.text("err"))

    def test_parameters_that_cannot_be_looked_at(self):
        os.symlink("loop", self.path("loop"))
        worker = self.run_alone(["--model=toy", "--init-from=loop"], expect=1)
        self.assertIn("cannot open 'loop'", self.complaint(worker)[-1])

    # A rename over /dev/null would make a file of it.
    def test_results_replace_nothing_but_files(self):
        os.mkfifo(self.path("fifo"))
        os.symlink("elsewhere", self.path("link"))
        os.mkdir(self.path("folder"))
        names = ["fifo", "link", "folder"]
        try:
            os.mknod(self.path("null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
            names.append("null")
        except PermissionError:
            pass  # Needs root.
        modes = {name: os.lstat(self.path(name)).st_mode for name in names}
        for name, flag in zip(names, 2 * ("--result", "--dump-parameters")):
            worker = self.run_alone(["--model=toy", "--epochs=1", f"{flag}={name}"], expect=2)
            (line,) = self.complaint(worker)
            self.assertIn(f"{flag}: '{name}' is not an ordinary file, and is not replaced", line)
        self.assertFalse(os.path.exists(self.checkpoints), "nothing may have been started")
        self.run_world(["--model=toy", "--result=fifo"], ranks=2, expect=2)
        late = {flag: self.start(["--model=toy", "--epochs=2", "--skew=0:20", f"{flag}=late{flag}",
                                  f"--checkpoint-dir=ckpt{flag}"])[0]
                for flag in ("--result", "--dump-parameters")}
        for flag, worker in late.items():
            self.assertTrue(worker.wait_for_step(1))
            os.mkfifo(self.path("late" + flag))
        for flag, worker in late.items():
            self.assertEqual(worker.wait(), 2, worker.text("err"))
            self.assertIn(f"{flag}: 'late{flag}' is not an ordinary file", self.complaint(worker)[-1])
            modes["late" + flag] = stat.S_IFIFO | stat.S_IMODE(os.lstat(self.path("late" + flag)).st_mode)
        for name, mode in modes.items():
            self.assertEqual(os.lstat(self.path(name)).st_mode, mode, name)
        self.assertFalse([n for n in os.listdir(self.directory) if n.endswith("part")])

    # After hours of training it would be too late.
    def test_where_results_cannot_be_written_nothing_is_begun(self):
        open(self.path("file"), "w").close()
        for flag, name, code, words in (("--result", "file/result", 1, "Not a directory"),
                                        ("--result", "there/", 2, "must end in a file's name"),
                                        ("--dump-parameters", "n" * 250, 1, "File name too long")):
            worker = self.run_alone(["--model=toy", "--epochs=1", f"{flag}={name}"], expect=code)
            (line,) = self.complaint(worker)
            self.assertIn(words, line)
            self.assertIn(flag, line)
        self.assertFalse(os.path.exists(self.checkpoints), "nothing may have been started")

    def test_curves_where_no_directory_can_be_are_a_wrong_command_line(self):
        open(self.path("file"), "w").close()
        worker = self.run_alone(["--model=toy", "--tensorboard=file"], expect=2)
        self.assertIn("cannot write event files (--tensorboard) in 'file': Not a directory", self.complaint(worker)[-1])

    def test_results_lie_in_directories_that_are_made_and_leave_other_files_alone(self):
        with open(self.path("r.part"), "w") as file:
            file.write("somebody's")
        self.run_alone(["--model=toy", "--epochs=1", "--result=r", "--dump-parameters=new/deep/p"])
        self.assertEqual(self.bytes_of("r.part"), b"somebody's")
        self.assertIn(b'"epochs": 1', self.bytes_of("r"))
        self.assertTrue(self.bytes_of("new/deep/p"))

    # ulimit -f, whose signal would end this process.
    def test_files_that_may_not_grow_do_not_end_the_training(self):
        limits = {resource.RLIMIT_FSIZE: 100_000}
        for epochs, next_start in ((1, "no earlier checkpoint exists: the next start begins anew"),
                                   (2, "the next start continues from the checkpoint before it")):
            arguments = ["--limit-train=640", f"--epochs={epochs}"]
            (worker,) = self.run_world(arguments, limits=limits, generation=2 * epochs - 1, expect=1)
            said = worker.text("err")
            self.assertIn("File too large", said)
            self.assertEqual(said.count("; training continues"), 2 - epochs)  # The first one of step 0.
            self.assertRegex(said, f"could not be saved in '{self.checkpoints}': .*File too large.*; {next_start} "
                                   r"\[checkpoint-space\]")
            self.run_world(arguments, generation=2 * epochs)

    def test_a_checkpoint_directory_that_is_removed_is_named(self):
        (worker,) = self.start(["--model=toy", "--epochs=2", "--skew=0:10"])
        self.assertTrue(worker.wait_for_step(1))
        os.rename(self.checkpoints, self.path("elsewhere"))
        self.assertEqual(worker.wait(), 1, worker.text("err"))
        self.assertRegex(self.complaint(worker)[-1], r"could not be saved in '.*': the fence records in checkpoint directory "
                                                     r"'.*' are gone: was it emptied or unmounted\?; .* \[fence-records-gone\]")

    def test_samples_and_profiles_that_a_disk_refuses_do_not_end_the_training(self):
        arguments = ["--model=toy", "--epochs=5", "--sample-log=samples", "--profile=prof", "--profile-schedule=0,1,5,1"]
        workers = self.start(arguments, ranks=2, limits={resource.RLIMIT_FSIZE: 6144})
        for rank, worker in enumerate(workers):
            self.assertEqual(worker.wait(), 0, worker.text("err"))
            self.assertIn(f"rank-{rank}.jsonl': File too large; nothing more is written to it", worker.text("err"))
            self.assertIn(f"cannot write 'prof/trace-generation-1-rank-{rank}.json': File too large", worker.text("err"))

    # It is saved before anything that may be refused.
    def test_the_training_is_kept_where_the_parameters_have_no_place(self):
        arguments = ["--model=toy", "--epochs=2", "--checkpoint-every=100000", "--dump-parameters=place/p"]
        (worker,) = self.start(arguments + ["--skew=0:20"])
        self.assertTrue(worker.wait_for_step(1))
        os.rename(self.path("place"), self.path("moved"))
        open(self.path("place"), "w").close()
        self.assertEqual(worker.wait(), 1, worker.text("err"))
        self.assertIn("--dump-parameters", self.complaint(worker)[-1])
        self.assertTrue(self.is_finished(), self.lineage())
        os.remove(self.path("place"))
        (worker,) = self.run_world(arguments, generation=2)
        self.assertIn("finished already", worker.text("err"))
        self.assertTrue(self.bytes_of("place/p"))

    # On whatever thread: an end with a line that says so, and the code of a system that failed.
    def test_memory_that_cannot_be_had(self):
        limit = 6 << 30
        with open(self.path("large.safetensors"), "wb") as file:
            file.truncate(limit)
        if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") < limit:
            self.skipTest("needs a machine of 6 GiB, or the file is refused for its size")
        (worker,) = self.run_world(["--model=toy", "--init-from=large.safetensors"], limits={resource.RLIMIT_AS: limit}, expect=1)
        self.assertIn("out of memory", worker.text("err"))
