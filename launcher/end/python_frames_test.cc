#include "launcher/end/python_frames.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(PythonFrames, TheInnermostOfTheProgramIsFound) {
  EXPECT_EQ(InnermostFrame("-- reported by itself:\n"
                           "Thread 12: \"MainThread\"\n"
                           "    wait (/usr/lib/python3.11/threading.py:327)\n"
                           "    all_reduce (/v/site-packages/torch/distributed/c10d.py:99)\n"
                           "    step (/data/my job/w.py:4)\n"
                           "    <module> (/data/my job/w.py:9)\n"
                           "    _run_code (<frozen runpy>:88)\n"),
            "w.py:4 in step");
  EXPECT_EQ(InnermostFrame("Fatal Python error: Aborted\n\n"
                           "Current thread 0x00007fbbf86a7b80 (most recent call first):\n"
                           "  File \"/opt/lib/python3.11/threading.py\", line 629 in wait\n"
                           "  File \"w.py\", line 3 in wait\n"),
            "w.py:3 in wait");
}

TEST(PythonFrames, LibrariesAndOtherWordsAreNone) {
  EXPECT_EQ(InnermostFrame(""), "");
  EXPECT_EQ(InnermostFrame("    wait (/usr/lib/python3.11/threading.py:327)\n"
                           "    [<0>] futex_wait+0x9a/0x150\n"
                           "    <module> (<string>:1)\n" +
                           std::string(100'000, '(') + "\n"),
            "");
}

}  // namespace
}  // namespace ddprun
