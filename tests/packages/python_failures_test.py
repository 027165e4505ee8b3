"""What goes wrong around the Python package: a caller, a function or a disk that does what it should not."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from package_runs import PackageTest  # noqa: E402


class Memory(PackageTest):
    # A program may close all of its descriptors, and numbers are given out again.
    def test_what_has_a_descriptors_number_now_is_no_memory(self):
        self.script("""
            import fcntl, mmap, os, ddprun
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                ddprun.fdstore("state", mmap.PAGESIZE)
                os._exit(3)
            print(len(ddprun.fdstore("state")), os.readlink("/proc/self/fd/3"))
            os.close(3)
            print(ddprun.fdstore("state"))
            with open("mine", "wb+") as mine:
                mine.write(b"precious")
                mine.flush()
                print(mine.fileno(), ddprun.fdstore("state"))
            other = os.memfd_create("states", os.MFD_ALLOW_SEALING)
            os.ftruncate(other, 8)
            fcntl.fcntl(other, 1033, 6)  # As sealed as what is kept.
            print(other, ddprun.fdstore("state"))
            os.close(other)
            other = os.memfd_create("state")
            os.ftruncate(other, 8)
            print(other, ddprun.fdstore("state"))
            """)
        run = self.run_ddprun("--max-restarts=1", self.path("script.py"))
        self.assertEqual(run.out().splitlines(), [
            f"{os.sysconf('SC_PAGESIZE')} /memfd:state (deleted)", "None", "3 None", "3 None", "3 None"])


class Failures(PackageTest):
    def test_a_failure_arrives_from_another_process(self):
        run = self.python("""
            import concurrent.futures, ddprun
            def work(): raise ValueError("boom")
            def outer(): ddprun.run(work, 1)
            if __name__ == "__main__":
                with concurrent.futures.ProcessPoolExecutor(1) as pool:
                    try: pool.submit(outer).result()
                    except ddprun.RunError as error: print(error.code, str(error).replace(error.traceback, "[traceback]"))
            """)
        self.assertEqual(run.out(), "1 ddprun ended with exit code 1: ValueError: boom\n\n[traceback]\n")


if __name__ == "__main__":
    unittest.main()
