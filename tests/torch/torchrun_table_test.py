"""The same command lines under torchrun and ddprun: taken or refused, and what workers then see."""

import contextlib
import io
import logging
import os
import re
import shutil
import unittest
from unittest import mock

import torch.distributed.run as torchrun
from torch_runs import HERE, LIMIT, TORCHRUN, TorchTest, program, read_text
from torchrun_lines import DIFFERENT, IN_REAL_RUNS, LINES

DOCUMENT = os.path.join(HERE, "..", "..", "docs", "from-torchrun.md")


def flat(text):
    return " ".join(text.split())


def ask_the_parser(line):
    """torchrun's exit code for a command line and, where it would start workers, what with."""
    found = {}

    def launch(config, entrypoint):
        found.update(config=config, entrypoint=entrypoint)
        return lambda *arguments: found.update(arguments=list(arguments))

    errors = io.StringIO()
    with mock.patch.dict(os.environ, line["pet"]), contextlib.redirect_stderr(errors), \
            mock.patch.object(torchrun, "elastic_launch", launch):
        try:
            torchrun.run(torchrun.parse_args(line["flags"] + line["program"]))
        except SystemExit as end:
            return end.code, None
        except Exception:  # What torchrun's main would show as a traceback.
            return 1, None
    return 0, found


class Table(TorchTest):
    def setUp(self):
        super().setUp()
        logging.getLogger("torch").setLevel(logging.ERROR)
        shutil.copy(program("dump.py"), self.path("dump.py"))
        os.mkdir(self.path("kept"))  # Where files go that nobody gave a place.
        self.environment["TMPDIR"] = self.path("kept")
        patched = mock.patch.dict(os.environ, {k: self.environment[k] for k in
                                               ("TMPDIR", "PYTHON_EXEC", "OMP_NUM_THREADS")})
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)

    def ask_ddprun(self, line):
        """Its exit code, and what its worker of local rank 0 saw."""
        self.new_reports()
        run = self.start(*line["flags"], *line["program"], environment=line["pet"])
        code = run.wait()
        told = self.told() if code == 0 else []
        return run, code, told[0] if told else None

    @staticmethod
    def meaning_of_torchrun(found):
        config = found["config"]
        command = [found["entrypoint"], *found["arguments"]]
        if callable(command[0]):  # --run-path
            command = command[1:]
        drawn = config.run_id == "none" or re.fullmatch(r"[0-9a-f-]{36}", config.run_id)
        return {
            "command": command, "LOCAL_WORLD_SIZE": str(config.nproc_per_node),
            "ROLE_NAME": config.role, "TORCHELASTIC_MAX_RESTARTS": str(config.max_restarts),
            "TORCHELASTIC_SIGNALS_TO_HANDLE": config.signals_to_handle,
            "TORCHELASTIC_RUN_ID": None if drawn else config.run_id,
        }

    @staticmethod
    def meaning_of_ddprun(told, like):
        command = told["command"]
        if "-c" in command[:3]:  # --run-path
            command = ["./" + os.path.basename(told["argv"][0]), *told["argv"][1:]]
        elif command[-len(told["argv"]):] == told["argv"] and "-u" not in command:
            command = told["argv"]  # Not ddprun's, but the shebang's Python is before it.
        return {name: command if name == "command"
                else told["environment"].get(name) if value is not None else None
                for name, value in like.items()}

    def compare(self, line):
        torch_code, found = ask_the_parser(line)
        run, code, told = self.ask_ddprun(line)
        self.assertIn(code, (0, 2), run.all())
        if code == 2 and run.process.args[1:]:  # Without any argument the commands are shown.
            self.assertRegex(run.err(), r"^ddprun: [^\n]+\n$", "one message, nothing else")
        same = code == torch_code
        if same and found:
            theirs = self.meaning_of_torchrun(found)
            ours = self.meaning_of_ddprun(told, theirs)
            same = ours == theirs
            if line["why"] is None:
                self.assertEqual(ours, theirs, run.all())
        if line["why"] is None:
            self.assertEqual(code, torch_code, run.all())
        else:
            self.assertFalse(same, f"no longer different: {DIFFERENT[line['why']]}")

    def test_taken_or_refused_and_meant_alike(self):
        for line in LINES:
            with self.subTest(flags=line["flags"], pet=line["pet"], program=line["program"]):
                self.compare(line)

    def test_every_flag_of_torchrun_is_in_the_table(self):
        given = {re.split("[ =]", flag.replace("_", "-"))[0] for line in LINES for flag in line["flags"]}
        missing = [option for action in torchrun.get_args_parser()._actions
                   for option in action.option_strings
                   if option.replace("_", "-") not in given and option[:2] not in given
                   and option.replace("_", "-") not in ELSEWHERE]
        self.assertEqual(missing, [])

    def test_every_reason_is_used_and_documented(self):
        used = {line["why"] for line in LINES} - {None} | IN_REAL_RUNS
        self.assertEqual(used, set(DIFFERENT))
        text = flat(read_text(DOCUMENT))
        for sentence in DIFFERENT.values():
            self.assertIn(flat(sentence), text)

    def test_every_flag_of_torchrun_has_a_row(self):
        """Ours are compared with the page by tests/integration/reference_test.py."""
        rows = set(re.findall(r"`(-[\w-]+)`", "".join(re.findall(r"^\|([^|]*)\|", read_text(DOCUMENT), re.M))))
        theirs = {option for action in torchrun.get_args_parser()._actions
                  for option in action.option_strings if "_" not in option}
        self.assertEqual(theirs - rows, set(), "no row in the table")
        self.assertEqual(rows - theirs, {"--use-env"}, "rows that are not torchrun's")  # Of an older launcher.


