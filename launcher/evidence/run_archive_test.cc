#include "launcher/evidence/run_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class RunArchiveTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(run_ / "attempt_0" / "0");
    fs::create_directories(run_ / "attempt_0" / "1");
  }

  static void Write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string Read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  Result<Archived> Pack(const ArchiveBounds& bounds = {}, std::vector<MadeFile> made = {},
                        std::vector<fs::path> directories = {}) {
    TarGz archive;
    ArchiveContents contents{.root = "root",
                             .directories = directories.empty() ? std::vector{run_} : directories,
                             .made = std::move(made)};
    Result<Archived> packed = ArchiveRun(contents, archive, bounds);
    if (packed) {
      EXPECT_TRUE(WriteArchive(base_ / "out.tar.gz", IfThere::kReplace, archive.Finish()));
      // As any user would.
      fs::remove_all(base_ / "root");
      const std::string command = "tar -C " + base_.native() + " -xzf " +
                                  (base_ / "out.tar.gz").native() + " 2>" +
                                  (base_ / "tar.err").native();
      EXPECT_EQ(std::system(command.c_str()), 0) << Read(base_ / "tar.err");
      EXPECT_EQ(Read(base_ / "tar.err"), "");
    }
    return packed;
  }
  std::string Packed(const std::string& name) const { return Read(base_ / "root" / name); }

  ScratchDirectory scratch_;
  const fs::path base_ = scratch_.path();
  const fs::path run_ = base_ / "run";
};

TEST_F(RunArchiveTest, AnEntryThatIsNoOrdinaryFileIsNamedAlone) {
  Write(base_ / "elsewhere", "not the run's");
  fs::create_directories(base_ / "other" / "0");
  Write(base_ / "other" / "0" / "stdout.log", "not the run's");
  ASSERT_EQ(::mkfifo((run_ / "report.html").c_str(), 0600), 0);
  fs::create_symlink(base_ / "elsewhere", run_ / "failure.json");
  fs::create_directory_symlink(base_ / "other", run_ / "attempt_1");
  fs::create_directory_symlink(base_ / "other" / "0", run_ / "attempt_0" / "2");
  fs::create_directory(run_ / "events.jsonl");
  const auto packed = Pack();
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->files, 0u);
  EXPECT_EQ(packed->left_out, 5u);
  EXPECT_THAT(Packed("MANIFEST"), HasSubstr("attempt_1: not an ordinary file"));
}

TEST_F(RunArchiveTest, OfALongLogThereIsItsEnd) {
  Write(run_ / "attempt_0" / "0" / "stdout.log", std::string(5'000, 'a') + "the end");
  ASSERT_TRUE(Pack({.file = 1'000}));
  EXPECT_EQ(Packed("attempt_0/0/stdout.log"), std::string(993, 'a') + "the end");
  EXPECT_THAT(Packed("MANIFEST"), HasSubstr("the last 1000 of 5007 bytes"));
}

// Else the first ranks' would be all that there is.
TEST_F(RunArchiveTest, LogsShareTheRoom) {
  Write(run_ / "failure.json", std::string(100, 's'));
  Write(run_ / "attempt_0" / "0" / "stdout.log", std::string(50, '0'));
  Write(run_ / "attempt_0" / "0" / "stderr.log", std::string(5'000, '1'));
  Write(run_ / "attempt_0" / "1" / "stdout.log", std::string(5'000, '2'));
  const auto packed = Pack({.file = 4'000, .all = 1'150});
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->bytes, 1'150u);
  EXPECT_EQ(Packed("failure.json").size(), 100u);
  EXPECT_EQ(Packed("attempt_0/0/stdout.log").size(), 50u);
  EXPECT_EQ(Packed("attempt_0/0/stderr.log").size(), 500u);
  EXPECT_EQ(Packed("attempt_0/1/stdout.log").size(), 500u);
  const auto few = Pack({.files = 2});
  ASSERT_TRUE(few);
  EXPECT_EQ(few->files, 2u);
  EXPECT_THAT(Packed("MANIFEST"), HasSubstr("the limit of files is reached"));
}

TEST_F(RunArchiveTest, ATextThatWasMadeNowTakesAFilesPlace) {
  Write(run_ / "report.html", "old");
  ASSERT_TRUE(Pack({}, {{"report.html", "new"}}));
  EXPECT_EQ(Packed("report.html"), "new");
  EXPECT_THAT(Packed("MANIFEST"), HasSubstr("report.html: replaced by a newer one"));
}

TEST_F(RunArchiveTest, SeveralDirectoriesKeepApart) {
  Write(run_ / "events.jsonl", "one");
  fs::create_directory(base_ / "a name");
  Write(base_ / "a name" / "events.jsonl", "two");
  ASSERT_TRUE(Pack({}, {}, {run_, base_ / "a name" / ""}));
  EXPECT_EQ(Packed("0-run/events.jsonl"), "one");
  EXPECT_EQ(Packed("1-a_name/events.jsonl"), "two");
}

TEST_F(RunArchiveTest, AnotherEntryThanADirectoryIsRefusedAndLeavesNothing) {
  ASSERT_EQ(::mkfifo((base_ / "fifo").c_str(), 0600), 0);
  for (const char* const name : {"fifo", "nothing"}) {
    EXPECT_TRUE(Fails(Pack({}, {}, {base_ / name}), ErrorKind::kInvalid));
  }
  EXPECT_FALSE(fs::exists(base_ / "out.tar.gz"));
  EXPECT_EQ(std::distance(fs::directory_iterator(base_), fs::directory_iterator()), 2);
}

TEST_F(RunArchiveTest, AFifoIsNotReplaced) {
  ASSERT_EQ(::mkfifo((base_ / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(WriteArchive(base_ / "fifo", IfThere::kReplace, "archive"));
}

TEST(TarHeader, CutsALongNameAtASlash) {
  const std::string deep = std::string(80, 'd') + "/" + std::string(60, 'f');
  const auto header = TarHeader(deep, 8, 0);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->size(), 512u);
  EXPECT_EQ(header->substr(0, 60), std::string(60, 'f'));
  EXPECT_EQ(header->substr(345, 80), std::string(80, 'd'));
  EXPECT_EQ(header->substr(124, 12), std::string("00000000010\0", 12));
  EXPECT_FALSE(TarHeader(std::string(101, 'f'), 8, 0));
  EXPECT_FALSE(TarHeader(std::string(200, 'd') + "/" + std::string(90, 'f'), 8, 0));
}

}  // namespace
}  // namespace ddprun
