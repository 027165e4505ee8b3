#include "trainer/checkpoint/fence_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"
#include "trainer/checkpoint/checkpoint_testing.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace ddprun {
namespace {

using testing::HasSubstr;

const CheckpointRef kFirst{"step-00000100-00000000000abc01", 1};
const CheckpointRef kSecond{"step-00000200-00000000000abc01", 2};

template <class Files>
class FenceLogOn : public testing::Test {
 protected:
  FenceLogOn() { EXPECT_TRUE(files_.MakeDirectory("/ckpt")); }

  Result<FenceRecord> Claim(const Writer& writer) {
    return fence_.Claim(writer,
                        {[&](const FenceRecord&) -> Result<bool> {
                           ++asked_;
                           return other_lives_;
                         },
                         [&] { ++held_; }},
                        warnings_);
  }
  FenceRecord Newest() { return fence_.Newest(warnings_).value().value(); }

  Files files_;
  FenceLog fence_{files_, "/ckpt"};
  bool other_lives_ = true;
  int asked_ = 0;
  int held_ = 0;
  std::vector<std::string> warnings_;
};

using FenceLogTest = FenceLogOn<MemoryFileSystem>;

TEST_F(FenceLogTest, ARunClaimsCommitsAndCloses) {
  EXPECT_FALSE(fence_.Newest(warnings_).value());
  const Result<FenceRecord> claim = Claim(World("a", 1));
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->number, 1u);
  EXPECT_TRUE(claim->lineage.empty());
  EXPECT_EQ(held_, 1);
  ASSERT_TRUE(fence_.Commit(World("a", 1), {kFirst}));
  EXPECT_EQ(Newest(), (FenceRecord{2, RecordKind::kCommit, World("a", 1), {kFirst}}));
  ASSERT_TRUE(fence_.Close(World("a", 1)));
  EXPECT_EQ(Newest(), (FenceRecord{3, RecordKind::kClose, World("a", 1), {kFirst}}));
  EXPECT_EQ(asked_, 0);
}

// The purpose of the log: a late write of the old world must not move the head.
TEST_F(FenceLogTest, ALaterGenerationTakesOverAndTheOldOneIsRefused) {
  ASSERT_TRUE(Claim(World("a", 1)));
  ASSERT_TRUE(fence_.Commit(World("a", 1), {kFirst}));
  const Result<FenceRecord> second = Claim(World("a", 2));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->lineage, std::vector{kFirst});
  EXPECT_EQ(asked_, 0) << "its own run need not be dead";

  EXPECT_TRUE(Fails(fence_.Commit(World("a", 1), {kSecond, kFirst}), ErrorKind::kRefused,
                    "taken over by run 'a' (term 7, generation 2"));
  EXPECT_EQ(fence_.Close(World("a", 1)).error().kind, ErrorKind::kRefused);
  EXPECT_EQ(fence_.CheckMine(World("a", 1)).error().kind, ErrorKind::kRefused);
  EXPECT_TRUE(fence_.CheckMine(World("a", 2)));
  EXPECT_EQ(Newest().lineage, std::vector{kFirst});
}

TEST_F(FenceLogTest, AnOlderOrEqualWorldMayNotClaim) {
  ASSERT_TRUE(Claim(World("a", 5)));
  EXPECT_EQ(Claim(World("a", 4)).error().kind, ErrorKind::kRefused);
  Writer twin = World("a", 5);
  twin.world_id = WorldId{99};
  EXPECT_EQ(Claim(twin).error().kind, ErrorKind::kRefused);
  Writer older_term = World("a", 50);
  older_term.term = Term{6};
  EXPECT_EQ(Claim(older_term).error().kind, ErrorKind::kRefused);
  Writer newer_term = World("a", 1);
  newer_term.term = Term{8};
  EXPECT_TRUE(Claim(newer_term)) << "the term decides before the generation";
}

TEST_F(FenceLogTest, TheSameWorldMayClaimAgainUntilItClosed) {
  ASSERT_TRUE(Claim(World("a", 1)));
  ASSERT_TRUE(fence_.Commit(World("a", 1), {kFirst}));
  const Result<FenceRecord> again = Claim(World("a", 1));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->lineage, std::vector{kFirst});
  EXPECT_EQ(Newest().number, 2u) << "nothing was written";
  ASSERT_TRUE(fence_.Close(World("a", 1)));
  EXPECT_EQ(Claim(World("a", 1)).error().kind, ErrorKind::kRefused);
  EXPECT_TRUE(Claim(World("a", 2)));
}

