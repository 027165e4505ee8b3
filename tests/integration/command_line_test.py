"""The user's view of the command line: plans, reports, names, completion, CPUs, colours."""

import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "..", "scripts/docs")]

import references  # noqa: E402
from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest  # noqa: E402

BUILD = os.environ.get("DDPRUN_BUILD", "")
TWO = "--nproc-per-node=2"
ESCAPE = "\x1b["


class DryRun(DdprunTest):
    def plan(self, *arguments, environment=None):
        run = self.run_ddprun("--dry-run", *arguments, environment=environment)
        self.assertEqual(run.err(), "")
        return run.out()

    def line(self, plan, label):
        found = re.search(rf"^  {re.escape(label)}  +(.*)$", plan, re.M)
        self.assertTrue(found, f"no line {label} in\n{plan}")
        return found[1]

    def test_a_misspelt_variable_is_named_and_inherited_ones_are_called_so(self):
        run = self.run_ddprun("--dry-run", "true", environment={"DDPRUN_MAX_RESTART": "3"})
        self.assertRegex(run.err(), "warning: ignoring the variable DDPRUN_MAX_RESTART; did you mean "
                                    r"DDPRUN_MAX_RESTARTS\?\n$")
        self.assertRegex(run.out(), r"(?m)^environment of every worker: \d+ variables inherited from ddprun, and$")

    def test_the_program_and_why(self):
        os.makedirs(self.path("venv", "bin"))
        python = self.path("venv", "bin", "python3")
        os.symlink(sys.executable, python)
        open(self.path("train.py"), "w").close()
        plan = self.plan("train.py", "two words", environment={"PATH": self.path("venv", "bin") + os.pathsep + self.environment["PATH"]})
        self.assertEqual(self.line(plan, "file"), python)
        self.assertIn("the first in PATH", self.line(plan, "because"))
        self.assertEqual(self.line(plan, "argv"), f"{python} -u train.py 'two words'")
        self.assertIn("not *.py", self.line(self.plan(FAKE_WORKER), "because"))

    def test_defaults_are_shown_on_demand(self):
        short = self.plan(TWO, FAKE_WORKER)
        self.assertRegex(short, r"(?m)^settings .*\n  --nproc-per-node +2 +command line\n  --restart-backoff .*\n  \d\d defaults, which -v shows$")
        self.assertNotIn(" default\n", short)
        whole = self.plan("-v", TWO, FAKE_WORKER)
        self.assertRegex(whole, r"(?m)^  --max-restarts +0 +default$")
        self.assertNotIn("which -v shows", whole)

    def test_one_node(self):
        plan = self.plan(TWO, FAKE_WORKER)
        self.assertIn("standalone because --nnodes", self.line(plan, "count"))
        self.assertIn("no other node can join", self.line(plan, "server"))
        self.assertEqual(self.line(plan, "local rank 1"), "RANK=1 LOCAL_RANK=1")
        self.assertIn("none of --log-dir, --redirects and --tee", self.line(plan, "log files"))
        self.assertIn("because of --standalone", self.plan("--standalone", FAKE_WORKER))

    def test_the_host_of_the_server(self):
        # A taken port shows that none is opened.
        with socket.create_server(("127.0.0.1", 0)) as taken:
            endpoint = f"--rdzv-endpoint=127.0.0.1:{taken.getsockname()[1]}"
            for flags, expected in (
                    (["--nnodes=2", endpoint, "--node-rank=0"], "this node, at .*because it is rank 0"),
                    (["--nnodes=2", endpoint, "--node-rank=1"], "the node of rank 0"),
                    (["--nnodes=1:2", endpoint], r"the first node that has .*an address of this machine \(lo\)"),
                    (["--nnodes=2", "--rdzv-endpoint=192.0.2.1"], "is not known here as an address of this machine")):
                self.assertRegex(self.line(self.plan(*flags, FAKE_WORKER), "server"), expected)
        self.assertIn("--master-port", self.line(self.plan("--master-port=29511", FAKE_WORKER), "store"))
        static = self.plan("--nnodes=2", "--rdzv-backend=static", "--rdzv-endpoint=n0", FAKE_WORKER)
        self.assertIn("because of --rdzv-backend=static", self.line(static, "store"))


class Environment(DdprunTest):
    def test_it_reports_and_keeps_secrets(self):
        run = self.run_ddprun("env", environment={
            "DDPRUN_TOKEN": "hush", "PET_NNODES": "3", "SLURM_JOB_ID": "77"})
        for part in ("ddprun  ", "kernel  ", "glibc  ", "gRPC 1.", "Boost 1.", "open files (nofile)", "allowed  ",
                     "host name  ", "127.0.0.1"):
            self.assertIn(part, run.out())
        self.assertRegex(run.out(), r"PET_NNODES +3\n")
        self.assertRegex(run.out(), r"SLURM_JOB_ID +77\n")
        self.assertNotIn("hush", run.out())
        self.assertRegex(run.out(), r"DDPRUN_TOKEN +\*\*\*")

    def test_pytorch_is_found_without_python_being_run(self):
        site = self.path("venv", "lib", "python3.11", "site-packages")
        for name in ("torch", "torch-9.8.7.dist-info", "nvidia_nccl_cu13-2.30.7.dist-info"):
            os.makedirs(os.path.join(site, name))
        self.write(self.path("venv", "bin", "python3"), "#!/bin/sh\ntouch was-run\n", 0o755)
        run = self.run_ddprun("env", environment={"PATH": self.path("venv", "bin") + os.pathsep + self.environment["PATH"]})
        self.assertIn("torch 9.8.7 in " + site, run.out())
        self.assertIn("2.30.7 in " + site, run.out())
        self.assertFalse(os.path.exists(self.path("was-run")))


