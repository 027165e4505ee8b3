// The notify socket with real datagrams.
#include "agent/watch/notify_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "tests/support/marked.h"

namespace ddprun {
namespace {

using ::testing::SizeIs;
using ::testing::StartsWith;

class NotifySocketTest : public ::testing::Test {
 protected:
  NotifySocketTest()
      : sockets_(loop_, [this](std::uint32_t rank, const Notification& said) {
          said_[rank].push_back(said);
        }) {}

  bool RunUntil(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      loop_.io().run_one_for(std::chrono::milliseconds(2));
    }
    return condition();
  }

  NotifyFiles Open(const std::string& directory, std::uint32_t workers) {
    Result<NotifyFiles> files = NotifyFiles::Make(directory, workers);
    EXPECT_TRUE(files) << files.error().message;
    sockets_.Listen(*files);
    return *std::move(files);
  }

  testing::ScratchDirectory scratch_;
  AsioLoop loop_;
  std::map<std::uint32_t, std::vector<Notification>> said_;
  NotifySockets sockets_;
};

// The socket says who speaks, not the datagram.
TEST_F(NotifySocketTest, TheSenderIsKnownByItsSocket) {
  const NotifyFiles files = Open(scratch_.path() / "notify", 2);
  ASSERT_THAT(files.paths(), SizeIs(2));
  Notifier(files.paths()[1]).Send("READY=1\nSTEP=7\n");
  ASSERT_TRUE(RunUntil([this] { return said_.contains(1); }));
  EXPECT_TRUE(said_[1].front().ready);
  EXPECT_EQ(said_[1].front().step, 7U);
  EXPECT_FALSE(said_.contains(0));
}

TEST_F(NotifySocketTest, OnlyTheUserMaySpeak) {
  const NotifyFiles files = Open(scratch_.path() / "notify", 1);
  struct stat info {};
  ASSERT_EQ(::stat(files.paths()[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

// A socket's path has at most 107 bytes; run directories are often deep.
TEST_F(NotifySocketTest, ALongRunDirectoryFallsBackToAShortOne) {
  const std::string deep = scratch_.path() / std::string(100, 'd');
  std::filesystem::path directory;
  {
    const NotifyFiles files = Open(deep, 1);
    directory = std::filesystem::path(files.paths()[0]).parent_path();
    EXPECT_THAT(directory.native(), StartsWith("/tmp/ddprun-notify-"));
    Notifier(files.paths()[0]).Send("READY=1\n");
    EXPECT_TRUE(RunUntil([this] { return said_.contains(0); }));
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
}

// A worker in a tight loop of datagrams must not keep the agent from its other work.
TEST_F(NotifySocketTest, AFloodLeavesTurnsForOthers) {
  const NotifyFiles files = Open(scratch_.path() / "notify", 1);
  const Notifier flood(files.paths()[0]);
  int other_work = 0;
  std::function<void()> work = [&] {
    for (int i = 0; i < 100; ++i) {
      flood.Send("STEP=1\n");
    }
    if (++other_work < 50) {
      loop_.Post(work);
    }
  };
  loop_.Post(work);
  ASSERT_TRUE(RunUntil([&] { return other_work == 50; }));
  EXPECT_LT(said_[0].size(), 50U * 100U);
  EXPECT_GT(said_[0].size(), 0U);
}

// It may have ended before anybody listened.
TEST_F(NotifySocketTest, WhatAWorkerSaidIsHeardBeforeItsEndIsTold) {
  const NotifyFiles files = Open(scratch_.path() / "notify", 1);
  Notifier(files.paths()[0]).Send("READY=1\n");
  sockets_.ReceiveFrom(0);
  EXPECT_THAT(said_[0], SizeIs(1));
}

TEST_F(NotifySocketTest, TheNextGenerationHasSocketsOfItsOwn) {
  const NotifyFiles first = Open(scratch_.path() / "notify", 2);
  const Notifier late(first.paths()[0]);
  const NotifyFiles second = Open(scratch_.path() / "notify.1", 1);
  late.Send("STEP=1\n");  // A straggler of the last generation: its socket is gone.
  Notifier(second.paths()[0]).Send("STEP=2\n");
  ASSERT_TRUE(RunUntil([this] { return said_.contains(0); }));
  ASSERT_THAT(said_[0], SizeIs(1));
  EXPECT_EQ(said_[0].front().step, 2U);
}

}  // namespace
}  // namespace ddprun
