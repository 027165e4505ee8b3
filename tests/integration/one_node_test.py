"""One node: the end of a run and its report, the workers' environment, programs by name, and old kernels."""

import os
import re
import socket
import signal
import sys

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest
from old_kernel import OLD_KERNELS

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
TWO = "--nproc-per-node=2"


class HowARunEnds(DdprunTest):
    def test_all_workers_finish(self):
        run = self.run_ddprun(TWO, FAKE_WORKER)
        self.assertEqual(run.out() + run.err(), "", "a good run has nothing to say")

    def test_75_and_76_mean_something_only_after_hello(self):
        count = ["--max-restarts=1", FAKE_WORKER, HELLO]
        run = self.run_ddprun(*count, "--exit=76", expect=76)
        self.assertEqual(len(run.generations()), 2, "without: a failure like any other\n" + run.all())
        run = self.run_ddprun(*count, "--notify=READY=1", "--exit=76", expect=76)
        self.assertEqual(len(run.generations()), 1, "76 after hello: do not restart\n" + run.all())
        self.assertIn("it asks not to be restarted", run.err())
        # "Restart me" is never the launcher's own code, or a scheduler would requeue for ever.
        run = self.run_ddprun(*count, "--notify=READY=1", "--exit=75", expect=1)
        self.assertEqual(len(run.generations()), 2, run.all())


class Environment(DdprunTest):
    def test_every_worker_gets_torchruns_variables_and_ddpruns(self):
        path, go = self.path("env.%r"), self.path("go")
        run = self.start("--nproc-per-node=3", f"--rdzv-id={self.run_id}", "--max-restarts=4",
                         "--role=trainer", FAKE_WORKER, f"--env-file={path}", f"--wait-file={go}")
        envs = [self.environment_of(self.path(f"env.{rank}")) for rank in range(3)]
        for rank, env in enumerate(envs):
            expected = {
                "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 3, "LOCAL_WORLD_SIZE": 3,
                "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1, "ROLE_RANK": rank, "ROLE_WORLD_SIZE": 3,
                "ROLE_NAME": "trainer", "TORCHELASTIC_RESTART_COUNT": 0,
                "TORCHELASTIC_MAX_RESTARTS": 4, "TORCHELASTIC_RUN_ID": self.run_id,
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            self.assertEqual({k: env.get(k) for k in expected},
                             {k: str(v) for k, v in expected.items()})
            for name in ("MASTER_ADDR", "MASTER_PORT", "DDPRUN_WORLD_ID", "DDPRUN_GENERATION"):
                self.assertEqual(env[name], envs[0][name], name)
        with socket.create_connection((envs[0]["MASTER_ADDR"], int(envs[0]["MASTER_PORT"])), 5):
            pass
        self.assertEqual(len({env["DDPRUN_NOTIFY_SOCKET"] for env in envs}), 3)
        self.assertEqual(len({env["TORCHELASTIC_ERROR_FILE"] for env in envs}), 3)
        self.write("go", "")
        self.assertEqual(run.wait(), 0, run.all())


class Lookup(DdprunTest):
    def test_python_files_run_through_python(self):
        path = self.write("train.py", "import sys\nprint('py', *sys.argv[1:])\n")
        self.assertEqual(self.run_ddprun(path, "a", "--b").out(), "py a --b\n")
        own = self.write("tool.py", "#!/bin/sh\necho itself\n", 0o755)
        self.assertEqual(self.run_ddprun("--no-python", own).out(), "itself\n")

    def test_arguments_reach_the_program_unchanged(self):
        words = ["--max-restarts=7", "$$", "a b", "", "ü", "--", "-v", "'\""]
        path = self.write("args.py", "import sys\nprint(repr(sys.argv[1:]))\n")
        self.assertEqual(self.run_ddprun(path, *words).out(), repr(words) + "\n")


class OldKernel(DdprunTest):
    """Older than the container, or one that refuses newer calls."""

    def start_on(self, kernel, *arguments):
        return self.start(os.path.join(SUPPORT, "old_kernel.py"), kernel, DDPRUN, *arguments, executable=sys.executable)

    def test_workers_have_nothing_open_but_their_three(self):
        for kernel in OLD_KERNELS:
            run = self.start_on(kernel, "--nproc-per-node=2", FAKE_WORKER, "--print-state")
            self.assertEqual(run.wait(), 0, f"{kernel}: {run.all()}")
            self.assertEqual(re.findall(r"fds (.*)", run.out()), ["0 1 2 3"] * 2, f"{kernel}: {run.all()}")

    def test_a_killed_worker_is_replaced_and_term_ends_all(self):
        for kernel in OLD_KERNELS:
            run = self.start_on(kernel, "--nproc-per-node=2", "--max-restarts=1", FAKE_WORKER, "--print=worker %r %g %p", "--hang")
            workers = self.wait_for_workers(run, 2, 1)
            os.kill(workers[0], signal.SIGKILL)
            self.wait_for_workers(run, 2, 2)
            self.terminate(run)
