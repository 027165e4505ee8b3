#include "common/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "common/result_testing.h"
#include "common/time.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

struct Files : testing::Test {
  ScratchDirectory scratch;
  const std::filesystem::path dir = scratch.path();
};

TEST_F(Files, ReadsUpToTheBoundAndNoFurther) {
  std::ofstream(dir / "a") << "hello";
  EXPECT_EQ(*ReadFile(dir / "a", 5), "hello");
  EXPECT_EQ(ReadFile(dir / "a", 4).error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(Fails(ReadFile(dir / "b", 5), ErrorKind::kNotFound, (dir / "b").native()));
}

// Each user who may write into a directory may put anything there.
TEST_F(Files, NeitherAFifoNorADeviceNorALinkIsOrdinary) {
  const fs::path file = dir / "file";
  std::ofstream(file) << "text";
  const fs::path link = dir / "link";
  fs::create_symlink(file, link);
  const fs::path fifo = dir / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const fs::path& path : {link, fifo, fs::path("/dev/zero"), dir}) {
    for (const int flags : {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND}) {
      EXPECT_TRUE(Fails(OpenOrdinary(path, flags, 0600), path.native())) << path;
    }
    EXPECT_FALSE(ReadOrdinary(path, 100)) << path;
    EXPECT_EQ(ReadFile(path, 100).has_value(), path == link) << path;
  }
  EXPECT_EQ(*ReadOrdinary(file, 100), "text");
  EXPECT_FALSE(ReadOrdinary(file, 3));
  EXPECT_EQ(ReadOrdinary(dir / "none", 3).error().kind, ErrorKind::kNotFound);
  const auto fresh = OpenOrdinary(dir / "new", O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(fresh);
  EXPECT_EQ(::fcntl(fresh->get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(fresh->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(Files, SyncWaitsForNoWriter) {
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(SyncPath(dir / "fifo"));
  EXPECT_TRUE(SyncPath(dir));
}

TEST_F(Files, MakesDirectoriesButNotThroughFiles) {
  EXPECT_TRUE(MakeDirectories(dir / "x/y/z", 0700));
  EXPECT_TRUE(MakeDirectories(dir / "x/y/z", 0700));
  std::ofstream(dir / "file") << "1";
  EXPECT_FALSE(MakeDirectories(dir / "file", 0700));
  EXPECT_FALSE(MakeDirectories(dir / "file/below", 0700));
}

TEST_F(Files, AFullDeviceIsAnErrorThatNamesTheFile) {
  const UniqueFd full(::open("/dev/full", O_WRONLY));
  const Result<void> written = WriteAll(full.get(), "x", "the name");
  EXPECT_TRUE(Fails(written, "the name"));
  EXPECT_TRUE(Fails(written, "No space left"));
}

// In a process of its own: any file that is written may be ten bytes long.
int WritesWithLittleRoom(const std::filesystem::path& path, std::string_view text) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit ten{10, 10};
    ::_exit(::setrlimit(RLIMIT_FSIZE, &ten) == 0 && WriteWhole(path, text, 0644) ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// A disk that was full left a failure.json of no bytes, or of some.
TEST_F(Files, WholeOrNotAtAll) {
  EXPECT_NE(WritesWithLittleRoom(dir / "report", std::string(100, 'x')), 0);
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  EXPECT_EQ(WritesWithLittleRoom(dir / "report", "fits"), 0);
  EXPECT_EQ(*ReadFile(dir / "report", 100), "fits");
  EXPECT_NE(WritesWithLittleRoom(dir / "report", std::string(100, 'x')), 0);
  EXPECT_EQ(*ReadFile(dir / "report", 100), "fits");
  EXPECT_FALSE(WriteWhole(dir / "nowhere/report", "x", 0644));
}

// The file of a process held in close(2), or a link that leads elsewhere.
TEST_F(Files, AFileThatAnotherWriterLeftIsNoObstacle) {
  std::ofstream(dir / "elsewhere") << "precious";
  std::filesystem::create_symlink(dir / "elsewhere", dir / "report.part");
  ASSERT_TRUE(WriteWhole(dir / "report", "x", 0644));
  EXPECT_EQ(*ReadFile(dir / "report", 100), "x");
  EXPECT_EQ(*ReadFile(dir / "elsewhere", 100), "precious");
  EXPECT_FALSE(std::filesystem::exists(dir / "report.part"));
}

TEST_F(Files, OfTwoTemporaryFilesOneGetsTheName) {
  const auto first = WriteTemporary(dir, "first");
  const auto second = WriteTemporary(dir, "second");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(std::filesystem::status(*first).permissions(), std::filesystem::perms(0600));
  EXPECT_TRUE(*LinkTemporary(*first, dir / "name"));
  EXPECT_FALSE(*LinkTemporary(*second, dir / "name"));
  EXPECT_EQ(*ReadFile(dir / "name", 100), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), fs::directory_iterator()), 1)
      << "one is left";
  EXPECT_TRUE(Fails(WriteTemporary(dir / "nowhere", "x"), "make a file in the directory"));
  EXPECT_FALSE(LinkTemporary(dir / "no file", dir / "other"));
}

TEST(FormatDuration, IsForPeople) {
  using namespace std::chrono_literals;
  EXPECT_EQ(FormatDuration(350ms), "350 ms");
  EXPECT_EQ(FormatDuration(2s), "2.0 s");
  EXPECT_EQ(FormatDuration(250s), "4 min 10 s");
  EXPECT_EQ(FormatDuration(3700s), "1 h 01 min");
}

TEST(OwnDirectory, IsWritableByItsUserAlone) {
  const ScratchDirectory scratch;
  const std::string made = scratch.path();
  EXPECT_TRUE(CheckOwnDirectory(made));
  const std::string link = made + "/link";
  ASSERT_EQ(::symlink("/", link.c_str()), 0);
  EXPECT_FALSE(CheckOwnDirectory(link));
  EXPECT_FALSE(CheckOwnDirectory(made + "/none"));
  ASSERT_EQ(::chmod(made.c_str(), 0770), 0);
  EXPECT_FALSE(CheckOwnDirectory(made));
  ASSERT_EQ(::chmod(made.c_str(), 0700), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(made.c_str(), 65534, 65534), 0);
    EXPECT_FALSE(CheckOwnDirectory(made));
  }
}

TEST(EntriesOf, AreAtMostSoMany) {
  const ScratchDirectory scratch;
  for (const char* const name : {"a", "b", "c"}) {
    ASSERT_TRUE(WriteWhole(scratch.path() / name, "", 0600));
  }
  EXPECT_EQ(EntriesOf(scratch.path()).size(), 3u);
  EXPECT_EQ(EntriesOf(scratch.path(), 2).size(), 2u);
  EXPECT_TRUE(EntriesOf(scratch.path() / "none").empty());
}

TEST(AtUnixPath, IsRefusedWhereNoAddressHasRoomForThePath) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(AtUnixPath(::bind, socket.get(), "/tmp/" + std::string(108, 'x')));
  EXPECT_EQ(errno, ENAMETOOLONG);
  EXPECT_FALSE(AtUnixPath(::connect, socket.get(), ""));
  EXPECT_EQ(errno, ENOENT);
}

TEST(MemoryFile, HasItsText) {
  const Result<UniqueFd> file = MemoryFile("test", "text");
  ASSERT_TRUE(file);
  EXPECT_EQ(*ReadFile("/proc/self/fd/" + std::to_string(file->get()), 10), "text");
}

TEST(AsFileName, KeepsNothingThatAShellOrAPathUnderstands) {
  EXPECT_EQ(AsFileName("../a b;$(c)\n"), "_.._a_b___c__");
  EXPECT_EQ(AsFileName(""), "_");
  EXPECT_EQ(AsFileName(std::string(500, 'x')).size(), 64u);
}

}  // namespace
}  // namespace ddprun
