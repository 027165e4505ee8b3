"""`srun ddprun PROGRAM` with a real Slurm: what is derived in a step, and what goes wrong there."""

import os
import signal

from slurm_runs import DDPRUN, SlurmTest, port_of, read_text

from ddprun_runs import FAKE_WORKER, HELLO, HOLD_CALLS, children_of, command_of, kill_all, read_bytes


class Step(SlurmTest):
    def test_one_agent_per_node_is_all_there_is_to_say(self):
        pattern = self.workers_pattern()
        run = self.step("-N3", "--ntasks-per-node=1", "-c2", DDPRUN, "--nproc-per-node=2", FAKE_WORKER,
                        f"--env-file={pattern}")
        envs = self.environments(pattern, 6)
        job = envs[0]["SLURM_JOB_ID"]
        for rank, env in enumerate(envs):
            self.assertEqual(env["RANK"], str(rank))
            self.assertEqual(env["LOCAL_RANK"], str(rank % 2))
            self.assertEqual(env["SLURM_NODEID"], str(rank // 2), "ranks follow SLURM_NODEID")
            self.assertEqual(env["GROUP_RANK"], env["SLURM_NODEID"])
            self.assertEqual((env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]), ("6", "2"))
            self.assertEqual(env["TORCHELASTIC_RUN_ID"], f"{job}.0.0")
            self.assertEqual(env["MASTER_PORT"], envs[0]["MASTER_PORT"])
        first, _, third, _ = self.cluster.nodes
        self.assertIn(f"Slurm step {job}.0: node 2 of 3, {third}", run.err())
        self.assertIn(f"serving the rendezvous at {first}:{port_of(job + '.0')}", run.err())
        logs = os.listdir(self.path("ddprun_logs"))
        self.assertEqual([name.split("_")[0] for name in logs], [f"{job}.0.0"] * 3)

    # By the real squeue, whose answer the first node alone asks for.
    def test_the_jobs_end_is_known(self):
        run = self.srun("-N2", "--ntasks-per-node=1", "--time=10", DDPRUN, "--stop-before=90s", FAKE_WORKER,
                        HELLO, "--hang")
        self.wait_for(lambda: "the job ends in" in run.err(), run)
        first, second, *_ = self.cluster.nodes
        self.assertRegex(run.err(), rf"{first} \| the job ends in \d+ min \d\d s \(squeue\); the workers "
                                    r"are asked to save 1 min 30 s before")
        self.assertNotIn(f"{second} | the job ends", run.err())
        self.terminate(run, 137)  # As srun ends a step.
        self.assert_gone(10)

    def test_one_cpu_for_many_workers_is_said(self):
        run = self.step("-N1", "-n1", DDPRUN, "--nproc-per-node=4", FAKE_WORKER)
        self.assertRegex(run.err(), "gives this node 1 CPU for 4 workers. Give srun --cpus-per-task=4")
        run = self.step("-N1", "-n1", "-c4", DDPRUN, "--nproc-per-node=2", FAKE_WORKER)
        self.assertNotIn("for 2 workers", run.err())


class TheScriptEverybodyHas(SlurmTest):
    def test_it_runs_literally(self):
        pattern = self.workers_pattern()
        torchrun = self.path("torchrun")
        os.symlink(DDPRUN, torchrun)
        job, out = self.batch(
            "nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\n"
            "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n1)\n"
            f"srun {torchrun} --nnodes=$SLURM_JOB_NUM_NODES --nproc_per_node=2 --rdzv_id=100 "
            f"--rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29400 {FAKE_WORKER} "
            f"--env-file={pattern}\n", "--nodes=3", "--ntasks=3")
        self.wait_for_state(job, "COMPLETED 0:0", out)
        envs = self.environments(pattern, 6)
        self.assertEqual({env["TORCHELASTIC_RUN_ID"] for env in envs}, {"100"})
        self.assertEqual({env["WORLD_SIZE"] for env in envs}, {"6"})


class SeveralTasks(SlurmTest):
    def test_each_task_of_a_node_is_one_worker(self):
        pattern = self.workers_pattern()
        run = self.step("-N2", "--ntasks-per-node=2", DDPRUN, FAKE_WORKER, f"--env-file={pattern}")
        for rank, env in enumerate(self.environments(pattern, 4)):
            self.assertEqual(env["RANK"], env["SLURM_PROCID"])
            self.assertEqual(env["LOCAL_RANK"], env["SLURM_LOCALID"])
            self.assertEqual((env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]), ("4", "2"))
        self.assertIn("worker 3 of 4", run.err())


