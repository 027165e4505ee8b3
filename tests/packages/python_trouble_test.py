"""ddprun.run where something is in its way: closed descriptors, full disks, exceptions of any kind and size."""

import os
import pickle
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]

from ddprun_runs import read_text  # noqa: E402
from python_package_test import PackageTest  # noqa: E402

import ddprun  # noqa: E402


class Trouble(PackageTest):
    # A pool waits for ever for an exception that cannot be pickled and made anew.
    def test_a_failure_reaches_who_waits_in_another_process(self):
        error = pickle.loads(pickle.dumps(ddprun.RunError(3, "ddprun ended with exit code 3", "Traceback of it")))
        self.assertEqual((error.code, error.traceback), (3, "Traceback of it"))
        self.assertEqual(str(error), "ddprun ended with exit code 3\n\nTraceback of it")
        run = self.python("""
            import multiprocessing, ddprun
            def work(): raise ValueError("bad")
            def task(): ddprun.run(work, 1)
            if __name__ == "__main__":
                with multiprocessing.Pool(1) as pool:
                    try: pool.apply_async(task).get(60)
                    except ddprun.RunError as error: print(error.code, error)
            """)
        self.assertIn("1 ddprun ended with exit code 1: ValueError: bad", run.out())

    def test_streams_that_are_closed_are_no_reason_not_to_run(self):
        script = self.script("""
            import io, os, sys, ddprun
            def work():
                print("nobody hears this")
                return os.environ["RANK"]
            if __name__ == "__main__":
                if sys.argv[1] == "none": sys.stdout, sys.stderr = None, io.StringIO()
                if sys.argv[1] == "closed": sys.stdout.close()
                results = ddprun.run(work, 2)
                with open("answer", "w") as file: print(sys.argv[1], results, file=file)
            """)
        for how, streams in (("none", ""), ("closed", ""), ("out", ">&-"), ("all", "<&- >&- 2>&-")):
            run = self.start("-c", f'exec "$@" {streams}', "sh", sys.executable, script, how, executable="/bin/sh")
            self.assertEqual(run.wait(), 0, run.all())
            self.assertEqual(read_text(self.path("answer")), f"{how} ['0', '1']\n")

    def test_what_is_raised_is_told_however_long_and_of_whatever_kind(self):
        run = self.python("""
            import asyncio, sys, ddprun
            def long(): raise ValueError("begin" + "\\x01\\U0001F600" * 1_000_000 + "end")
            def cancelled(): raise asyncio.CancelledError("by whom")
            def gives_up(): sys.exit("no data")
            def ends(): sys.exit(3)
            if __name__ == "__main__":
                for function in long, cancelled, gives_up, ends:
                    try: ddprun.run(function, 1)
                    except ddprun.RunError as error:
                        print(error.code, ascii(str(error)[:80]), len(str(error)) < 200_000, f" in {function.__name__}\\n" in str(error))
            """)
        said = run.out().splitlines()
        self.assertTrue(said[0].startswith("1 'ddprun ended with exit code 1: ValueError: begin\\x01"), said)
        self.assertTrue(said[0].endswith("True True"), said)
        self.assertRegex(said[1], "1 'ddprun ended with exit code 1: CancelledError: by whom.* True True")
        self.assertRegex(said[2], "1 'ddprun ended with exit code 1: SystemExit: no data.* True True")
        self.assertEqual(said[3], "3 'ddprun ended with exit code 3' True False")

    def test_a_result_that_no_disk_takes_is_named(self):
        run = self.python("""
            import resource, signal, ddprun
            def work():
                with open("runs", "a") as file: file.write("x")
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # As a full disk.
                return b"x" * 1_000_000
            if __name__ == "__main__":
                try: ddprun.run(work, 1, max_restarts=2)
                except TypeError as error: print(error, open("runs").read())
            """)
        self.assertRegex(run.out(), r"rank 0 has finished, but its result, of 1000\d+ bytes, cannot be written: "
                                    r"OSError: .* x\n")

    # The numbers are the program's by then, and so is what is written to them.
    def test_memory_is_never_a_file_of_the_programs(self):
        self.script("""
            import os, ddprun
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                ddprun.fdstore("state", 4096)
                os._exit(1)
            kept = ddprun.fdstore("state") is not None
            os.closerange(3, 64)
            closed = ddprun.fdstore("state")
            for _ in range(8): own = open("own", "w+b"); own.write(b"precious"); own.flush(); os.dup(own.fileno())
            print(kept, closed, ddprun.fdstore("state"))
            """)
        run = self.run_ddprun("--max-restarts=1", self.path("script.py"))
        self.assertEqual(run.out(), "True None None\n")


if __name__ == "__main__":
    unittest.main()