TEST_F(FenceLogTest, ACommitAfterTheCloseIsRefusedAndClosingTwiceIsFine) {
  ASSERT_TRUE(Claim(World("a", 1)));
  ASSERT_TRUE(fence_.Close(World("a", 1)));
  EXPECT_EQ(fence_.Commit(World("a", 1), {kFirst}).error().kind, ErrorKind::kRefused);
  ASSERT_TRUE(fence_.Close(World("a", 1)));
  EXPECT_EQ(Newest().number, 2u);
}

TEST_F(FenceLogTest, AnotherRunContinuesFromTheHeadOfADeadOrClosedOne) {
  ASSERT_TRUE(Claim(World("a", 5)));
  ASSERT_TRUE(fence_.Commit(World("a", 5), {kFirst}));
  other_lives_ = false;
  const Result<FenceRecord> dead = Claim(World("b", 1));
  ASSERT_TRUE(dead);
  EXPECT_EQ(dead->lineage, std::vector{kFirst});
  ASSERT_TRUE(fence_.Close(World("b", 1)));
  other_lives_ = true;
  asked_ = 0;
  EXPECT_TRUE(Claim(World("c", 1)));
  EXPECT_EQ(asked_, 0) << "closed: nobody to ask about";
}

TEST_F(FenceLogTest, UnorderedWorldsGoByTheOneThatLives) {
  const Writer first = MakeWriter("none", Term{}, Generation{1}, WorldId{});
  const Writer second = MakeWriter("none", Term{}, Generation{1}, WorldId{});
  EXPECT_FALSE(first.ordered);
  EXPECT_NE(first.world_id, second.world_id);
  ASSERT_TRUE(Claim(first));
  EXPECT_THAT(Claim(second).error().message, HasSubstr("in use"));
  // A world of ddprun with the same run id does not outrank a world without an order.
  EXPECT_THAT(Claim(World("none", 3)).error().message, HasSubstr("in use"));
  other_lives_ = false;
  ASSERT_TRUE(Claim(second));
  EXPECT_EQ(fence_.Commit(first, {kFirst}).error().kind, ErrorKind::kRefused);
}

TEST_F(FenceLogTest, OfTwoClaimantsForOneNumberTheLaterDecidesAgain) {
  ASSERT_TRUE(Claim(World("a", 1)));
  // Generation 3 moves in right before generation 2 links its record.
  bool raced = false;
  files_.before = [&](std::string_view operation, const std::filesystem::path& path) {
    if (operation == "link" && path.filename() == "fence-2" && !std::exchange(raced, true)) {
      FenceLog other(files_, "/ckpt");
      EXPECT_TRUE(other.Claim(World("a", 3), {{}, [] {}}, warnings_));
    }
  };
  EXPECT_EQ(Claim(World("a", 2)).error().kind, ErrorKind::kRefused);
  EXPECT_TRUE(raced);
  EXPECT_EQ(Newest(), (FenceRecord{2, RecordKind::kClaim, World("a", 3), {}}));
}

// A network file system may carry out a link, lose the answer, and repeat it.
TEST_F(FenceLogTest, ALinkThatWasMadeAlreadyCountsAsMine) {
  ASSERT_TRUE(Claim(World("a", 1)));
  bool repeated = false;
  files_.before = [&](std::string_view operation, const std::filesystem::path& path) {
    if (operation == "link" && !std::exchange(repeated, true)) {
      EXPECT_TRUE(files_.Link("/ckpt/.fence-" + Hex(0xabc001) + "-2", path).value());
    }
  };
  EXPECT_TRUE(fence_.Commit(World("a", 1), {kFirst}));
  EXPECT_EQ(Newest().number, 2u);
}

TEST_F(FenceLogTest, PruningKeepsTheLastRecordOfEveryRun) {
  ASSERT_TRUE(Claim(World("a", 5)));
  ASSERT_TRUE(fence_.Close(World("a", 5)));
  ASSERT_TRUE(Claim(World("b", 1)));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(fence_.Commit(World("b", 1), {kFirst}));
    fence_.Prune();
  }
  EXPECT_FALSE(files_.Exists("/ckpt/fence-1"));
  EXPECT_TRUE(files_.Exists("/ckpt/fence-2"));
  EXPECT_LT(files_.List("/ckpt")->size(), 70u);
  EXPECT_EQ(Newest().number, 103u);
  ASSERT_TRUE(fence_.Close(World("b", 1)));
  EXPECT_EQ(Claim(World("a", 5)).error().kind, ErrorKind::kRefused);
  EXPECT_TRUE(Claim(World("a", 6)));
}