class SharedDirectory(SlurmTest):
    """The working directory is on NFS, by what the kernel shows."""

    def shown(self, kind="nfs4"):
        mounts = self.write("mounts", "1 0 0:1 / / rw - ext4 /dev/x rw\n"
                            f"2 1 0:2 / {self.directory} rw shared:1 - {kind} server:/x rw\n")
        return {"LD_PRELOAD": HOLD_CALLS, "ASAN_OPTIONS": "verify_asan_link_order=0", "DDPRUN_SHOWN_MOUNTS": mounts}

    def test_the_first_node_may_die(self):
        run = self.srun("-N3", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0", DDPRUN, "--nnodes=2:3",
                        FAKE_WORKER, HELLO, f"--wait-file={self.go}", environment=self.shown())
        self.wait_for_workers(run, 3)
        [name] = os.listdir(self.path(".ddprun"))
        self.assertRegex(name, r"^\d+\.0\.0$")
        self.assertEqual(os.stat(self.path(".ddprun", name)).st_mode & 0o777, 0o700)
        for pid in self.mark.living("bin/ddprun --nnodes"):
            if b"\0SLURM_NODEID=0\0" in read_bytes(f"/proc/{pid}/environ"):
                os.kill(pid, signal.SIGKILL)
        again = self.wait_for(lambda: run.generations()[1:], run)[0]
        self.wait_for_workers(run, 2, again)
        open(self.go, "w").close()
        run.wait()
        self.assertFalse(os.path.exists(self.path(".ddprun")), "it is removed when the run has succeeded")

    def test_one_that_cannot_be_made_costs_a_warning(self):
        self.write(".ddprun", "")
        run = self.step("-N3", "--ntasks-per-node=1", DDPRUN, "--nnodes=2:3", FAKE_WORKER, environment=self.shown())
        self.assertRegex(run.err(), r"the run will not survive the loss of its rendezvous host: .*/\.ddprun.* Set --run-dir=DIR")


class SrunForgotten(SlurmTest):
    def test_it_is_put_before(self):
        pattern = self.workers_pattern()
        job, out = self.batch(f"{DDPRUN} --nproc-per-node=2 {FAKE_WORKER} --env-file={pattern}\n",
                              "--nodes=3", "--ntasks-per-node=2")
        self.wait_for_state(job, "COMPLETED 0:0", out)
        envs = self.environments(pattern, 6)
        self.assertEqual({env["LOCAL_WORLD_SIZE"] for env in envs}, {"2"})
        self.assertEqual({env["OMP_NUM_THREADS"] for env in envs}, {"1"})
        text = read_text(out)
        self.assertRegex(text, r"srun was forgotten, so ddprun starts through it \[srun-forgotten\]:\n +srun .*-N3 -n3 "
                               r"--ntasks-per-node=1 -c2 \S+ddprun --nproc-per-node=2")
        self.assertNotIn("DDPRUN_TOKEN", str(envs))
        self.assertNotIn("can join this run", text)

    def test_a_job_of_one_node_needs_none(self):
        pattern = self.workers_pattern()
        job, out = self.batch(f"{DDPRUN} {FAKE_WORKER} --env-file={pattern}\n", "--nodes=1")
        self.wait_for_state(job, "COMPLETED 0:0", out)
        [env] = self.environments(pattern, 1)
        self.assertEqual(env["TORCHELASTIC_RUN_ID"], f"{job}.batch.0")


class Ending(SlurmTest):
    def start_hanging(self, *flags):
        run = self.srun("-N2", "--ntasks-per-node=1", *flags, DDPRUN, "--nproc-per-node=2", FAKE_WORKER,
                        HELLO, "--hang")
        self.wait_for_workers(run, 4)
        return run

    # srun hands its own TERM on as KILL, without a word before.
    def test_a_killed_srun_leaves_nothing(self):
        run = self.start_hanging()
        self.terminate(run, 137)
        self.assert_gone(10)

    def test_a_cancelled_job_leaves_nothing(self):
        run = self.start_hanging()
        [job] = self.cluster.run("squeue", "-h", "-o", "%A").stdout.split()
        self.cluster.run("scancel", job)
        run.wait()
        # Slurm signals agents and workers at once: a worker may die of it before its agent hears.
        self.assertRegex(run.err(), "from the scheduler: the workers have|was killed by signal 15")
        self.assert_gone(15)

    def test_an_agent_that_is_killed_does_not_hold_the_step(self):
        run = self.start_hanging("--kill-on-bad-exit=0")
        agents = self.mark.living("bin/ddprun --nproc")
        self.assertTrue(agents)
        kill_all(agents)
        self.assertEqual(run.wait(), 137, run.all())
        self.assert_gone(10)

    # Slurm tells no process: the tasks would run for ever, and print into nothing. With srun goes
    # the shepherd that it has beside it, which ends the step of one that dies alone.
    def test_a_srun_that_vanishes_ends_its_step(self):
        run = self.start_hanging()
        shepherds = children_of(run.process.pid)
        self.assertEqual([os.path.basename(command_of(p).split()[0]) for p in shepherds], ["srun"])
        for pid in (*shepherds, run.process.pid):
            os.kill(pid, signal.SIGKILL)
        run.wait()
        self.assert_gone(25)
