"""Errors around the Python package: a caller, a function or a disk that does not do its part."""

import os
import sys

from package_runs import PackageTest


class Memory(PackageTest):
    # A program may close all of its descriptors, and numbers are given out again.
    def test_another_file_with_a_descriptors_number_is_no_memory(self):
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

    # A limit on sizes of files refuses as a full disk does: what is allocated can still be written.
    def test_a_result_for_which_there_is_no_room_costs_no_second_run(self):
        run = self.python("""
            import os, resource, ddprun
            def large():
                with open("ran", "a") as file: file.write("x")
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
                return bytes(100_000) if os.environ["RANK"] == "1" else 5
            if __name__ == "__main__":
                try: ddprun.run(large, 2, max_restarts=1)
                except OSError as error: print(os.path.getsize("ran"), error)
            """)
        self.assertRegex(run.out(), r"^2 rank 1 has finished, but its result of \d+ bytes cannot be written to "
                                    r"'/.*/result\.\d+\.\d+\.1': OSError: \[Errno 27\] File too large\n$")

    def test_an_exception_is_reported_without_room_for_its_file(self):
        run = self.python("""
            import resource, ddprun
            def work():
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
                raise ValueError("boom" + "!" * 5000)
            if __name__ == "__main__":
                try: ddprun.run(work, 1)
                except ddprun.RunError as error: print(error)
            """)
        self.assertRegex(run.out(), r"^ddprun ended with exit code 1: rank 0: ValueError: boom!+ \.\.\. \(4216 characters more\) \.\.\. !+\n$")

    # As under cron, a daemon, or pythonw: Python then has None where its stream would be.
    def test_a_caller_without_streams_runs_all_the_same(self):
        text = """
            import os, sys, ddprun
            def work():
                print("one", flush=True)
                print("two", file=sys.stderr, flush=True)
                return [stream is None for stream in (sys.stdout, sys.stderr)]
            if __name__ == "__main__":
                if sys.argv[1] == "closed": sys.stdout.close()
                if sys.argv[1] == "none": sys.stdout = None
                with open("results", "w") as file: print(ddprun.run(work, 1, role="r"), file=file)
            """
        for redirections in (">&- 2>&-", ">&-", "2>&-", "0>&- 1>&- 2>&-", "; closed", "; none"):
            with self.subTest(redirections):
                how, _, word = redirections.partition("; ")
                run = self.ask("-c", f'exec "$@" {how}', "sh", sys.executable, self.script(text), word or "open",
                               executable="/bin/sh")
                with open(self.path("results")) as file:
                    self.assertEqual(file.read(), "[[False, False]]\n")
                os.unlink(self.path("results"))
                self.assertEqual("one" in run.out(), how == "2>&-")
                self.assertEqual("two" in run.err(), "2>&-" not in how)

    def test_of_a_long_message_both_ends_are_shown(self):
        run = self.python("""
            import ddprun
            def work(): raise ValueError("first" + "\\x01" * 5_000_000 + "last")
            if __name__ == "__main__":
                try: ddprun.run(work, 1)
                except ddprun.RunError as error: print(error)
            """)
        cut = r"ValueError: first\x01+ \.\.\. \(\d+ characters more\) \.\.\. \x01+last"
        self.assertRegex(run.out(), rf"^ddprun ended with exit code 1: {cut}\n\nTraceback .*\n(.*\n)+.* in work\n(.*\n)+"
                                    r"ValueError: first\x01+ .*\x01last\n")

    def test_any_end_of_a_function_is_reported(self):
        run = self.python("""
            import asyncio, sys, ddprun
            class Mine(BaseException): pass
            class Result:
                def __reduce__(self): raise Mine("of a result")
            def own(): raise Mine("of mine")
            def cancelled(): raise asyncio.CancelledError("by whom")
            def interrupted(): raise KeyboardInterrupt("no signal")
            def text(): sys.exit("the disk is bad")
            def number(): sys.exit(3)
            if __name__ == "__main__":
                for function in own, Result, cancelled, interrupted, text, number:
                    try: ddprun.run(function, 1)
                    except ddprun.RunError as error:
                        print(str(error).splitlines()[0], "Traceback" in error.traceback)
            """)
        said = "ddprun ended with exit code "
        self.assertEqual(run.out().splitlines(), [
            said + "1: Mine: of mine True", said + "1: Mine: of a result True", said + "1: CancelledError: by whom True",
            said + "130: KeyboardInterrupt: no signal True", said + "1: SystemExit: the disk is bad True", said + "3 False"])
