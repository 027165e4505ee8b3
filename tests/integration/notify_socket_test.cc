// The notify socket with real datagrams.
#include "agent/watch/notify_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <thread>

#include "rendezvous/testing/pump.h"
#include "tests/support/marked.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

using ::testing::SizeIs;
using ::testing::StartsWith;

class NotifySocketTest : public ::testing::Test {
 protected:
  NotifySocketTest()
      : sockets_(loop_,
                 [this](std::uint32_t rank, const Notification& said, const SentDescriptor& sent) {
                   said_[rank].push_back(said);
                   sent_.push_back(sent);
                 }) {}

  bool RunUntil(const std::function<bool()>& condition) { return PumpUntil(loop_, condition); }

  NotifyFiles Open(const std::string& directory, std::uint32_t workers) {
    Result<NotifyFiles> files = NotifyFiles::Make(directory, workers);
    EXPECT_TRUE(files) << files.error().message;
    sockets_.Listen(*files);
    return *std::move(files);
  }

  static bool SendWith(const std::string& path, const std::string& text,
                       const std::vector<int>& descriptors) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    path.copy(to.sun_path, sizeof to.sun_path - 1);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return SendWithDescriptors(socket.get(), text, descriptors, 0);
  }

  static std::ptrdiff_t OpenDescriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  }

  ScratchDirectory scratch_;
  AsioLoop loop_;
  std::map<std::uint32_t, std::vector<Notification>> said_;
  std::vector<SentDescriptor> sent_;
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

// It may have ended before the agent listened.
TEST_F(NotifySocketTest, AWorkersWordsAreHeardBeforeItsEndIsReported) {
  const NotifyFiles files = Open(scratch_.path() / "notify", 1);
  Notifier(files.paths()[0]).Send("READY=1\n");
  sockets_.ReceiveFrom(0);
  EXPECT_THAT(said_[0], SizeIs(1));
}

TEST_F(NotifySocketTest, ADescriptorComesWithWhatIsSaidOfIt) {
  const NotifyFiles files = Open(scratch_.path() / "notify", 1);
  const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_TRUE(SendWith(files.paths()[0], "FDSTORE=1\nFDNAME=a", {memory.get()}));
  Notifier(files.paths()[0]).Send("STEP=1");
  sockets_.ReceiveFromAll();
  ASSERT_THAT(said_[0], SizeIs(2));
  EXPECT_EQ(said_[0][0].block, "a");
  struct stat sent {};
  struct stat own {};
  ASSERT_TRUE(sent_[0].file != nullptr);
  EXPECT_GE(sent_[0].file->get(), 19) << "clear of the places that blocks have in a worker";
  EXPECT_EQ(::fstat(sent_[0].file->get(), &sent), 0);
  EXPECT_EQ(::fstat(memory.get(), &own), 0);
  EXPECT_EQ(sent.st_ino, own.st_ino);
  EXPECT_TRUE(sent_[1].file == nullptr);
}

// A flood of them is dropped, and none of it stays open.
TEST_F(NotifySocketTest, DescriptorsDoNotPileUp) {
  const NotifyFiles files = Open(scratch_.path() / "notify", 1);
  const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  sockets_.ReceiveFromAll();
  const std::ptrdiff_t before = OpenDescriptors();
  for (int round = 0; round < 100; ++round) {
    while (SendWith(files.paths()[0], "STEP=1", std::vector<int>(20, memory.get())) &&
           SendWith(files.paths()[0], std::string(5000, 'x'), {memory.get()}) &&
           SendWith(files.paths()[0], "STEP=1", {memory.get()})) {
    }
    sockets_.ReceiveFromAll();
    ASSERT_LT(OpenDescriptors(), before + 200);
    sent_.clear();
  }
  EXPECT_GT(said_[0].size(), 200U);
  while (OpenDescriptors() > before) {  // A thread closes them.
    std::this_thread::yield();
  }
}

TEST_F(NotifySocketTest, SeveralDescriptorsAreCut) {
  const NotifyFiles files = Open(scratch_.path() / "notify", 1);
  const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_TRUE(SendWith(files.paths()[0], "FDSTORE=1", {memory.get(), memory.get()}));
  sockets_.ReceiveFromAll();
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_TRUE(sent_[0].cut);
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
