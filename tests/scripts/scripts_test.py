"""The scripts do what they claim, also when what they watch goes wrong: scripts_test.py ROOT BUILD"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = BUILD = None


def run(*command, **variables):
    return subprocess.run([str(word) for word in command], env={**os.environ, **variables},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)


class DemoRecovery(unittest.TestCase):
    def demo(self, fault):
        fake = ROOT / "tests/scripts/fake"
        build = os.path.relpath(BUILD / "tests/scripts", ROOT)
        return run(ROOT / "scripts/demo-recovery.sh", FAKE=fault, DDPRUN_BIN=str(fake),
                   DDPRUN_BUILD_DIR=build)

    def test_shows_kill_restart_resume_and_accuracy_in_one_screen(self):
        result = self.demo("")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        words = [">>> kill -KILL", "restarting", "resumed", ">>> trains again", "final: ", "acc 97.7%"]
        places = [result.stdout.find(word) for word in words]
        self.assertEqual(places, sorted(places), result.stdout)
        self.assertNotIn(-1, places, result.stdout)
        self.assertLessEqual(len(result.stdout.splitlines()), 40)

    def test_fails_when_the_run_gives_up(self):
        result = self.demo("gives up")
        self.assertEqual(result.returncode, 1)
        self.assertIn("ddprun ended with 137", result.stderr)

    def test_fails_when_the_run_ends_before_the_kill(self):
        result = self.demo("ends early")
        self.assertEqual(result.returncode, 1)
        self.assertIn("ended before a worker could be killed", result.stderr)

    def test_fails_when_a_process_is_left(self):
        result = self.demo("leaves a process")
        self.assertEqual(result.returncode, 1)
        self.assertIn("processes of the run are left: ", result.stderr)
        os.kill(int(result.stderr.split("are left: ")[1].split()[0]), signal.SIGKILL)


class UnpackLibtorch(unittest.TestCase):
    LIBRARIES = ["torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp.so.1",
                 "nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcupti.so.13"]

    CUDA = ["torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so", "nvidia/cu13/include/nccl.h"]

    def unpack(self, names, *flags):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        with zipfile.ZipFile(folder / "torch-2.whl", "w") as wheel:
            for name in names:
                wheel.writestr(name, "text")
        result = run(sys.executable, ROOT / "scripts/unpack_libtorch.py", *flags, folder, folder / "out")
        kept = sorted(path.relative_to(folder / "out").as_posix()
                      for path in (folder / "out").rglob("*") if path.is_file())
        return result, kept

    def test_keeps_what_cpp_needs_and_the_licences(self):
        wanted = [*self.LIBRARIES, "torch/include/a/b.h", "torch-2.dist-info/licenses/LICENSE"]
        result, kept = self.unpack([*wanted, "torch/lib/libtorch_cuda.so", "torch/nn/a.py"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(kept, sorted(wanted))

    def test_keeps_more_for_the_gpu_plug_in(self):
        wanted = [*self.LIBRARIES, *self.CUDA]
        result, kept = self.unpack([*wanted, "nvidia/cu13/lib/libcublas.so.13"], "--cuda")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(kept, sorted(wanted))

    def test_names_a_library_that_the_wheels_lack(self):
        result, _ = self.unpack(self.LIBRARIES[1:])
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("libtorch_cpu.so", result.stderr)


class Arguments(unittest.TestCase):
    def test_an_unknown_option_is_refused_before_anything_is_done(self):
        result = run(ROOT / "scripts/setup.sh", "--bogus")
        self.assertEqual(result.returncode, 2)
        self.assertIn("unknown option --bogus", result.stderr)

    def test_packages_of_no_kind_or_an_unknown_one(self):
        for arguments, words in (((), "say what to make"), (("rpm",), "unknown argument rpm")):
            result = run(ROOT / "scripts/package.sh", *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)


    def test_a_kit_for_gpu_machines_needs_a_folder_of_its_own(self):
        here = self.enterContext(tempfile.TemporaryDirectory())
        for arguments, words in (((), "name the folder"), (("--bogus", here), "unknown option --bogus"), ((here, "/tmp/b"), "not two"),
                                 ((here,), "is no kit")):
            result = run(ROOT / "scripts/gpu-kit.sh", *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)

    def test_a_gpu_check_without_a_gpu_is_refused(self):
        result = run(ROOT / "scripts/gpu-check.sh", "--no-build", DDPRUN_BUILD_DIR=os.path.relpath(BUILD, ROOT))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "no GPU on this machine|no programs in")


class Setup(unittest.TestCase):
    def test_a_cache_that_cannot_be_made_is_named(self):
        result = run(ROOT / "scripts/setup.sh", "--no-libtorch", DDPRUN_CACHE="/proc/none")
        self.assertEqual(result.returncode, 2)
        self.assertIn("cannot make the cache folder /proc/none", result.stderr)


    def test_building_asks_for_no_service(self):
        """The first command of the README installs what building needs: no scheduler, no MPI."""
        pins = ROOT / "scripts/pins"
        build = {line for line in (pins / "debian.txt").read_text().splitlines() if line[:1] not in ("", "#")}
        for word in ("slurm", "munge", "openmpi", "gtest", "clang", "shellcheck"):
            self.assertEqual([package for package in build if word in package], [])


class Configure(unittest.TestCase):
    def test_without_the_tests_as_the_first_command_of_the_readme_does(self):
        cache = (BUILD / "CMakeCache.txt").read_text().splitlines()
        kept = ["Libtorch_ROOT", "DDPRUN_WITH_TRAINER", "CMAKE_BUILD_TYPE"]
        folder = self.enterContext(tempfile.TemporaryDirectory())
        result = run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja",
                     *("-D" + line for line in cache if line.split(":")[0] in kept))
        self.assertEqual(result.returncode, 0, result.stderr)
        # Packages that only tests need are not there on a fresh machine: they are not even looked
        # for.
        configured = pathlib.Path(folder, "CMakeCache.txt").read_text()
        self.assertNotRegex(configured, r"(?m)^(GTest|boost_context\S*)_DIR:")


if __name__ == "__main__":
    ROOT, BUILD = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