// Stopped between its decision and its link for so long that pruning freed the number again: the
// link succeeds, and must still not count.
TEST_F(FenceLogTest, ANumberFreedByPruningIsNoCommit) {
  ASSERT_TRUE(Claim(World("a", 1)));
  bool slept = false;
  files_.before = [&](std::string_view operation, const std::filesystem::path& path) {
    if (operation == "link" && path.filename() == "fence-2" && !std::exchange(slept, true)) {
      EXPECT_TRUE(Claim(World("a", 2)));
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(fence_.Commit(World("a", 2), {kSecond}));
      }
      fence_.Prune();
      EXPECT_FALSE(files_.Exists("/ckpt/fence-2"));
    }
  };
  EXPECT_EQ(fence_.Commit(World("a", 1), {kFirst}).error().kind, ErrorKind::kRefused);
  EXPECT_TRUE(slept);
  EXPECT_EQ(Newest().lineage, std::vector{kSecond});
}

TEST_F(FenceLogTest, ADamagedRecordIsSkippedByAClaimAndNamed) {
  ASSERT_TRUE(Claim(World("a", 1)));
  ASSERT_TRUE(fence_.Commit(World("a", 1), {kFirst}));
  ASSERT_TRUE(fence_.Commit(World("a", 1), {kSecond, kFirst}));
  files_.Flip("/ckpt/fence-3", 20);
  EXPECT_EQ(fence_.CheckMine(World("a", 1)).error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(Fails(Claim(World("a", 1)), ErrorKind::kInvalid, "fence-3"));  // It could not save.
  warnings_.clear();
  const Result<FenceRecord> claim = Claim(World("a", 2));
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->number, 4u);
  EXPECT_EQ(claim->lineage, std::vector{kFirst});
  ASSERT_FALSE(warnings_.empty());
  EXPECT_THAT(warnings_.front(), HasSubstr("fence-3"));
}

// A fresh start because of damaged records would hide every checkpoint.
TEST_F(FenceLogTest, OnlyDamagedRecordsAreAnError) {
  ASSERT_TRUE(Claim(World("a", 1)));
  files_.Flip("/ckpt/fence-1", 20);
  EXPECT_TRUE(Fails(Claim(World("a", 2)), ErrorKind::kInvalid, "no fence record can be read"));
}

TEST_F(FenceLogTest, AnEmptiedDirectoryIsNotARefusal) {
  ASSERT_TRUE(Claim(World("a", 1)));
  ASSERT_TRUE(files_.Remove("/ckpt/fence-1"));
  EXPECT_EQ(fence_.CheckMine(World("a", 1)).error().kind, ErrorKind::kUnavailable);
  EXPECT_FALSE(fence_.Commit(World("a", 1), {kFirst}));
}

TEST(FenceRecord, GoesThroughTextAndRefusesForgeries) {
  const FenceRecord record{7, RecordKind::kCommit, World("run \"1\"", 3), {kSecond, kFirst}};
  const std::string text = ToText(record);
  EXPECT_EQ(FenceRecordFromText(text, 7, "fence-7").value(), record);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_FALSE(FenceRecordFromText(flipped, 7, "fence-7")) << i;
    EXPECT_FALSE(FenceRecordFromText(text.substr(0, i), 7, "fence-7")) << i;
  }
  // A valid digest does not make a path that leads elsewhere valid.
  FenceRecord forged = record;
  forged.lineage[0].directory = "../../etc";
  EXPECT_FALSE(FenceRecordFromText(ToText(forged), 7, "fence-7"));
}

TEST(FenceRecord, CheckpointNamesHaveOneForm) {
  EXPECT_TRUE(IsCheckpointName("step-00000100-00000000000abc01"));
  EXPECT_TRUE(IsCheckpointName("step-123456789012-00000000000abc01.2"));
  for (const char* bad : {"", "step-", "step-1", "step-1-abc", "step--00000000000abc01",
                          "step-1-00000000000abc01/", "step-1-00000000000abc01.",
                          "step-1-00000000000abc01./..", ".tmp-step-1-00000000000abc01"}) {
    EXPECT_FALSE(IsCheckpointName(bad)) << bad;
  }
}

TEST(Writer, DistinctRunIdsStayDistinctAndPrintable) {
  const auto id = [](const std::string& run) {
    return MakeWriter(run, Term{1}, Generation{1}, WorldId{1}).run_id;
  };
  EXPECT_EQ(id("job-17"), "job-17");
  EXPECT_NE(id("gr\xC3\xBC\xC3\x9F"), id("gr\xC3\xB6\xC3\x9F"));
  EXPECT_NE(id(std::string(5000, 'a')), id(std::string(5001, 'a')));
  EXPECT_LT(id(std::string(5000, 'a')).size(), 300u);
}

