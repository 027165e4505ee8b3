"""What torchrun's users and their tools write, with the real ddprun: addresses, signals, programs."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest  # noqa: E402

TWO = "--nproc-per-node=2"


class LiteralMaster(DdprunTest):
    def master_of(self, name):
        env = self.environment_of(self.path(name))
        return f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"

    def test_one_node_keeps_its_port_over_a_restart(self):
        endpoint = self.free_endpoint()
        host, port = endpoint.split(":")
        self.run_ddprun(f"--master-addr={host}", f"--master-port={port}", "--max-restarts=1",
                        FAKE_WORKER, f"--env-file={self.path('env.%g')}", "--on-restart=0", "--exit=3")
        for generation in (1, 2):
            self.assertEqual(self.master_of(f"env.{generation}"), endpoint)

    def test_two_nodes_share_one_port_with_the_rendezvous(self):
        endpoint = self.free_endpoint()
        host, port = endpoint.split(":")
        flags = ["--nnodes=2", f"--master-addr={host}", f"--master-port={port}", FAKE_WORKER,
                 f"--env-file={self.path('env.%r')}"]
        nodes = [self.start(f"--node-rank={rank}", *flags) for rank in (0, 1)]
        for node in nodes:
            self.assertEqual(node.wait(), 0, node.all())
        for rank in (0, 1):
            self.assertEqual(self.master_of(f"env.{rank}"), endpoint)

    def test_a_port_in_use_is_named(self):
        endpoint = self.free_endpoint()
        host, port = endpoint.split(":")
        flags = [f"--master-addr={host}", f"--master-port={port}", FAKE_WORKER, HELLO, "--hang"]
        first = self.start(*flags)
        self.wait_for_workers(first, 1)
        second = self.start(*flags)
        self.assertEqual(second.wait(), 69, second.all())
        self.assertRegex(second.err(), f"port {port} is in use .*choose another --master-port")
        first.signal(signal.SIGTERM)
        self.assertEqual(first.wait(), 143, first.all())


class Signals(DdprunTest):
    def test_the_list_is_in_the_workers_environment(self):
        self.run_ddprun("--signals-to-handle=SIGTERM,SIGWINCH", FAKE_WORKER,
                        f"--env-file={self.path('env')}")
        self.assertEqual(self.environment_of(self.path("env"))["TORCHELASTIC_SIGNALS_TO_HANDLE"],
                         "SIGTERM,SIGWINCH")

    def test_an_unknown_name_is_only_warned_of(self):
        run = self.run_ddprun("--signals-to-handle=SIGFOO", FAKE_WORKER)
        self.assertIn("'SIGFOO' is left out", run.err())

    def test_a_stop_signal_left_out_ends_the_run_at_once(self):
        run = self.start("--signals-to-handle=SIGINT", TWO, FAKE_WORKER, HELLO, "--ignore-term",
                         "--hang")
        self.wait_for_workers(run, 2)
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 143, run.all())
        self.assertIn("not in --signals-to-handle=SIGINT", run.err())


class Programs(DdprunTest):
    def test_run_path(self):
        with open(self.path("script"), "w") as file:
            file.write("import sys\nprint(__name__, sys.argv)\n")
        run = self.run_ddprun("--run-path", "--no-python", "script", "--x", "${local_rank}")
        self.assertEqual(run.out(), f"__main__ ['{self.path('script')}', '--x', '0']\n")

    def test_virtual_local_rank(self):
        gpus = {"CUDA_VISIBLE_DEVICES": "5,7"}
        self.run_ddprun(TWO, "--virtual-local-rank", FAKE_WORKER,
                        f"--env-file={self.path('env.%r')}", environment=gpus)
        for rank, gpu in ((0, "5"), (1, "7")):
            env = self.environment_of(self.path(f"env.{rank}"))
            self.assertEqual((env["LOCAL_RANK"], env["CUDA_VISIBLE_DEVICES"]), ("0", gpu))
        run = self.run_ddprun("--nproc-per-node=3", "--virtual-local-rank", FAKE_WORKER, expect=2,
                              environment=gpus)
        self.assertIn("CUDA_VISIBLE_DEVICES='5,7' names 2", run.err())

    def test_scrub_env_takes_mpis_variables_away(self):
        foreign = {"OMPI_COMM_WORLD_RANK": "3", "PMI_RANK": "3", "OMPI": "kept"}
        self.run_ddprun("--scrub-env", FAKE_WORKER, f"--env-file={self.path('env')}",
                        environment=foreign)
        env = self.environment_of(self.path("env"))
        self.assertEqual([name for name in foreign if name in env], ["OMPI"])

    def test_a_config_file_counts_less_than_flags_and_environment(self):
        with open(self.path("ddprun.toml"), "w") as file:
            file.write("nproc-per-node = 2\nrole = 'mine'\nmax_restarts = 5\n")
        self.run_ddprun("--max-restarts=1", FAKE_WORKER, f"--env-file={self.path('env')}",
                        environment={"PET_NPROC_PER_NODE": "1"})
        env = self.environment_of(self.path("env"))
        self.assertEqual((env["WORLD_SIZE"], env["ROLE_NAME"], env["TORCHELASTIC_MAX_RESTARTS"]),
                         ("1", "mine", "1"))
        with open(self.path("other.toml"), "w") as file:
            file.write("role = 'a'\nnodes = 2\n")
        run = self.run_ddprun("--config=other.toml", FAKE_WORKER, expect=2)
        self.assertIn("other.toml:2: unknown name 'nodes'", run.err())
        run = self.run_ddprun("--config=missing.toml", FAKE_WORKER, expect=2)
        self.assertRegex(run.err(), "missing.toml.*No such file.*--config")


class Tools(DdprunTest):
    def run_pods(self, variables, of_pod):
        pods = [self.start(FAKE_WORKER, f"--env-file={self.path('env.%r')}",
                           environment={**variables, **of_pod(index)}) for index in (0, 1)]
        for pod in pods:
            self.assertEqual(pod.wait(), 0, "\n".join(p.all() for p in pods))
        return [self.environment_of(self.path(f"env.{rank}")) for rank in range(4)]

    def test_the_variables_of_a_kubeflow_train_job(self):
        endpoint = self.free_endpoint()
        host, port = endpoint.split(":")
        envs = self.run_pods({"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": host,
                              "PET_MASTER_PORT": port}, lambda i: {"PET_NODE_RANK": str(i)})
        for rank, env in enumerate(envs):
            self.assertEqual((env["RANK"], env["GROUP_RANK"], env["WORLD_SIZE"]),
                             (str(rank), str(rank // 2), "4"))
            self.assertEqual((env["MASTER_ADDR"], env["MASTER_PORT"]), (host, port))

    def test_the_variables_of_an_elastic_pytorch_job(self):
        envs = self.run_pods({"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": self.free_endpoint(),
                              "PET_NNODES": "1:2", "PET_NPROC_PER_NODE": "2",
                              "PET_MAX_RESTARTS": "10"}, lambda _: {})
        for rank, env in enumerate(envs):
            self.assertEqual((env["RANK"], env["WORLD_SIZE"]), (str(rank), "4"))
            self.assertEqual(env["TORCHELASTIC_MAX_RESTARTS"], "10")

    # Its dist.ddp component; it executes the name torchrun.
    def test_torchxs_command_line_through_a_link(self):
        os.symlink(DDPRUN, self.path("torchrun"))
        os.mkdir(self.path("kept"))
        run = self.start(
            "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_id", "app-x1",
            "--nnodes", "1", "--nproc_per_node", "2", "--tee", "3", "--role", "", "--no-python",
            FAKE_WORKER, "--print=hello", executable=self.path("torchrun"),
            environment={"TMPDIR": self.path("kept")})
        self.assertEqual(run.wait(), 0, run.all())
        self.assertEqual(sorted(run.out().splitlines()), ["[0]:hello", "[1]:hello"])

    # As a Slurm step may have to, for a program that believes in SLURM_PROCID.
    def test_variables_are_taken_from_the_workers_alone(self):
        self.run_ddprun("--no-python", "env", "-u", "SLURM_PROCID", FAKE_WORKER,
                        f"--env-file={self.path('env')}",
                        environment={"SLURM_PROCID": "3", "SLURM_JOB_ID": "7"})
        env = self.environment_of(self.path("env"))
        self.assertEqual((env.get("SLURM_PROCID"), env["SLURM_JOB_ID"]), (None, "7"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
