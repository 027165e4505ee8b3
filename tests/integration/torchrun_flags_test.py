"""Commands of torchrun's users and their tools, with the real ddprun: addresses, signals,
programs."""

import os

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest

TWO = "--nproc-per-node=2"


class LiteralMaster(DdprunTest):
    def master_of(self, name):
        env = self.environment_of(self.path(name))
        return f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"

    def test_one_node_keeps_its_port_over_a_restart(self):
        host, port = self.endpoint.split(":")
        self.run_ddprun(f"--master-addr={host}", f"--master-port={port}", "--max-restarts=1",
                        FAKE_WORKER, f"--env-file={self.path('env.%g')}", "--on-restart=0", "--exit=3")
        for generation in (1, 2):
            self.assertEqual(self.master_of(f"env.{generation}"), self.endpoint)

    def test_a_port_in_use_is_named(self):
        host, port = self.endpoint.split(":")
        flags = [f"--master-addr={host}", f"--master-port={port}", FAKE_WORKER, HELLO, "--hang"]
        first = self.start(*flags)
        self.wait_for_workers(first, 1)
        second = self.ask(*flags, expect=69)
        self.assertRegex(second.err(), f"port {port} is in use .*Choose another --master-port")
        of_two = self.ask("--nnodes=2", "--node-rank=0", *flags, expect=69)
        self.assertRegex(of_two.err(), f"port {port} is in use .*Choose another port in --master-port")
        self.terminate(first)


class Signals(DdprunTest):
    def test_a_stop_signal_left_out_ends_the_run_at_once(self):
        run = self.start("--signals-to-handle=SIGINT", TWO, FAKE_WORKER, HELLO, "--ignore-term",
                         "--hang")
        self.wait_for_workers(run, 2)
        self.terminate(run)
        self.assertIn("not in --signals-to-handle=SIGINT", run.err())


class Programs(DdprunTest):
    def test_env_sets_variables_of_workers(self):
        self.write("ddprun.toml", 'env = "OF_FILE=f"\nenv = "WINS=file"\n')
        run = self.run_ddprun(TWO, "--env=A=a=b", "--env", "CACHE=/c/${local_rank}.$rank", "--env=WINS=line", "--env=HOME=",
                              "--env=OMP_NUM_THREADS=3", "--env=ODD= $$ a$$b $${rank} \\n", FAKE_WORKER, f"--env-file={self.path('env.%r')}")
        for rank in (0, 1):
            env = self.environment_of(self.path(f"env.{rank}"))
            names = ("OF_FILE", "A", "CACHE", "WINS", "HOME", "OMP_NUM_THREADS")
            self.assertEqual(env["ODD"], " $$ a$$b ${rank} \\n")
            self.assertEqual([env[name] for name in names], ["f", "a=b", f"/c/{rank}.{rank}", "line", "", "3"])
            self.assertNotIn("DDPRUN_ENV", env)
        self.assertNotIn("OMP_NUM_THREADS", run.err())


class Tools(DdprunTest):
    # Its dist.ddp component; it executes the name torchrun.
    def test_torchxs_command_line_through_a_link(self):
        os.symlink(DDPRUN, self.path("torchrun"))
        os.mkdir(self.path("kept"))
        run = self.ask(
            "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_id", "app-x1",
            "--nnodes", "1", "--nproc_per_node", "2", "--tee", "3", "--role", "", "--no-python",
            FAKE_WORKER, "--print=hello", executable=self.path("torchrun"),
            environment={"TMPDIR": self.path("kept")})
        self.assertEqual(sorted(run.out().splitlines()), ["[0]:hello", "[1]:hello"])