// On the real file system: everything acknowledged is in the log once, and no commit of an older
// world follows a newer world's claim.
TEST(FenceLogRace, ThreadsThatClaimAndCommitAtOnceKeepOneOrder) {
  const ScratchDirectory scratch;
  const std::string directory = scratch.path();
  std::atomic<std::uint64_t> generation{0};
  std::atomic<int> acknowledged{0};
  const auto work = [&] {
    FenceLog fence(RealFileSystem(), directory);
    std::vector<std::string> warnings;
    for (int i = 0; i < 8; ++i) {
      const Writer writer = World("a", ++generation);
      if (fence.Claim(writer, {{}, [] {}}, warnings) && fence.Commit(writer, {kFirst})) {
        ++acknowledged;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(work);
    }
  }
  FenceLog fence(RealFileSystem(), directory);
  std::vector<std::string> warnings;
  const std::uint64_t last = fence.Newest(warnings).value().value().number;
  int commits = 0;
  Writer holder;
  for (std::uint64_t n = 1; n <= last; ++n) {
    const std::string path = directory + "/fence-" + std::to_string(n);
    const auto record =
        FenceRecordFromText(RealFileSystem().Read(path, 1 << 16).value(), n, path).value();
    if (record.kind == RecordKind::kClaim) {
      EXPECT_GT(record.writer.generation, holder.generation);
      holder = record.writer;
    } else {
      ++commits;
      EXPECT_EQ(record.writer, holder);
    }
  }
  EXPECT_EQ(commits, acknowledged.load());
  EXPECT_GT(commits, 0);
}

// A network file system's listings and lookups may be old; but opening by name asks the server.
struct OldViews final : MemoryFileSystem {
  std::vector<std::string> names;  // The entries that a listing shows from now on.
  std::filesystem::path name;      // Found once, and not again.
  int found = 0;
  Result<std::vector<std::string>> List(const std::filesystem::path& directory) override {
    return names.empty() ? MemoryFileSystem::List(directory) : names;
  }
  Result<std::string> Read(const std::filesystem::path& path, std::size_t most) override {
    if (path == name && found++ > 0) {
      return Error{ErrorKind::kNotFound, path.native() + " is not seen"};
    }
    return MemoryFileSystem::Read(path, most);
  }
};
using OldFenceLog = FenceLogOn<OldViews>;

TEST_F(OldFenceLog, AListingOlderThanANewersClaimProvesNothing) {
  ASSERT_TRUE(Claim(World("a", 1)));
  const std::vector<std::string> names = files_.List("/ckpt").value();
  ASSERT_TRUE(Claim(World("a", 2)));
  files_.names = names;
  EXPECT_EQ(fence_.CheckMine(World("a", 1)).error().kind, ErrorKind::kRefused);
}

TEST_F(OldFenceLog, AnOlderWorldClaimsNothingThoughTheListingHidesTheNewersClaim) {
  ASSERT_TRUE(Claim(World("a", 1)));
  files_.names = files_.List("/ckpt").value();
  ASSERT_TRUE(Claim(World("a", 3)));
  EXPECT_EQ(Claim(World("a", 2)).error().kind, ErrorKind::kRefused);
}

// A name that was found once and is not found again is no record that never was: the claim would
// carry the head before it, and the newest checkpoint would be lost.
TEST_F(OldFenceLog, ARecordThatWasReadOnceCountsThoughALaterLookupIsOlder) {
  ASSERT_TRUE(Claim(World("a", 1)));
  ASSERT_TRUE(fence_.Commit(World("a", 1), {kFirst}));
  files_.names = files_.List("/ckpt").value();
  ASSERT_TRUE(fence_.Commit(World("a", 1), {kSecond, kFirst}));
  files_.name = "/ckpt/fence-3";
  const Result<FenceRecord> claim = Claim(World("a", 2));
  ASSERT_TRUE(claim) << claim.error().message;
  EXPECT_EQ(claim->number, 4u);
  EXPECT_EQ(claim->lineage, (std::vector{kSecond, kFirst}));
}

TEST(FenceRecord, ANameTellsItsMaker) {
  const auto made = WhoMade("step-123456789012-00000000000000ff.17");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->step, 123456789012U);
  EXPECT_EQ(made->world, WorldId{255});
  EXPECT_FALSE(WhoMade("step-1-xyz"));
  EXPECT_FALSE(WhoMade(""));
}

}  // namespace
}  // namespace ddprun
