"""One node: signals, workers that do not want to end, and deaths of guard and agent."""

import os
import shutil
import signal
import subprocess

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, read_text

TWO = "--nproc-per-node=2"
# Children in the worker's session and in one of their own; nothing but SIGKILL ends any of them.
STUBBORN = ["--ignore-term", "--grandchild", "--grandchild-setsid", HELLO, "--hang"]


class Signals(DdprunTest):
    def start_workers(self, *actions, flags=()):
        run = self.start(TWO, *flags, FAKE_WORKER, *actions, HELLO, "--hang")
        self.wait_for_workers(run, 2)
        return run

    def test_a_signal_reaches_the_workers_and_is_the_exit_code(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number.name):
                run = self.start_workers()
                run.signal(number)
                self.assertEqual(run.wait(), 128 + number, run.all())
                self.assertEqual(self.mark.living(), [])
                self.assertIn(f"got {number.name}: passing it on to the workers", run.err())
                self.assertIn("--shutdown-timeout", run.err())

    def test_a_signal_that_nohup_ignores_stays_ignored(self):
        run = self.start("-c", 'trap "" HUP; exec "$@"', "sh", DDPRUN, TWO, FAKE_WORKER, HELLO, "--hang", executable="/bin/sh")
        self.wait_for_workers(run, 2)
        run.signal(signal.SIGHUP)
        self.terminate(run)
        self.assertNotIn("SIGHUP", run.err())

    # Stopped training would time out on every other node.
    def test_ctrl_z_stops_the_guard_alone(self):
        guard = subprocess.Popen(
            [DDPRUN, TWO, FAKE_WORKER, f"--touch={self.path('there.%r')}", f"--wait-file={self.go}",
             f"--touch={self.path('done.%r')}", "--exit=3"],
            env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=os.setpgrp)  # A shell's job: in a session of its own nothing would stop it.
        self.addCleanup(guard.wait)
        self.addCleanup(guard.kill)

        def touched(name):
            return [rank for rank in (0, 1) if os.path.exists(self.path(f"{name}.{rank}"))]
        self.wait_for(lambda: len(touched("there")) == 2)
        guard.send_signal(signal.SIGTSTP)
        self.wait_for(lambda: "\nState:\tT" in read_text(f"/proc/{guard.pid}/status"))
        open(self.go, "w").close()
        self.wait_for(lambda: touched("done"))
        guard.send_signal(signal.SIGCONT)
        self.assertEqual(guard.wait(), 3)

    def test_a_signal_while_waiting_for_a_restart_ends_the_run(self):
        run = self.start(TWO, "--max-restarts=1000", FAKE_WORKER, HELLO, "--exit=1")
        self.wait_for(lambda: len(run.generations()) > 3, run)
        self.terminate(run)


class NothingIsLeft(DdprunTest):
    def start_stubborn(self, *flags):
        run = self.start(TWO, *flags, FAKE_WORKER, *STUBBORN)
        self.wait_for_workers(run, 2)
        self.assertEqual(len(self.mark.living()), 2 + 2 * 3, "guard, agent, 2 workers, 2 children each")
        return run

    def test_children_of_a_worker_that_fails_are_gone_before_the_restart(self):
        run = self.start("--max-restarts=1", FAKE_WORKER, "--on-restart=0", "--grandchild",
                         "--grandchild-setsid", "--exit=1", "--always", HELLO, "--hang")
        self.wait_for_workers(run, 1)
        self.assertEqual(len(self.mark.living(FAKE_WORKER)), 3, "guard, agent and the new worker")
        self.terminate(run)

    def test_the_guard_is_killed(self):
        run = self.start_stubborn()
        os.kill(run.process.pid, signal.SIGKILL)
        run.wait()
        self.assert_gone(30)

    def test_the_agent_is_killed(self):
        for before in ("it goes on", "it stands still"):
            with self.subTest(before):
                run = self.start_stubborn()
                agent = run.agent()
                if before == "it stands still":  # It cannot clean up by itself.
                    os.kill(agent, signal.SIGSTOP)
                os.kill(agent, signal.SIGKILL)
                self.assertEqual(run.wait(), 137, run.all())
                self.assertEqual(self.mark.living(), [])
                self.assertIn("the agent was killed by signal 9 (SIGKILL); ended all processes that it had started", run.err())

    # As gRPC does without memory: no worker's 134.
    def test_an_agent_that_crashes_is_ddpruns_own_failure(self):
        for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
            with self.subTest(number.name):
                run = self.start(FAKE_WORKER, HELLO, "--hang")
                self.wait_for_workers(run, 1)
                os.kill(run.agent(), number)
                self.assertEqual(run.wait(), 70, run.all())
                self.assertIn(f"the agent was killed by signal {number} ({number.name}); ended all processes that it", run.err())

    def test_guard_and_agent_are_killed_together(self):
        run = self.start(TWO, FAKE_WORKER, HELLO, "--hang")
        self.wait_for_workers(run, 2)
        agent = run.agent()
        os.kill(run.process.pid, signal.SIGSTOP)  # So that neither can react to the other's death.
        os.kill(agent, signal.SIGKILL)
        os.kill(run.process.pid, signal.SIGKILL)
        run.wait()
        self.assert_gone(30)  # The workers' own death signal.
        self.run_directory_stays = True

    def test_files_that_may_not_grow_end_no_agent(self):
        """ulimit -f, which memory files know too: what is kept is cut short, and the run continues; workers die of it."""
        self.ask("--fsize=2048:2048", DDPRUN, "--nnodes=1:2", f"--rdzv-endpoint={self.free_endpoint()}",
                 "--rdzv-conf=last_call_timeout=0.1", f"--run-dir={self.path('run')}", "--max-restarts=20",
                 FAKE_WORKER, HELLO, "--on-restart=20", "--exit=0", "--always", "--exit=3",
                 executable=shutil.which("prlimit"))
        self.ask("--fsize=2048:2048", DDPRUN, "--no-python", "/bin/sh", "-c", f"exec yes > {self.path('full')}",
                 executable=shutil.which("prlimit"), expect=128 + signal.SIGXFSZ)
