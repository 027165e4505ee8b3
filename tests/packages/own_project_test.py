"""A project with a model of its own, outside of the tree: on the installed library, and with ddprun as a part of it."""

import os
import shutil
import tempfile
import unittest

from made import BUILD, ROOT, call, clean_environment

DDPRUN = os.environ["DDPRUN"]
JOBS = max(len(os.sched_getaffinity(0)) // 2, 1)  # A file that sees libtorch takes 1.3 GB.
FETCHES = f"""cmake_minimum_required(VERSION 3.25)
project(mine LANGUAGES CXX)
include(FetchContent)
FetchContent_Declare(ddprun SOURCE_DIR {ROOT})
FetchContent_MakeAvailable(ddprun)
add_executable(mine main.cc)
target_link_libraries(mine PRIVATE ddprun::trainer)
"""


def cached(name):
    """A value of the build folder's CMake cache."""
    with open(BUILD / "CMakeCache.txt", encoding="utf-8") as file:
        return next(line.strip().partition("=")[2] for line in file if line.startswith(name + ":"))


class OwnProject(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ddprun_test_")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def builds_and_learns(self, *settings):
        call("cmake", "-S", self.path("mine"), "-B", self.path("build"), "-DCMAKE_BUILD_TYPE=Release",
             f"-DLibtorch_ROOT={cached('Libtorch_PREFIX')}", *settings)
        call("cmake", "--build", self.path("build"), "-j", JOBS, limit=3000)
        self.assertFalse(os.path.exists(self.path("build", "bin")), "programs of ddprun were built too")
        said = call(DDPRUN, "--nproc-per-node=2", self.path("build", "mine"), "--epochs=2", cwd=self.folder,
                    env=clean_environment(OMP_NUM_THREADS="1"))
        self.assertRegex(said, r"epoch 2/2 .*accuracy 0\.9")

    def finds_the_gpu_plug_in(self, folder):
        os.makedirs(folder, exist_ok=True)
        shutil.copy(BUILD / "tests" / "fake_device.so", os.path.join(folder, "libddprun_cuda.so"))
        said = call(DDPRUN, self.path("build", "mine"), "--device=cuda", expect=2, cwd=self.folder, env=clean_environment())
        self.assertIn("registered by process", said)  # Why it has no GPU.

    def test_on_the_installed_library(self):
        call("cmake", "--build", BUILD, "-j", JOBS, "--target", "ddprun_trainer", limit=3000)
        call("cmake", "--install", BUILD, "--component", "library", "--prefix", self.path("prefix"))
        call(DDPRUN, "new", self.path("mine"))
        self.builds_and_learns(f"-DCMAKE_PREFIX_PATH={self.path('prefix')}")
        self.finds_the_gpu_plug_in(self.path("prefix", "lib", "ddprun"))

    def test_with_ddprun_as_a_part_of_it(self):
        os.mkdir(self.path("mine"))
        shutil.copy(ROOT / "examples/cpp/mlp/main.cc", self.path("mine"))
        with open(self.path("mine", "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(FETCHES)
        self.builds_and_learns()


if __name__ == "__main__":
    unittest.main(verbosity=2)
