#include "launcher/verbs/stack_groups.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

constexpr const char* kGdb = R"(== rank 1 (pid 12)
-- process 12:
-- gdb:
[New LWP 13]

Thread 2 (Thread 0x7f01 (LWP 13) "train"):
#0  0x00007f0101 in poll () from /lib/libc.so.6
#1  0x00007f0102 in loop (this=0x1) at loop.cc:3

Thread 1 (Thread 0x7f00 (LWP 12) "train"):
#0  0x00007f0201 in read () from /lib/libc.so.6
#1  0x00007f0202 in data::Next (this=0x55, n=3) at data.cc:17
#2  main (argc=1, argv=0x7ffe) at main.cc:9
[Inferior 1 (process 12) detached]
-- the kernel's view:
thread 12 (train): state S (sleeping), waits in futex_wait, system call 202 0x7f 0x0
    [<0>] futex_wait+0x67/0x120
thread 13 (train): state S (sleeping)
)";

constexpr const char* kPySpy = R"(== rank 0 (pid 11)
-- process 11:
-- py-spy:
Process 11: python3 train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 14 (idle): "Thread-1"
    wait (threading.py:331)
Thread 11 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    backward (torch/autograd/graph.py:7)
    <module> (train.py:40)
-- the kernel's view:
thread 11 (python3): state R (running)
-- process 15:
-- py-spy:
Thread 15 (idle): "MainThread"
    helper (worker.py:1)
)";

using Names = std::vector<std::string>;

Names MainFrames(const std::string& text) {
  return GroupStacks({{0, "n0", text}}).at(0).frames;
}

TEST(StackGroups, TheMainThreadsFunctionsAreFound) {
  EXPECT_EQ(MainFrames(kGdb), (Names{"read", "data::Next", "main"}));
  EXPECT_EQ(MainFrames(kPySpy), (Names{"all_reduce", "backward", "<module> of train.py"}));
  EXPECT_EQ(MainFrames("-- process 5:\nthread 5 (x): state D (disk sleep), waits in nfs_wait, "
                       "system call 0 0x3 0x1\n(no debugger is used: it waits)\n"),
            Names{"state D (disk sleep), waits in nfs_wait, system call 0"});
}

TEST(StackGroups, FramesOfAGroupSayWhereTheyAreInItsFirstRank) {
  const std::vector<StackGroup> groups = GroupStacks({{0, "n0", kPySpy}, {1, "n0", kGdb}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].places,
            (Names{"all_reduce (torch/distributed/distributed_c10d.py:2501)",
                   "backward (torch/autograd/graph.py:7)", "<module> (train.py:40)"}));
  EXPECT_EQ(groups[1].places, (Names{"read", "data::Next (data.cc:17)", "main (main.cc:9)"}));
}

TEST(StackGroups, AHeadlineBeginsWithAFrameThatTellsApart) {
  const auto headline = [](const std::string& frames) {
    return GroupStacks({{0, "n0", "Thread 1 (Thread 0x7f (LWP 1)):\n" + frames}}).at(0).headline;
  };
  EXPECT_EQ(headline("#0  __futex_wait () at x.c:1\n#1  ___pthread_cond_wait ()\n"
                     "#2  wait ()\n#3  Next ()\n#4  Train ()\n#5  main ()\n"),
            "wait < Next < Train");
  EXPECT_EQ(headline("#0  __poll ()\n"), "__poll");
}

// An import has five frames of Python's own for each module.
TEST(StackGroups, ImportsNameTheirModulesAlone) {
  const char* const text =
      "Thread 1: \"MainThread\"\n"
      "    <module> (/lib/slow.py:1)\n"
      "    _call_with_frames_removed (<frozen importlib._bootstrap>:241)\n"
      "    exec_module (<frozen importlib._bootstrap_external>:940)\n"
      "    _find_and_load (<frozen importlib._bootstrap>:1178)\n"
      "    <module> (/my job/train.py:3)\n";
  const auto groups = GroupStacks({{0, "n0", text}});
  EXPECT_EQ(groups.at(0).headline, "<module> of slow.py < <module> of train.py");
  EXPECT_EQ(groups.at(0).places,
            (Names{"<module> (/lib/slow.py:1)", "<module> (/my job/train.py:3)"}));
}

TEST(StackGroups, AnythingMayBeInTheText) {
  EXPECT_EQ(MainFrames(""), Names{"(unknown)"});
  for (const std::string& text :
       {std::string("Thread 1 (\n#"), std::string("Thread 1 (\n#0  0x1"), std::string("thread "),
        std::string("Thread x: \"MainThread\"\n    )\n     (\n"), std::string(100'000, '#'),
        std::string(1'000, '\n')}) {
    EXPECT_FALSE(MainFrames(text).empty());
  }
}

TEST(StackGroups, TheFewAreApartFromTheMany) {
  std::vector<StackText> stacks;
  for (std::uint32_t rank = 0; rank < 62; ++rank) {
    stacks.push_back({rank, "n0", rank == 7 ? kGdb : kPySpy});
  }
  const auto groups = GroupStacks(stacks);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].ranks.size(), 61u);
  EXPECT_EQ(groups[0].headline, "all_reduce < backward < <module> of train.py");
  EXPECT_EQ(groups[1].ranks, std::vector<std::uint32_t>{7});
  EXPECT_EQ(groups[1].headline, "read < data::Next < main");
  EXPECT_EQ(groups[1].node, "");  // All are on one.
}

TEST(StackGroups, WhereTheFewAreIsSaid) {
  const auto groups =
      GroupStacks({{0, "n0", kPySpy}, {1, "n0", kPySpy}, {2, "n1", kPySpy}, {3, "n1", kGdb}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].node, "");
  EXPECT_EQ(groups[1].node, "n1");
}

}  // namespace
}  // namespace ddprun