# Flags whose meaning shows in real runs only, or nowhere.
ELSEWHERE = {"--help", "-h", "--module", "--virtual-local-rank", "--numa-binding",
             "--print-completion"}


class RealRuns(TorchTest):
    """Both launchers, for real: the whole environment of every worker, its command, the output."""

    def both(self, *flags, agents=((),), file="dump.py", arguments=(), environment=None):
        """What each worker told, under torchrun and under ddprun; and their runs."""
        answers = []
        for executable in (TORCHRUN, None):
            self.new_reports()
            endpoint = self.free_endpoint().split(":")
            name = os.path.basename(executable or "ddprun")
            os.makedirs(self.path(name), exist_ok=True)
            fill = {"HOST": endpoint[0], "PORT": endpoint[1], "LOGS": self.path(name)}
            put = lambda words: [re.sub(r"%(\w+)%", lambda m: fill[m[1]], w) for w in words]
            how = {"executable": executable} if executable else {}
            runs = [self.start(*put(flags), *put(agent), program(file) if "." in file else file,
                               *arguments, environment={"TMPDIR": self.path(name), **(environment or {})},
                               **how) for agent in agents]
            self.all_end(runs, limit=LIMIT)
            answers.append((self.told(), runs, fill))
        return answers

    def seen(self, told, fill, literal):
        """What must be equal of a worker: where a value is drawn, only that there is one."""
        environment = {}
        for name, value in told["environment"].items():
            value = value.replace(fill["HOST"], "%HOST%") if literal else value
            if name.endswith("FILE"):
                value = re.sub(r"^.*/(attempt_\d+/.*)$", r"\1", value)
                value = re.sub(r"/(\d+)\.error\.json$", r"/\1/error.json", value)  # Nothing is kept.
            environment[name] = value
        for name in ("REPORTS", "TMPDIR"):
            environment.pop(name)
        for name in DRAWN:
            environment[name] = bool(environment[name])
        for name in () if literal else ("MASTER_ADDR", "MASTER_PORT"):
            environment[name] = bool(environment[name])
        if literal:
            self.assertEqual(told["environment"]["MASTER_PORT"], fill["PORT"])
            environment.pop("MASTER_PORT")
        return {"command": told["command"], "argv": told["argv"],
                "environment": {k: v for k, v in environment.items()
                                if not k.startswith("DDPRUN_") and k not in ("PYTHONFAULTHANDLER", "PYTHONUNBUFFERED")}}

    def assert_alike(self, *flags, literal=False, unlike=(), **how):
        (theirs, _, fill), (ours, runs, own_fill) = answers = self.both(*flags, **how)
        self.assertEqual(len(ours), len(theirs))
        for our, their in zip(ours, theirs):
            our, their = self.seen(our, own_fill, literal), self.seen(their, fill, literal)
            for name in unlike:
                for side in (our, their):
                    side["environment"].pop(name, None)
            self.assertEqual(our, their, runs[0].all())
        return answers

    # 1 for each, said on the terminal, is what it sets; ddprun shares the CPUs out.
    def test_two_with_a_role_and_macros_and_threads_shared_out(self):
        del self.environment["OMP_NUM_THREADS"]
        (theirs, _, _), (ours, _, _) = self.assert_alike(
            "--nproc-per-node=2", "--role=trainer", "--max-restarts=2", "--signals-to-handle=SIGTERM,SIGUSR1",
            arguments=("r${local_rank}.txt", "--nproc-per-node=7"), unlike=("OMP_NUM_THREADS",))
        self.assertEqual(theirs[0]["environment"]["OMP_NUM_THREADS"], "1")
        share = max(1, len(os.sched_getaffinity(0)) // 2)
        self.assertEqual(ours[0]["environment"]["OMP_NUM_THREADS"], str(share))

    def test_a_module(self):
        self.environment["PYTHONPATH"] = program("")
        self.assert_alike("--nproc-per-node=2", "-m", file="dump", arguments=("-m", "x"))

    def test_a_script_of_its_own_without_python(self):
        self.assert_alike("--no-python", arguments=("--x", "${local_rank}", "a b"))

    def test_a_static_endpoint(self):
        self.assert_alike("--rdzv-backend=static", "--rdzv-endpoint=%HOST%:%PORT%", "--rdzv-id=mine",
                          literal=True)
        self.new_reports()
        endpoint = self.free_endpoint()
        self.run_ddprun(f"--rdzv-endpoint={endpoint}", program("dump.py"))
        told, = self.told()
        self.assertNotEqual(told["environment"]["MASTER_PORT"], endpoint.split(":")[1])

    def test_two_nodes_with_fixed_ranks(self):
        self.assert_alike("--nnodes=2", "--nproc-per-node=2", "--master-addr=%HOST%",
                          "--master-port=%PORT%", "--rdzv-id=both",
                          agents=(["--node-rank=0"], ["--node-rank=1"]), literal=True)

    def test_one_gpu_each(self):
        self.assert_alike("--virtual-local-rank", "--nproc-per-node=2",
                          environment={"CUDA_VISIBLE_DEVICES": "5,7"})

    def test_files(self):
        (_, theirs, fill), (_, ours, own_fill) = self.assert_alike(
            "--nproc-per-node=2", "--log-dir=%LOGS%/logs", "-r", "0:3", "-t", "1:3",
            "--log-line-prefix-template=<${role_name} ${local_rank} ${rank}>",
            "--duplicate-stdout-filters=out", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
            "--rdzv-id=mine")
        self.assertEqual(ours[0].out(), theirs[0].out())
        self.assertEqual(ours[0].out(), "<default 1 1>out of 1\n")
        trees = []
        for folder in (fill["LOGS"], own_fill["LOGS"]):
            tree = {}
            for path, _, files in os.walk(os.path.join(folder, "logs")):
                for name in files:
                    file = os.path.join(path, name)
                    tree[re.sub("/mine_[^/]*/", "/mine_X/", file.removeprefix(folder))] = read_text(file)
            trees.append(tree)
        for name in ("events.jsonl", "launched", "report.html"):  # What torchrun has no file for.
            self.assertTrue(trees[1].pop("/logs/mine_X/" + name))
        self.assertEqual(trees[1], trees[0])

    def test_no_files(self):
        (_, theirs, _), (_, ours, _) = self.assert_alike(
            "--nproc-per-node=2", "--log-dir=/dev/null", "--tee=3", "--local-ranks-filter=1")
        self.assertEqual(sorted(theirs[0].out().splitlines()), ["out of 0", "out of 1"])
        self.assertEqual(ours[0].out(), "[default1]:out of 1\n")


# Drawn, or the launcher's own, on both sides.
DRAWN = ("TORCHELASTIC_RUN_ID",)


if __name__ == "__main__":
    unittest.main()
