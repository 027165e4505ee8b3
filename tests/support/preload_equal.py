"""Runs small programs twice, forked from a preload process and from their file, and compares what they were.

Each rank of one run is another program, so that one preload process serves all of them. A program is a text; it calls
`show(...)` where it wants to be compared, and nothing is written before its end: a worker that has written something cannot be
executed anew.
"""

import ast
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ddprun_runs import DdprunTest, read_text  # noqa: E402

# All wait until all are started: after a program that differs the preload process forks no more. A directory is no write.
RUNNER = """
import os
import time
import process_state
PROGRAMS = %r
if __name__ == "__main__":
    name, text = list(PROGRAMS.items())[int(os.environ["RANK"])]
    os.makedirs(os.path.join(os.environ["REPORTS"], "started", os.environ["RANK"]), exist_ok=True)
    while len(os.listdir(os.path.join(os.environ["REPORTS"], "started"))) < len(PROGRAMS):
        time.sleep(0.01)
    shown = []
    def report(what):
        with open(os.path.join(os.environ["REPORTS"], name), "a") as file:
            file.write(repr(what) + "\\n")
    def show(**more):
        shown.append({**process_state.state(), **more})
    try:
        exec(compile(text, name, "exec"), globals())
    except BaseException:
        import traceback
        shown.append({"error": traceback.format_exc()})
    report(shown)
    with open("/proc/self/maps") as maps:  # Who has been executed anew has lost the hook's library.
        report({"forked": "ddprun-hook" in maps.read()})
"""


def differences(warm, cold, path=""):
    """Where two values differ, in a few words each."""
    if isinstance(warm, dict) and isinstance(cold, dict):
        return [one for key in sorted({**warm, **cold}, key=str)
                for one in differences(warm.get(key, "-"), cold.get(key, "-"), f"{path}/{key}")]
    if warm == cold:
        return []
    if isinstance(warm, list) and isinstance(cold, list):
        if len(warm) == len(cold) and any(isinstance(one, (list, dict)) for one in warm):
            return [one for number, both in enumerate(zip(warm, cold)) for one in differences(*both, f"{path}/{number}")]
        return [f"{path}: only warm {[one for one in warm if one not in cold][:9]}, "
                f"only cold {[one for one in cold if one not in warm][:9]}, of {len(warm)} and {len(cold)}"]
    return [f"{path}: {str(warm)[:300]} and cold {str(cold)[:300]}"]


class EqualTest(DdprunTest):
    def run_all(self, programs, preload, limit=30):
        """name -> what it has shown; and the run. On a busy machine a fork may take longer than is waited for: once more."""
        for _ in range(3):
            found, run = self.run_once(programs, preload, limit)
            if "did not answer within" not in run.err():
                return found, run
        self.skipTest("the preload process was late, and workers started cold")
        return None

    def run_once(self, programs, preload, limit):
        self.write("run.py", RUNNER % (programs,))
        reports = tempfile.mkdtemp(prefix="reports", dir=self.directory)
        support = os.path.dirname(os.path.abspath(__file__))
        run = self.run_ddprun(f"--nproc-per-node={len(programs)}", f"--preload={preload}", self.path("run.py"), limit=limit,
                              environment={"REPORTS": reports, "PYTHONPATH": support, "PYTHON_EXEC": sys.executable,
                                           "DDPRUN_WATCH": "0", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"})
        found = {}
        for name in programs:
            lines = read_text(os.path.join(reports, name)).replace(reports, "REPORTS").splitlines()
            found[name] = [ast.literal_eval(line) for line in lines]
        return found, run

    def assert_equal_programs(self, programs, anew, preload, limit=30):
        """Of `programs` each continues where it was forked; of `anew` each has been executed anew."""
        both = {**programs, **anew}
        warm, run = self.run_all(both, preload, limit)
        cold, _ = self.run_all(both, "none", limit)
        self.assertNotIn("--preload not used", run.err())
        for name in both:
            with self.subTest(name):
                self.assertIn({"forked": name in programs}, warm[name])
                warm[name].remove({"forked": name in programs})
                cold[name].remove({"forked": False})
                self.assertEqual(differences(warm[name], cold[name]), [])
        return run
