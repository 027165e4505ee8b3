"""torchrun and ddprun run the same program: the whole environment of every worker, its command, the output."""

import os
import re

from torch_runs import LIMIT, TORCHRUN, TorchTest, program, read_text

# Drawn, or the launcher's own, on both sides.
DRAWN = ("TORCHELASTIC_RUN_ID",)


class BothLaunchers(TorchTest):
    def both(self, *flags, agents=((),), file="dump.py", arguments=(), environment=None):
        """The reports of each worker, under torchrun and under ddprun; and their runs."""
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
        """The values that must be equal of a worker: where a value is drawn, only that there is
        one."""
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


class Runs(BothLaunchers):
    # One thread for each, said on the terminal, is what it sets; ddprun shares the CPUs out.
    def test_two_with_a_role_and_macros_and_files_and_threads_shared_out(self):
        del self.environment["OMP_NUM_THREADS"]
        (told, theirs, fill), (own_told, ours, own_fill) = self.assert_alike(
            "--nproc-per-node=2", "--role=trainer", "--max-restarts=2", "--signals-to-handle=SIGTERM,SIGUSR1",
            "--log-dir=%LOGS%/logs", "-r", "0:3", "-t", "1:3",
            "--log-line-prefix-template=<${role_name} ${local_rank} ${rank}>",
            "--duplicate-stdout-filters=out", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
            "--rdzv-id=mine", arguments=("r${local_rank}.txt", "--nproc-per-node=7"), unlike=("OMP_NUM_THREADS",))
        self.assertEqual(told[0]["environment"]["OMP_NUM_THREADS"], "1")
        share = max(1, len(os.sched_getaffinity(0)) // 2)
        self.assertEqual(own_told[0]["environment"]["OMP_NUM_THREADS"], str(share))
        self.assertEqual(ours[0].out(), theirs[0].out())
        self.assertEqual(ours[0].out(), "<trainer 1 1>out of 1\n")
        trees = []
        for folder in (fill["LOGS"], own_fill["LOGS"]):
            tree = {}
            for path, _, files in os.walk(os.path.join(folder, "logs")):
                for name in files:
                    file = os.path.join(path, name)
                    tree[re.sub("/mine_[^/]*/", "/mine_X/", file.removeprefix(folder))] = read_text(file)
            trees.append(tree)
        for name in ("events.jsonl", "launched", "report.html"):  # Files that torchrun does not write.
            self.assertTrue(trees[1].pop("/logs/mine_X/" + name))
        self.assertEqual(trees[1], trees[0])

    def test_two_nodes_with_fixed_ranks(self):
        self.assert_alike("--nnodes=2", "--nproc-per-node=2", "--master-addr=%HOST%",
                          "--master-port=%PORT%", "--rdzv-id=both",
                          agents=(["--node-rank=0"], ["--node-rank=1"]), literal=True)