class AsTorchrun(DdprunTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        self.torchrun = self.path("bin", "torchrun")
        os.symlink(DDPRUN, self.torchrun)

    def test_its_texts_say_torchrun(self):
        run = self.ask("--help", executable=self.torchrun)
        self.assertIn("Usage: torchrun [OPTIONS] PROGRAM", run.out())
        self.assertNotIn("slurm-script", run.out())
        run = self.ask("--nope", executable=self.torchrun, expect=2)
        self.assertRegex(run.err(), r"^torchrun: error: unknown option --nope \(torchrun --help")

    def test_print_completion(self):
        run = self.ask("--print-completion", "bash", executable=self.torchrun)
        self.assertIn("complete -F _torchrun torchrun", run.out())
        self.assertNotIn("rendezvous)", run.out())


class Completion(DdprunTest):
    def complete(self, line):
        script = (f'source <("{DDPRUN}" completion bash); COMP_LINE=$1; COMP_POINT=${{#1}}; '
                  '_ddprun 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"')
        ran = subprocess.run(["bash", "--norc", "-c", script, "bash", line], capture_output=True,
                             text=True, check=True, cwd=self.directory)
        self.assertEqual(ran.stderr, "")
        return [word for word in ran.stdout.split("\n") if word]

    def test_flags_values_programs_and_verbs(self):
        table = {
            "ddprun --max-rest": ["--max-restarts="],
            "ddprun --stand": ["--standalone "],
            "ddprun --no_py": ["--no-python "],
            "ddprun --nproc-per-node=": ["auto", "gpu", "cpu"],
            "ddprun --nproc-per-node c": ["cpu"],
            "ddprun --numa-binding=ex": ["exclusive"],
            "ddprun --nnodes=1:2 --rdzv-endpoint=n0:29400 --dry": ["--dry-run "],
            "ddprun --role x --prefix=": ["none", "rank"],
            "ddprun --role ": [],
            "ddprun --gpus 1 --dry": ["--dry-run "],
            "ddprun help host": ["hosts"],
            "ddprun -r 3 --log-dir ru": ["run"],
            "ddprun completion ": ["bash", "zsh", "fish"],
            "ddprun rend": ["rendezvous"],
            f"{DDPRUN} rendezvous --state": ["--state-dir"],
            f"{DDPRUN} logs --foll": ["--follow"],
            f"{DDPRUN} check --max-rest": ["--max-restarts"],
            "ddprun example f": ["fsdp"],
            "ddprun train.py --max-rest": [],
            "ddprun -- env --max-rest": [],
        }
        for line, expected in table.items():
            with self.subTest(line):
                self.assertEqual(self.complete(line), expected)
        self.assertIn("true", self.complete("ddprun tru"))

    def test_other_shells_can_read_theirs(self):
        for shell in ("zsh", "fish", "bash"):
            ran = self.run_ddprun("completion", shell)
            self.assertIn("max-restarts", ran.out())
            if shutil.which(shell):
                subprocess.run([shell, "-n", ran.paths["out"]], check=True)


class Cpus(DdprunTest):
    def test_exclusive_cpus_are_the_workers_own(self):
        allowed = sorted(os.sched_getaffinity(0))
        worker = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
        if len(allowed) < 2 or shutil.which("nvidia-smi"):
            self.skipTest("needs two CPUs and no GPU")
        run = self.run_ddprun(TWO, "--numa-binding=exclusive", *worker)
        found = [line.split()[1] for line in run.out().splitlines()]
        self.assertEqual(len(set(found)), 2, run.all())
        plan = self.run_ddprun("--dry-run", TWO, "--numa-binding=exclusive", *worker).out()
        for cpus in found:
            self.assertRegex(plan, rf"CPUs {cpus}\n")

    def test_the_share_of_threads_is_said_once(self):
        del self.environment["OMP_NUM_THREADS"]
        run = self.run_ddprun(TWO, FAKE_WORKER, f"--env-file={self.path('env.%r')}")
        share = max(1, len(os.sched_getaffinity(0)) // 2)
        self.assertEqual(run.err().count(f"OMP_NUM_THREADS={share} for each worker"), 1, run.all())
        self.assertEqual(self.environment_of(self.path("env.1"))["OMP_NUM_THREADS"], str(share))
        self.assertEqual(self.run_ddprun(FAKE_WORKER).err(), "")
        self.assertEqual(self.run_ddprun(TWO, FAKE_WORKER, environment={"OMP_NUM_THREADS": "3"}).err(), "")

    def test_verbose_says_what_is_not_on_the_command_line(self):
        run = self.run_ddprun("-v", "--nnodes=1", FAKE_WORKER, environment={"PET_MAX_RESTARTS": "2"})
        self.assertIn("--max-restarts=2 is PET_MAX_RESTARTS's\n", run.err())
        self.assertNotIn("--nnodes=1", run.err())


class Habits(DdprunTest):
    def test_an_argument_with_the_local_rank(self):
        run = self.run_ddprun(TWO, "--pass-local-rank", "echo", "x")
        self.assertEqual(sorted(run.out().splitlines()), ["--local-rank=0 x", "--local-rank=1 x"])
        self.assertEqual(self.run_ddprun("--use-env", "echo", "x").out(), "x\n")

    def test_colours(self):
        for environment, colours in (({}, False), ({"CLICOLOR_FORCE": "1"}, True),
                                     ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
                                     ({"CLICOLOR_FORCE": "0"}, False)):
            for program in ("no-such-program", "false"):
                run = self.start(program, environment=environment)
                self.assertNotEqual(run.wait(), 0)
                self.assertEqual(ESCAPE in run.err(), colours, run.all())

    def test_colours_on_a_terminal(self):
        for term, colours in (("xterm", True), ("dumb", False)):
            ours, theirs = pty.openpty()
            environment = {k: v for k, v in self.environment.items()
                           if k not in ("NO_COLOR", "CLICOLOR_FORCE")}
            subprocess.run([DDPRUN, "no-such-program"], stderr=theirs,
                           env={**environment, "TERM": term})
            os.close(theirs)
            self.assertEqual(ESCAPE.encode() in os.read(ours, 4096), colours)
            os.close(ours)


class Answers(DdprunTest):
    def test_one_that_cannot_be_written_is_an_error(self):
        """`ddprun example ddp > train.py` ended with 0 on a full disk, and train.py was empty."""
        for words in (["example", "ddp"], ["help"], ["help", "status"], ["status", "--help"], ["version"],
                      ["env"], ["completion", "bash"], ["slurm-script", "true"],
                      ["k8s-manifest", "--image=x", "true"], ["--dry-run", "true"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                run = subprocess.run([DDPRUN, *words], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                                     text=True, env=self.environment, cwd=self.directory, timeout=30)
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertEqual(run.stderr, "ddprun: error: cannot write 'standard output': No space left on device\n")


class Events(DdprunTest):
    def test_on_the_console(self):
        run = self.run_ddprun("--event-log-handler=console", "--rdzv-id=mine", TWO, FAKE_WORKER, HELLO,
                              f"--touch={self.path('ready.%r')}", f"--wait-file={self.path('ready.0')}",
                              f"--wait-file={self.path('ready.1')}", "--on-restart=0", "--exit=3", expect=3)
        events = [json.loads(line) for line in run.err().splitlines() if line.startswith("{")]
        names = [(event["source"], event["name"].rsplit(".")[-1]) for event in events]
        self.assertEqual(names[:2], [("WORKER", "START")] * 2)
        self.assertEqual(sorted(names[2:4]), [("WORKER", "FAILED")] * 2)
        self.assertEqual(names[4:], [("AGENT", "FAILED")])
        start = events[0]["metadata"]
        self.assertEqual((start["run_id"], start["global_rank"], start["state"]), ("mine", 0, "START"))
        self.assertEqual(int(start["worker_id"]), run.workers()[0])
        codes = [json.loads(event["metadata"]["metadata"])["exit_code"] for event in events[2:4]]
        self.assertIn([3], codes)


class Installed(DdprunTest):
    def test_binary_pages_and_completions(self):
        prefix = self.path("prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, "--component", "launcher"],
                       check=True, stdout=subprocess.DEVNULL)
        found = {os.path.relpath(os.path.join(folder, name), prefix)
                 for folder, _, names in os.walk(prefix) for name in names}
        verbs = {f"share/man/man1/ddprun-{verb}.1" for verb in references.helps()}
        self.assertLess({"share/man/man1/ddprun-status.1", "share/man/man1/ddprun-daemon.1"}, verbs)
        self.assertEqual(found - verbs, {
            "bin/ddprun", "share/man/man1/ddprun.1", "share/man/man5/ddprun.toml.5",
            "share/bash-completion/completions/ddprun", "share/zsh/site-functions/_ddprun",
            "share/fish/vendor_completions.d/ddprun.fish"})
        self.assertEqual(verbs - found, set())
        self.ask("--version", executable=os.path.join(prefix, "bin/ddprun"))
        with open(os.path.join(prefix, "share/bash-completion/completions/ddprun")) as file:
            self.assertIn("complete -F _ddprun ddprun", file.read())
