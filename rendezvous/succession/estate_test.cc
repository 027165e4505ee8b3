#include "rendezvous/succession/estate.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/journal_file.h"
#include "rendezvous/succession/claim_directory.h"
#include "rendezvous/succession/estate_memory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

RunRecord RecordOf(const RunId& run_id, std::uint64_t generation, std::uint32_t nodes = 2) {
  RunRecord record;
  record.run_id = run_id;
  record.shape = RunShape{.min_nodes = 1, .max_nodes = nodes, .max_restarts = 3};
  record.reserved = {generation + 100};
  World world;
  world.term = {1700};
  world.generation = {generation};
  world.id = {77};
  world.store = {"n0", 1234};
  for (std::uint32_t i = 0; i < nodes; ++i) {
    Member member;
    member.key = {"n" + std::to_string(i), {11 + i}};
    member.workers = 1;
    member.first_rank = i;
    member.role = "default";
    member.role_first_rank = i;
    member.role_size = nodes;
    world.places[member.key] = i;
    world.members.push_back(member);
  }
  world.size = nodes;
  record.world = world;
  return record;
}

Claim ClaimOf(std::uint64_t number) {
  return {number, {1700 + number}, {"n0", 29400}, 0, false, false, Duration{3'000}, {}, {}};
}

HeldEstate HeldOf(std::uint64_t number, std::uint64_t generation) {
  return {ClaimOf(number), {"n0", {{11}}, RecordOf("run", generation)}};
}

NodeReport ReportOf(std::uint64_t incarnation, const RunId& run_id = "run") {
  NodeReport report;
  report.run_id = run_id;
  report.node = "n0";
  report.incarnation = {incarnation};
  return report;
}

// ---- What is held when ----
struct KeptEstate : testing::Test {
  std::optional<HeldEstate> held;
  std::size_t writes = 0;
  EstateKeeper keeper{[this](const std::optional<HeldEstate>& now) {
    held = now;
    ++writes;
  }};
};

TEST_F(KeptEstate, IsNothingBeforeAWorld) {
  keeper.NoteReport(ReportOf(11));
  keeper.Begin(ClaimOf(1));
  EXPECT_EQ(writes, 0u);
  keeper.Keep(RecordOf("run", 1));
  ASSERT_TRUE(held);
  EXPECT_EQ(held->claim, ClaimOf(1));
  EXPECT_EQ(held->estate.node, "n0");
  EXPECT_EQ(held->estate.incarnations, std::vector{Incarnation{11}});
  EXPECT_EQ(held->estate.record, RecordOf("run", 1));
}

TEST_F(KeptEstate, IsTheNewestRecordWithEveryMembership) {
  keeper.NoteReport(ReportOf(11));
  keeper.Begin(ClaimOf(1));
  keeper.Keep(RecordOf("run", 1));
  keeper.Keep(RecordOf("run", 2));
  keeper.NoteReport(ReportOf(11));
  EXPECT_EQ(writes, 2u);  // A report that says nothing new writes nothing.
  keeper.NoteReport(ReportOf(12));
  ASSERT_TRUE(held);
  EXPECT_EQ(held->estate.record, RecordOf("run", 2));
  EXPECT_EQ(held->estate.incarnations, (std::vector<Incarnation>{{11}, {12}}));
}

TEST_F(KeptEstate, LosesTheOldestOfManyMemberships) {
  keeper.Begin(ClaimOf(1));
  for (std::uint64_t i = 1; i <= kMostIncarnations + 3; ++i) {
    keeper.NoteReport(ReportOf(i));
  }
  keeper.Keep(RecordOf("run", 1));
  ASSERT_TRUE(held);
  ASSERT_EQ(held->estate.incarnations.size(), kMostIncarnations);
  EXPECT_EQ(held->estate.incarnations.front(), Incarnation{4});
}

TEST_F(KeptEstate, IsOfTheAgentsOwnRunAlone) {
  keeper.NoteReport(ReportOf(11));
  keeper.Begin(ClaimOf(1));
  keeper.Keep(RecordOf("another", 1));
  EXPECT_EQ(writes, 0u);
}

TEST_F(KeptEstate, IsNothingOnceTheRunHasEnded) {
  keeper.NoteReport(ReportOf(11));
  keeper.Begin(ClaimOf(1));
  keeper.Keep(RecordOf("run", 1));
  RunRecord ended = RecordOf("run", 1);
  ended.outcome = Finish{};
  keeper.Keep(ended);
  EXPECT_FALSE(held);
}

TEST_F(KeptEstate, IsNothingOfAServerThatStepsDown) {
  keeper.NoteReport(ReportOf(11));
  keeper.Begin(ClaimOf(1));
  keeper.Keep(RecordOf("run", 1));
  keeper.End();
  EXPECT_FALSE(held);
  keeper.Begin(ClaimOf(3));
  EXPECT_FALSE(held);  // The record of an earlier reign is not this one's.
}

// ---- The memory ----
TEST(EstateMemoryTest, TellsWhatWasHeldLast) {
  Result<EstateMemory> memory = EstateMemory::Make();
  ASSERT_TRUE(memory);
  EXPECT_FALSE(EstateMemory::Read(memory->fd()));
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    memory->Hold(HeldOf(1, generation));
    EXPECT_EQ(EstateMemory::Read(memory->fd()), HeldOf(1, generation));
  }
  memory->Hold(std::nullopt);
  EXPECT_FALSE(EstateMemory::Read(memory->fd()));
}

// Whichever byte of the half being written is not as it should be: the other half counts then.
TEST(EstateMemoryTest, TellsWhatWasHeldBeforeATornWrite) {
  Result<EstateMemory> memory = EstateMemory::Make();
  ASSERT_TRUE(memory);
  memory->Hold(HeldOf(1, 1));
  memory->Hold(HeldOf(1, 2));
  const off_t size = ::lseek(memory->fd(), 0, SEEK_END);
  const off_t second = 0;  // The second write's half.
  std::string whole(4'000, '\0');
  ASSERT_LT(static_cast<off_t>(whole.size()), size / 2);
  ASSERT_EQ(::pread(memory->fd(), whole.data(), whole.size(), second), 4'000);
  const std::size_t written = 24 + Encode(HeldOf(1, 2)).size();  // After its header.
  for (std::size_t at = 0; at < written; ++at) {
    std::string torn = whole;
    torn[at] = static_cast<char>(torn[at] ^ 0x55);
    ASSERT_EQ(::pwrite(memory->fd(), torn.data(), torn.size(), second), 4'000);
    const std::optional<HeldEstate> read = EstateMemory::Read(memory->fd());
    EXPECT_TRUE(read == HeldOf(1, 1)) << "byte " << at;
  }
}

TEST(EstateMemoryTest, HoldsNothingThatIsTooLarge) {
  Result<EstateMemory> memory = EstateMemory::Make();
  ASSERT_TRUE(memory);
  memory->Hold(HeldOf(1, 1));
  HeldEstate large = HeldOf(1, 2);
  large.estate.record = RecordOf("run", 2, 3'000);
  memory->Hold(large);
  EXPECT_FALSE(EstateMemory::Read(memory->fd()));
}

TEST(EstateMemoryTest, RefusesWhatIsNoEstate) {
  EXPECT_FALSE(DecodeHeldEstate("x"));
  EXPECT_FALSE(DecodeEstate("x"));
  HeldEstate ended = HeldOf(1, 1);
  ended.estate.record.outcome = Finish{};
  EXPECT_FALSE(DecodeHeldEstate(Encode(ended)));
  HeldEstate none = HeldOf(1, 1);
  none.estate.record.world.reset();
  EXPECT_FALSE(DecodeEstate(Encode(none.estate)));
}

// ---- The guard's part ----
class DeadClaim : public testing::Test {
 protected:
  DeadClaim() {
    std::string name = (fs::temp_directory_path() / "ddprun_estate_XXXXXX").native();
    path_ = ::mkdtemp(name.data());
    claims_.emplace(path_);
  }
  ~DeadClaim() override {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Claim Newest() {
    const Result<std::optional<Claim>> newest = claims_->Newest();
    return newest && *newest ? **newest : Claim{};
  }
  void Make(const Claim& claim) { ASSERT_TRUE(claims_->Make(claim)); }

  fs::path path_;
  std::optional<ClaimDirectory> claims_;
};

TEST_F(DeadClaim, IsClosedWithWhatItLeft) {
  Claim moved = ClaimOf(1);
  Make(moved);
  moved.counter = 7;
  ASSERT_TRUE(claims_->Move(moved));
  const Result<bool> closed = CloseForTheDead(*claims_, HeldOf(1, 4));
  ASSERT_TRUE(closed && *closed);
  EXPECT_TRUE(Newest().closed);
  EXPECT_FALSE(Newest().over);
  EXPECT_EQ(Newest().counter, 8u);
  EXPECT_EQ(Newest().left, HeldOf(1, 4).estate);
}

TEST_F(DeadClaim, IsLeftAloneOnceItIsOver) {
  Claim over = ClaimOf(1);
  Make(over);
  over.counter = 7;
  over.closed = over.over = true;
  ASSERT_TRUE(claims_->Move(over));
  const Result<bool> closed = CloseForTheDead(*claims_, HeldOf(1, 4));
  EXPECT_TRUE(closed && !*closed);
  EXPECT_EQ(Newest(), over);
}

TEST_F(DeadClaim, IsLeftAloneWhereAnotherOneIsNewer) {
  Make(ClaimOf(1));
  Make(ClaimOf(2));
  const Result<bool> closed = CloseForTheDead(*claims_, HeldOf(1, 4));
  EXPECT_TRUE(closed && !*closed);
  EXPECT_EQ(Newest(), ClaimOf(2));
}

TEST_F(DeadClaim, IsLeftAloneWhereItIsAnothersOfThatNumber) {
  Claim others = ClaimOf(1);
  others.term = {9'000};
  Make(others);
  const Result<bool> closed = CloseForTheDead(*claims_, HeldOf(1, 4));
  EXPECT_TRUE(closed && !*closed);
  EXPECT_EQ(Newest(), others);
}

}  // namespace
}  // namespace ddprun
