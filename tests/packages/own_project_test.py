"""A project with a model of its own, outside of the tree: on the installed library, as its tutorial has it
(tests/support/tutorials.py), on the packed one, and with ddprun as a part of it."""

import os
import shutil
import tarfile

from made import BUILD, ROOT, call, make_packages

from tutorials import DDPRUN, PageTest

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


class OwnProject(PageTest):
    limit = 3000

    def setUp(self):
        super().setUp()
        self.environment.update(Libtorch_ROOT=cached("Libtorch_PREFIX"), CMAKE_BUILD_PARALLEL_LEVEL=str(JOBS), OMP_NUM_THREADS="1")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_command(self, line):
        super().run_command(line)
        self.terminals[-1].wait(self.limit)  # Here each launch begins where the one before has ended.

    def build_examples(self, *settings):
        """Each folder is a project by itself, and what it makes trains."""
        for name, *flags in (["mlp", "--publish=circle"], ["finetune", "--init-from=circle"], ["gan"],
                             ["charlm", f"--data={ROOT}/README.md", "--layers=1", "--width=32"]):
            build = self.path("build-" + name)
            call("cmake", "-S", ROOT / "examples/cpp" / name, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *settings,
                 env=self.environment)
            call("cmake", "--build", build, limit=self.limit, env=self.environment)
            call(DDPRUN, "--nproc-per-node=2", os.path.join(build, name), "--epochs=1", *flags, cwd=self.folder,
                 env=self.environment)

    def test_first_model(self):
        os.symlink(BUILD, self.path("build"))
        self.assertEqual(self.play("first-model.md"), [0, 0, 2, 0])
        self.assertRegex(self.transcript(), r"epoch 4/4 .*accuracy 0\.9")
        call("ctest", "--test-dir", self.path("my-model", "build"), "--no-tests=error", env=self.environment)
        self.build_examples("-DCMAKE_PREFIX_PATH=" + self.path("ddprun"))
        # The installed library finds a plug-in for GPUs.
        os.makedirs(self.path("ddprun", "lib", "ddprun"), exist_ok=True)
        shutil.copy(BUILD / "tests" / "fake_device.so", self.path("ddprun", "lib", "ddprun", "libddprun_cuda.so"))
        said = call(DDPRUN, self.path("my-model", "build", "my-model"), "--device=cuda", expect=2, cwd=self.folder,
                    env=self.environment)
        self.assertIn("registered by process", said)  # Why it has no GPU.

    def test_on_the_unpacked_archive(self):
        (archive,) = make_packages(self.path("dist"), "tar")
        with tarfile.open(archive) as file:
            file.extractall(self.path("unpacked"))
        (top,) = os.listdir(self.path("unpacked"))
        top = self.path("unpacked", top)
        launcher = os.path.join(top, "bin", "ddprun")
        libtorch = self.environment.pop("Libtorch_ROOT")
        call(launcher, "new", "mine", cwd=self.folder, env=self.environment)
        configure = ["cmake", "-S", self.path("mine"), "-DCMAKE_BUILD_TYPE=Release", "-B", self.path("build")]
        call(*configure, f"-DCMAKE_PREFIX_PATH={top};{libtorch}/torch/share/cmake", env=self.environment)
        call("cmake", "--build", self.path("build"), limit=self.limit, env=self.environment)
        said = call(launcher, "--nproc-per-node=2", self.path("build", "mine"), "--epochs=2", cwd=self.folder, env=self.environment)
        self.assertRegex(said, r"epoch 2/2 .*accuracy 0\.9")
        # Beside the library, where the packed ddprun-train looks too.
        os.makedirs(os.path.join(top, "lib", "ddprun"), exist_ok=True)
        os.symlink(os.path.join(libtorch, "torch"), os.path.join(top, "lib", "ddprun", "torch"))
        call(*configure[:-1], self.path("beside"), "-DCMAKE_PREFIX_PATH=" + top, env=self.environment)

    def test_with_ddprun_as_a_part_of_it(self):
        os.mkdir(self.path("mine"))
        shutil.copy(ROOT / "examples/cpp/mlp/main.cc", self.path("mine"))
        with open(self.path("mine", "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(FETCHES)
        call("cmake", "-S", self.path("mine"), "-B", self.path("build"), "-DCMAKE_BUILD_TYPE=Release", env=self.environment)
        call("cmake", "--build", self.path("build"), limit=self.limit, env=self.environment)
        self.assertFalse(os.path.exists(self.path("build", "bin")), "programs of ddprun were built too")
        said = call(DDPRUN, "--nproc-per-node=2", self.path("build", "mine"), "--epochs=2", cwd=self.folder, env=self.environment)
        self.assertRegex(said, r"epoch 2/2 .*accuracy 0\.9")
