"""The Python package `ddprun`: what a worker says with it, and ddprun.run, under the real ddprun.

Run by a Python that has cloudpickle; one without it is the system's.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import unittest.mock

from package_runs import PackageTest
from ddprun_runs import LIMIT, read_text

BARE_PYTHON = "/usr/bin/python3"

from ddprun import _caller  # noqa: E402

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "agent", "workers", "python_hook"))
import _ddprun_watch  # noqa: E402


# torch ends a worker whose pipe it cannot make.
class Recorder(unittest.TestCase):
    def names(self, folder, **environment):
        """The variables of a worker of torch 2.7 beside its others."""
        torch = {"torch.version": types.SimpleNamespace(__version__="2.7.1")}
        with unittest.mock.patch.dict(os.environ, environment), unittest.mock.patch.dict(sys.modules, torch):
            before = dict(os.environ)
            try:
                _ddprun_watch._set_recorder(os.path.join(folder, "notify.0"))
            except OSError:
                pass
            return {name: value for name, value in os.environ.items() if before.get(name) != value}

    def test_where_its_pipe_can_be_made_it_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            beside = os.path.join(folder, "fr_")
            self.assertEqual(self.names(folder), {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
                                                  "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": beside,
                                                  "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": beside})
            chosen = self.names(folder, TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/mine", TORCH_FR_DUMP_TEMP_FILE="/mine")
            self.assertEqual(list(chosen), ["TORCH_NCCL_TRACE_BUFFER_SIZE"])
            self.assertEqual(os.listdir(folder), [])

    def test_where_none_can_be_nothing_is(self):
        for folder in ("/nowhere", "/proc/self"):  # A disk that takes no pipes refuses as /proc does.
            self.assertEqual(self.names(folder), {})


class Workers(PackageTest):
    def test_publishing_from_a_world_that_was_replaced_ends_with_76(self):
        self.script("""
            import os, sys, ddprun
            if os.environ["DDPRUN_GENERATION"] == "1":
                with open("old", "w") as file: file.write("\\0".join(f"{k}={v}" for k, v in os.environ.items()))
                sys.exit(1)
            with open("new", "w") as file: file.write("made")
            ddprun.publish("new", "final")
            """)
        self.run_ddprun("--max-restarts=1", self.path("script.py"))
        self.assertEqual(read_text(self.path("final")), "made")
        old = dict(item.split("=", 1) for item in read_text(self.path("old")).split("\0"))
        self.environment.update(old)
        run = self.python("import ddprun\nopen('late', 'w').close()\nddprun.publish('late', 'final')", expect=76)
        self.assertIn("a newer world has replaced this one", run.err())
        self.assertEqual(read_text(self.path("final")), "made")

    def test_as_a_module_it_is_ddprun_and_workers_have_its_python(self):
        self.environment.pop("PYTHON_EXEC")
        self.script("import sys; print(sys.executable)")
        run = self.ask("-m", "ddprun", "--nproc-per-node=2", self.path("script.py"), executable=sys.executable)
        self.assertEqual(run.out().split(), [sys.executable] * 2)
        self.ask("-m", "ddprun", "--bogus", executable=sys.executable, expect=2)


class Run(PackageTest):
    # Of those that they had at their start.
    def test_results_come_back_in_the_order_of_ranks(self):
        run = self.python("""
            import os, ddprun
            def work(a, b=0):
                rank = int(os.environ["RANK"])
                os.environ["RANK"] = "0"
                return a, b, rank, os.environ["WORLD_SIZE"]
            if __name__ == "__main__":
                print(ddprun.run(work, 3, args=(1,), kwargs={"b": 2}))
            """)
        self.assertIn(str([(1, 2, rank, "3") for rank in range(3)]), run.out())

    def test_the_newest_world_counts_and_flags_are_passed(self):
        run = self.python("""
            import os, sys, ddprun
            def work():
                if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
                    sys.exit(3)
                return os.environ["TORCHELASTIC_RESTART_COUNT"]
            if __name__ == "__main__":
                print(ddprun.run(work, 2, max_restarts=1, hang_timeout="5m", verbose=True, preload=None))
            """)
        self.assertIn("['1', '1']", run.out())

    def test_a_rank_that_ends_well_without_a_result_has_none_in_its_place(self):
        run = self.python("""
            import os, sys, ddprun
            def work(*without):
                if os.environ["RANK"] in without: sys.exit(0)
                return "rank" + os.environ["RANK"]
            if __name__ == "__main__":
                print(ddprun.run(work, 3, args="0"), ddprun.run(work, 3, args="12"))
                print(ddprun.run(work, 2, args="01"))
            """)
        self.assertEqual(run.out().splitlines(),
                         ["[None, 'rank1', 'rank2'] ['rank0', None, None]", "[None, None]"])

    def test_a_world_without_results_is_the_newest_all_the_same(self):
        run = self.python("""
            import os, sys, ddprun
            def work():
                if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1": sys.exit(0)
                if os.environ["RANK"] == "1":
                    global kept
                    kept = open("ends", "w")
                    return "of a world that was replaced"
                open("ends").read()  # Until the other one has.
                sys.exit(3)
            if __name__ == "__main__":
                os.mkfifo("ends")
                print(ddprun.run(work, 2, max_restarts=1))
            """)
        self.assertIn("[None, None]", run.out())

    def test_a_child_of_fork_has_no_say(self):
        run = self.python("""
            import os, sys, ddprun
            def forked():
                child = os.fork()
                if child: os.waitpid(child, 0)
                return child
            def result():
                if forked(): sys.exit(0)
                return "the child's"
            def error():
                if forked(): return os.path.exists(os.environ["TORCHELASTIC_ERROR_FILE"])
                raise ValueError("the child's")
            if __name__ == "__main__":
                print(ddprun.run(result, 1), ddprun.run(error, 1))
            """)
        self.assertIn("[None] [False]", run.out())

    def test_an_exception_is_reported_whatever_its_words(self):
        run = self.python("""
            import ddprun
            class Mute(Exception):
                def __str__(self): raise RuntimeError("no words")
            class Muter(Mute): __notes__ = property(Mute.__str__)
            def mute(): raise Mute
            def muter(): raise Muter
            def name_of_a_file(): raise ValueError("\\udcff")
            if __name__ == "__main__":
                for function in mute, muter, name_of_a_file:
                    try: ddprun.run(function, 1)
                    except ddprun.RunError as error: print(error)
            """)
        self.assertRegex(run.out(), r"exit code 1: Mute: <exception str\(\) failed>\n\nTraceback .*\n(.*\n)+.* in mute\n")
        self.assertRegex(run.out(), r"exit code 1: Muter: <exception str\(\) failed>\n\n(.*\n)+.* in muter\n")
        self.assertIn("exit code 1: ValueError: \\udcff\n\nTraceback ", run.out())
        self.assertIn("\nValueError: \\udcff\n", run.out())
        with open(self.path("recorded"), "w") as file:  # As torch's @record writes them.
            json.dump({"message": {"message": "\udcfe", "extraInfo": {"py_callstack": "\udcfd"}}}, file)
        self.assertEqual(_caller.read_error(self.path("recorded")), ("\\udcfe", "\\udcfd"))

    def test_the_root_cause_is_raised(self):
        run = self.python("""
            import os, ddprun
            def work(): raise ValueError("bad " + os.environ["RANK"])
            if __name__ == "__main__":
                try: ddprun.run(work, 1)
                except ddprun.RunError as error: print(error.code, error)
                try: ddprun.run(work, 1, no_such_flag=3)
                except ddprun.RunError as error: print(error.code)
            """)
        self.assertIn("1 ddprun ended with exit code 1: ValueError: bad 0", run.out())
        self.assertIn("in work", run.out())
        self.assertTrue(run.out().endswith("\n2\n"), run.out())

    def test_a_function_without_a_name_goes_by_value(self):
        text = """
            import ddprun
            def main():
                factor = 5
                print(ddprun.run(lambda x: x * factor, 2, args=(3,)))
            if __name__ == "__main__":
                try: main()
                except TypeError as error: print("TypeError:", error)
            """
        self.assertIn("[15, 15]", self.python(text).out())
        self.environment["PYTHON_EXEC"] = BARE_PYTHON
        self.assertRegex(self.python(text, python=BARE_PYTHON).out(), "TypeError: .*pip install cloudpickle")

    def test_a_result_that_cannot_come_back_or_be_read_back_is_named(self):
        run = self.python("""
            import os, threading, ddprun
            class Handle:
                def __reduce__(self): return os.listdir, ("/nowhere",)
            def lock(): return threading.Lock()
            def handle(): return Handle() if os.environ["RANK"] == "1" else 5
            if __name__ == "__main__":
                for function, workers in (lock, 1), (handle, 2):
                    try: ddprun.run(function, workers)
                    except TypeError as error: print(error)
            """)
        self.assertIn("rank 0 has finished, but its result of type lock cannot be pickled", run.out())
        self.assertIn("rank 1 has finished, but its result cannot be unpickled by the caller: FileNotFoundError: ", run.out())

    def test_a_script_without_its_guard_is_named(self):
        run = self.python("import ddprun\ndef work(): pass\nddprun.run(work, 1)\n", expect=1)
        self.assertIn('Put the call below  if __name__ == "__main__":', run.err())

    def test_an_interactive_session(self):
        """As a notebook: no script, and streams that are objects."""
        program = textwrap.dedent("""
            import contextlib, io, os, sys, ddprun
            def work():
                print("é of", os.environ["RANK"], file=sys.stderr)
                return helper()
            def helper(): return os.environ["RANK"]
            said = io.StringIO()
            with contextlib.redirect_stderr(said): results = ddprun.run(work, 2)
            print(results, sorted(line for line in said.getvalue().splitlines() if " of " in line))
            """)
        done = subprocess.run([sys.executable, "-c", program], env=self.environment, cwd=self.directory,
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.stdout.strip(), "['0', '1'] ['é of 0', 'é of 1']", done.stderr)

    def waiting(self):
        run = self.start(self.script("""
            import os, signal, sys, ddprun
            signal.signal(signal.SIGINT, signal.default_int_handler)  # Also where a shell has it ignored.
            def work():
                with open(f"up.{os.environ['RANK']}", "w"): pass
                signal.pause()
            if __name__ == "__main__":
                try: ddprun.run(work, 2)
                except KeyboardInterrupt: sys.exit(7)
            """), executable=sys.executable)
        self.wait_for(lambda: all(os.path.exists(self.path(f"up.{rank}")) for rank in range(2)), run)
        return run

    def test_an_interrupt_stops_the_workers_and_is_raised(self):
        run = self.waiting()
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), 7, run.all())
        self.assertEqual(self.mark.living(), [])

    def test_workers_do_not_outlive_a_caller_that_is_killed(self):
        run = self.waiting()
        run.signal(signal.SIGKILL)
        run.wait()
        self.assert_gone(LIMIT)
        self.python("import ddprun\ndef work(): pass\nif __name__ == '__main__': ddprun.run(work, 1)\n")
        self.assertEqual([name for name in os.listdir(self.path("tmp")) if name.startswith("ddprun_run_")],
                         [])  # A killed process removes nothing; the next one sweeps.
