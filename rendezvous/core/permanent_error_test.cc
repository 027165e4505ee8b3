#include "rendezvous/core/permanent_error.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

WorkerFailure Ended(int code, const std::string& last_lines) {
  WorkerFailure failure;
  failure.status = Exited{code};
  failure.last_lines = last_lines;
  return failure;
}

std::string Of(int code, const std::string& last_lines) {
  return PermanentError(Ended(code, last_lines));
}

TEST(PermanentErrorTest, APythonErrorThatEndsTheProgram) {
  EXPECT_EQ(Of(1,
               "Traceback (most recent call last):\n  File \"w.py\", line 1, in <module>\n"
               "    import gone\nModuleNotFoundError: No module named 'gone'\n"),
            "ModuleNotFoundError: No module named 'gone'");
  EXPECT_EQ(Of(1, "  File \"w.py\", line 1\n    a b\n      ^\nSyntaxError: invalid syntax\n"),
            "SyntaxError: invalid syntax");
  EXPECT_EQ(Of(1, "NameError: name 'x' is not defined"), "NameError: name 'x' is not defined");
  EXPECT_EQ(Of(1, "ImportError: libcudart.so.12: cannot open\n[W1127 c10d] was not called\n\n"),
            "ImportError: libcudart.so.12: cannot open");
  EXPECT_EQ(Of(1,
               "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"w.py\", line 9\n"
               "[rank1]: NameError: name 'x' is not defined\n[rank1]:[W1127 c10d] a warning\n"),
            "NameError: name 'x' is not defined");
  EXPECT_EQ(Of(1, "/usr/bin/python3: No module named gone\n"),
            "/usr/bin/python3: No module named gone");
}

TEST(PermanentErrorTest, TheMessageOfAnErrorFileCounts) {
  WorkerFailure failure = Ended(1, "");
  failure.details.message = "ModuleNotFoundError: No module named 'gone'";
  EXPECT_EQ(PermanentError(failure), "ModuleNotFoundError: No module named 'gone'");
  failure.details.message = "ConnectionRefusedError: [Errno 111] Connection refused";
  failure.last_lines = "NameError: name 'x' is not defined";
  EXPECT_EQ(PermanentError(failure), "");
}

TEST(PermanentErrorTest, AUsageErrorAndAMissingScript) {
  EXPECT_EQ(Of(2, "usage: w.py [-h]\nw.py: error: unrecognized arguments: --x\n"),
            "w.py: error: unrecognized arguments: --x");
  EXPECT_EQ(Of(2, "Usage: w.py [OPTIONS]\nTry 'w.py --help'\n\nError: No such option: --x\n"),
            "Error: No such option: --x");
  EXPECT_EQ(Of(2, "python3: can't open file '/w.py': [Errno 2] No such file or directory\n"),
            "python3: can't open file '/w.py': [Errno 2] No such file or directory");
  EXPECT_EQ(Of(127, "run.sh: line 1: trainer: command not found\n"),
            "exit code 127 run.sh: line 1: trainer: command not found");
  EXPECT_EQ(Of(126, ""), "exit code 126 ");
}

TEST(PermanentErrorTest, ErrorsThatMayHeal) {
  EXPECT_EQ(Of(1, "ConnectionRefusedError: [Errno 111] Connection refused\n"), "");
  EXPECT_EQ(Of(1, "FileNotFoundError: [Errno 2] No such file or directory: 'data.bin'\n"), "");
  EXPECT_EQ(Of(2, "cannot reach the database\n"), "");
  EXPECT_EQ(Of(1, "ImportError: no apex, continuing without\ncannot reach the database\n"), "");
  EXPECT_EQ(Of(3, "NameError: name 'x' is not defined\n"), "");
  EXPECT_EQ(Of(1, ""), "");
  EXPECT_EQ(Of(2, "GPU memory usage: 43%\nerror: cannot reach storage\n"), "");
  EXPECT_EQ(Of(2, "python3: can't open file '/w.py': [Errno 116] Stale file handle\n"), "");
  EXPECT_EQ(Of(1, "WARNING: fused kernels off: No module named 'apex'\n"), "");
  WorkerFailure killed = Ended(1, "NameError: name 'x' is not defined\n");
  killed.status = Killed{9};
  EXPECT_EQ(PermanentError(killed), "");
}

TEST(PermanentErrorTest, ALongLineIsCut) {
  EXPECT_EQ(Of(1, "NameError: " + std::string(4'000, 'x')).size(), 256u);
}

}  // namespace
}  // namespace ddprun
