#include "rendezvous/journal_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

RunRecord RecordOf(const RunId& run_id, std::uint64_t generation) {
  RunRecord record;
  record.run_id = run_id;
  record.shape = RunShape{.min_nodes = 1, .max_nodes = 2, .max_restarts = 3};
  record.reserved = {generation + 100};
  record.restarts_used = 2;
  World world;
  world.term = {5};
  world.generation = {generation};
  world.id = {77};
  world.store = {"n0", 1234};
  for (std::uint32_t i = 0; i < 2; ++i) {
    Member member;
    member.key = {"n" + std::to_string(i), {11 + i}};
    member.workers = 2;
    member.first_rank = 2 * i;
    member.role = "default";
    member.role_first_rank = 2 * i;
    member.role_size = 4;
    world.places[member.key] = i;
    world.members.push_back(member);
  }
  world.size = 4;
  record.world = world;
  return record;
}

struct JournalFileTest : testing::Test {
  fs::path folder = fs::path(testing::TempDir()) / ("journal_" + std::to_string(::getpid()));
  fs::path path = folder / "journal";
  JournalContents found;

  void SetUp() override {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  Result<JournalFile> Open() {
    found = {};
    return JournalFile::Open(path, found);
  }
  void Write(const std::vector<JournalEntry>& entries) {
    Result<JournalFile> file = Open();
    ASSERT_TRUE(file) << file.error().message;
    for (const JournalEntry& entry : entries) {
      ASSERT_TRUE(file->Append(entry));
    }
  }
  std::string Bytes() {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Replace(const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
};

TEST_F(JournalFileTest, TellsWhatWasKept) {
  RunRecord ended = RecordOf("b", 9);
  ended.world.reset();
  ended.outcome = Finish{Ending::kFailed, 3, "rank 0 ended with exit code 3", WorkerFailure{}};
  const EndedRun over{"d", {7}, *ended.outcome};
  Write({Reign{{40}}, RecordOf("a", 1), ended, RecordOf("a", 2), RecordOf("c", 1), Forgotten{"c"},
         RecordOf("d", 1), over, EndedRun{"c", {3}, {}}, Forgotten{"c"}});
  ASSERT_TRUE(Open());
  EXPECT_EQ(found.ended, std::vector{over});
  EXPECT_EQ(found.term, Term{40});
  EXPECT_TRUE(found.remarks.empty());
  ASSERT_EQ(found.runs.size(), 2u);
  const RunRecord& a = found.runs[0];
  EXPECT_EQ(a.run_id, "a");
  EXPECT_EQ(a.shape, RecordOf("a", 2).shape);
  EXPECT_EQ(a.reserved, Generation{102});
  EXPECT_EQ(a.restarts_used, 2u);
  EXPECT_EQ(a.world->generation, Generation{2});
  EXPECT_EQ(a.world->term, Term{5});
  EXPECT_EQ(a.world->id, WorldId{77});
  EXPECT_EQ(a.world->size, 4u);
  EXPECT_EQ(a.world->store, (Endpoint{"n0", 1234}));
  EXPECT_EQ(a.world->members[1].key, (NodeKey{"n1", {12}}));
  EXPECT_EQ(a.world->members[1].first_rank, 2u);
  EXPECT_EQ(a.world->members[1].role_size, 4u);
  EXPECT_EQ(a.world->places.at({"n1", {12}}), 1u);
  EXPECT_EQ(found.runs[1].outcome, ended.outcome);
  EXPECT_FALSE(found.runs[1].world);
}

TEST_F(JournalFileTest, IsForItsOwnerOnly) {
  Write({Reign{{1}}});
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(JournalFileTest, TwoServersCannotHaveIt) {
  Result<JournalFile> first = Open();
  ASSERT_TRUE(first);
  JournalContents other;
  const Result<JournalFile> second = JournalFile::Open(path, other);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kRefused);
  EXPECT_NE(second.error().message.find("in use by another rendezvous server"), std::string::npos);
  // The lock follows the file when it is written anew.
  ASSERT_TRUE(first->Append(Reign{{1}}));
  EXPECT_FALSE(JournalFile::Open(path, other));
}

// The server died while it wrote: every length that a write may have reached.
TEST_F(JournalFileTest, ATornTailIsDroppedAtEveryByte) {
  Write({Reign{{40}}, RecordOf("a", 1)});
  const std::size_t whole = Bytes().size();
  Write({RecordOf("a", 2)});
  const std::string all = Bytes();
  for (std::size_t length = whole + 1; length < all.size(); ++length) {
    Replace(all.substr(0, length));
    ASSERT_TRUE(Open()) << length;
    ASSERT_EQ(found.runs.size(), 1u) << length;
    EXPECT_EQ(found.runs[0].world->generation, Generation{1}) << length;
    ASSERT_EQ(found.remarks.size(), 1u) << length;
    EXPECT_NE(found.remarks[0].find("never written whole"), std::string::npos);
  }
}

TEST_F(JournalFileTest, AnythingFromNothingToAHeaderIsANewJournal) {
  Write({Reign{{40}}});
  const std::string all = Bytes();
  for (std::size_t length = 0; length < 17; ++length) {
    Replace(all.substr(0, length));
    Result<JournalFile> file = Open();
    ASSERT_TRUE(file) << length;
    EXPECT_EQ(found.term, Term{});
    ASSERT_TRUE(file->Append(Reign{{41}}));
  }
  ASSERT_TRUE(Open());
  EXPECT_EQ(found.term, Term{41});
}

// One flipped bit anywhere costs at most the record that it hits, and is said.
TEST_F(JournalFileTest, DamageInTheMiddleIsSkippedAndSaid) {
  Write({Reign{{40}}, RecordOf("a", 1), RecordOf("b", 1)});
  const std::string all = Bytes();
  const std::size_t first_b = all.rfind("\xddRu\n");
  for (std::size_t at = 17; at < first_b; ++at) {
    std::string damaged = all;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    Replace(damaged);
    ASSERT_TRUE(Open()) << at;
    EXPECT_EQ(found.remarks.size(), 1u) << at;
    ASSERT_FALSE(found.runs.empty()) << at;
    EXPECT_EQ(found.runs.back().run_id, "b") << at;
    EXPECT_NE(found.remarks[0].find("bytes are skipped"), std::string::npos) << at;
  }
}

TEST_F(JournalFileTest, ADamagedOneIsWrittenAnew) {
  Write({Reign{{40}}, RecordOf("a", 1), RecordOf("b", 1)});
  std::string damaged = Bytes();
  damaged[60] = static_cast<char>(damaged[60] ^ 0x10);
  Replace(damaged);
  Write({Reign{{41}}});
  ASSERT_TRUE(Open());
  EXPECT_TRUE(found.remarks.empty());
  EXPECT_EQ(found.term, Term{41});
}

TEST_F(JournalFileTest, AnotherFileIsRefusedAndLeftAsItIs) {
  Replace("precious notes\n");
  const Result<JournalFile> file = Open();
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(Bytes(), "precious notes\n");
}

TEST_F(JournalFileTest, WhatIsNoRegularFileIsRefused) {
  path = "/dev/full";
  EXPECT_EQ(Open().error().kind, ErrorKind::kInvalid);
  path = folder;
  EXPECT_EQ(Open().error().kind, ErrorKind::kInvalid);
  path = folder / "missing" / "journal";
  const Result<JournalFile> file = Open();
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("No such file"), std::string::npos);
}

TEST_F(JournalFileTest, StaysBounded) {
  Result<JournalFile> file = Open();
  ASSERT_TRUE(file);
  RunRecord record = RecordOf("a", 1);
  for (std::uint32_t i = 2; i < 1000; ++i) {
    Member member = record.world->members[1];
    member.key.node = "n" + std::to_string(i);
    member.first_rank = 2 * i;
    record.world->members.push_back(member);
  }
  std::uintmax_t largest = 0;
  for (std::uint64_t generation = 1; generation < 200; ++generation) {
    record.world->generation = {generation};
    ASSERT_TRUE(file->Append(record));
    largest = std::max(largest, fs::file_size(path));
  }
  EXPECT_LE(largest, std::uintmax_t{1} << 20);
  EXPECT_GT(largest, std::uintmax_t{1} << 19);
  file = Error{};  // Unlocks.
  ASSERT_TRUE(Open());
  EXPECT_EQ(found.runs[0].world->generation, Generation{199});
  EXPECT_FALSE(fs::exists(path.native() + ".new"));
}

// A disk that is full for a while: said by the caller, and nothing is lost for good.
TEST_F(JournalFileTest, AFailedWriteIsMadeGoodByTheNext) {
  Result<JournalFile> file = Open();
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Append(RecordOf("a", 1)));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{fs::file_size(path) + 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  EXPECT_FALSE(file->Append(RecordOf("a", 2)));
  EXPECT_FALSE(file->Append(RecordOf("b", 1)));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(file->Append(RecordOf("c", 1)));
  file = Error{};
  ASSERT_TRUE(Open());
  EXPECT_TRUE(found.remarks.empty());
  ASSERT_EQ(found.runs.size(), 3u);
  EXPECT_EQ(found.runs[0].world->generation, Generation{2});
}

}  // namespace
}  // namespace ddprun
