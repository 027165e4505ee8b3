"""The same command lines under torchrun and ddprun: taken or refused, and what workers then see."""

import contextlib
import io
import logging
import os
import re
import shutil
from unittest import mock

import torch.distributed.run as torchrun
from torch_runs import HERE, TorchTest, program, read_text
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
        except Exception:  # The error that torchrun's main would show as a traceback.
            return 1, None
    return 0, found


class Table(TorchTest):
    def setUp(self):
        super().setUp()
        logging.getLogger("torch").setLevel(logging.ERROR)
        shutil.copy(program("dump.py"), self.path("dump.py"))
        os.mkdir(self.path("kept"))  # The place of files for which none was given.
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
            command = told["argv"]
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
