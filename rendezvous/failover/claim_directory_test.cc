#include "rendezvous/failover/claim_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/files.h"
#include "common/result_testing.h"
#include "common/wall_clock.h"
#include "rendezvous/term_bounds.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

Claim ClaimOf(std::uint64_t number) {
  return {number, {1600 + number}, {"n1.example.org", 29400}, 0, false};
}

class Claims : public testing::Test {
 protected:
  std::size_t Files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  Claim Newest() { return NewestOf(directory_); }
  static Claim NewestOf(ClaimDirectory& directory) {
    const Result<std::optional<Claim>> newest = directory.Newest();
    EXPECT_TRUE(newest && *newest) << (newest ? "none" : newest.error().message);
    return newest && *newest ? **newest : Claim{};
  }

  ScratchDirectory scratch_;
  const fs::path path_ = scratch_.path();
  ClaimDirectory directory_{path_};  // Of all nodes.
};

TEST_F(Claims, AnEmptyDirectoryHasNone) {
  ClaimDirectory directory(path_ / "new" / "one");
  ASSERT_TRUE(directory.Prepare());
  ASSERT_TRUE(directory.Newest());
  EXPECT_FALSE(*directory.Newest());
  EXPECT_EQ(Files(), 1u);
}

TEST_F(Claims, AClaimThatIsMadeIsRead) {
  const Term latest = TermBoundsAt(UnixMilliseconds(), kServersAhead).term;
  Finish outcome{Ending::kFailed, 7, "rank 0\nended", WorkerFailure{.host = "n0"}, true};
  const Claim claim{
      1,    latest, {"::1", 65535},  std::uint64_t{1} << 62,
      true, false,  Duration{9'000}, {{"run", {12}, outcome}, {"other", {}, Finish{}}}};
  ASSERT_TRUE(directory_.Make(claim));
  EXPECT_EQ(Newest(), claim);
  EXPECT_EQ(Files(), 1u) << "a temporary file is left";
}

TEST_F(Claims, ANumberIsMadeOnceAndKeepsItsText) {
  ASSERT_TRUE(directory_.Make(ClaimOf(1)));
  Claim other = ClaimOf(1);
  other.endpoint.host = "other";
  EXPECT_TRUE(Fails(directory_.Make(other), ErrorKind::kRefused));
  EXPECT_EQ(Newest(), ClaimOf(1));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(Claims, OfManyMakersOneSucceeds) {
  std::atomic<int> made = 0;
  std::vector<std::thread> makers;
  for (int i = 0; i < 8; ++i) {
    makers.emplace_back([&] {
      for (std::uint64_t number = 1; number <= 20; ++number) {
        made += ClaimDirectory(path_).Make(ClaimOf(number)) ? 1 : 0;
      }
    });
  }
  for (std::thread& maker : makers) {
    maker.join();
  }
  EXPECT_EQ(made, 20);
  EXPECT_EQ(Newest().number, 20u);
}

TEST_F(Claims, TheCounterMovesInPlaceAndANewerClaimIsSeen) {
  Claim claim = ClaimOf(1);
  ASSERT_TRUE(directory_.Make(claim));
  claim.counter = 12345;
  const Result<bool> moved = directory_.Move(claim);
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_FALSE(*moved);
  EXPECT_EQ(Newest().counter, 12345u);
  ASSERT_TRUE(directory_.Make(ClaimOf(2)));
  claim.closed = true;
  ASSERT_TRUE(directory_.Move(claim));
  EXPECT_TRUE(*directory_.Move(claim));
  EXPECT_EQ(Newest().number, 2u);
}

// Where it was removed, its holder must not bring it back: its number may be another's by then.
TEST_F(Claims, AClaimThatIsGoneCannotBeMoved) {
  ASSERT_TRUE(directory_.Make(ClaimOf(1)));
  fs::remove(path_ / "term-1");
  EXPECT_FALSE(directory_.Move(ClaimOf(1)));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(Claims, HowARunEndedIsAddedToAClaimAndHandedOn) {
  Claim claim = ClaimOf(1);
  ASSERT_TRUE(directory_.Make(claim));
  claim.ended = {{"run", {12}, Finish{}}};
  ASSERT_TRUE(directory_.Move(claim));
  EXPECT_EQ(Newest(), claim);
  // By who read the claim before that.
  const Result<Claim> next = directory_.Make(ClaimOf(2));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->ended, claim.ended);
  // The maker of that one has died before it was ever written again.
  const Result<Claim> after_next = directory_.Make(ClaimOf(3));
  ASSERT_TRUE(after_next);
  EXPECT_EQ(after_next->ended, claim.ended);
  claim.ended.clear();
  ASSERT_TRUE(directory_.Move(claim));
  EXPECT_EQ(Files(), 3u) << "a temporary file is left";
}

// It would else keep every node from taking over for ever. Its holder writes it anew if he lives.
TEST_F(Claims, ATornClaimIsOneThatStandsStill) {
  ASSERT_TRUE(directory_.Make(ClaimOf(1)));
  Write("term-2", "");
  Claim torn = ClaimOf(1);
  torn.damaged = true;
  torn.number = 2;
  EXPECT_EQ(Newest(), torn);
  Write("term-2", "ddprun cla");
  EXPECT_EQ(Newest(), torn);
  ASSERT_TRUE(directory_.Make(ClaimOf(3)));
  EXPECT_EQ(Newest(), ClaimOf(3));
}

// Each number below it was looked for, which took days.
TEST_F(Claims, AnEmptyFileWithTheHighestNumberIsFollowedAtOnce) {
  ASSERT_TRUE(directory_.Make(ClaimOf(1)));
  Claim torn = ClaimOf(1);
  torn.damaged = true;
  torn.number = std::uint64_t{1} << 48;
  Write("term-" + std::to_string(torn.number), "");
  EXPECT_EQ(Newest(), torn);
  Claim next = ClaimOf(2);
  next.number = torn.number + 1;
  ASSERT_TRUE(directory_.Make(next));
  EXPECT_EQ(Newest(), next);
}

// It was looked for under the name term-7, and its absence ended every read.
TEST_F(Claims, ANumberThatIsWrittenInAnotherWayIsNoClaim) {
  ASSERT_TRUE(directory_.Make(ClaimOf(1)));
  Write("term-007", "");
  EXPECT_EQ(Newest(), ClaimOf(1));
}

// A FIFO held the disk's thread, and so the server's part, for ever.
TEST_F(Claims, AnotherEntryThanAFileIsAsGoodAsATornClaimAndNeverWaitedFor) {
  ASSERT_TRUE(directory_.Make(ClaimOf(1)));
  Claim torn = ClaimOf(1);
  torn.damaged = true;
  torn.number = 2;
  const fs::path place = path_ / "term-2";
  const std::array<std::function<void()>, 3> kinds = {
      [&] { ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0); },
      [&] { fs::create_directory(place); },
      [&] { fs::create_symlink("/nowhere", place); },
  };
  for (const auto& make : kinds) {
    make();
    EXPECT_EQ(Newest(), torn);
    EXPECT_FALSE(directory_.Move(torn)) << "it has no owner";
    EXPECT_FALSE(directory_.Move(ClaimOf(1))) << "another server may serve above it";
    EXPECT_FALSE(directory_.Make(torn));
    ASSERT_TRUE(directory_.Make(ClaimOf(3)));
    EXPECT_EQ(Newest(), ClaimOf(3));
    fs::remove(path_ / "term-3");
    fs::remove(place);
  }
  ASSERT_EQ(::mkfifo((path_ / "token").c_str(), 0600), 0);
  ASSERT_TRUE(directory_.Announce({"n2", 2}, "0123456789abcdef"));
  EXPECT_EQ(*ReadFile(path_ / "token", 100), "0123456789abcdef\n");
}

// Its holder may live and move it, in a way that is not understood here.
TEST_F(Claims, AClaimOfAnotherVersionIsNotTakenForTorn) {
  for (const std::string line : {"ddprun claim 3", "notes"}) {
    Write("term-1", line + "\nmore\n");
    const std::string why = directory_.Where() +
                            ": claim 1 is a file of another version or another program: '" + line +
                            "' (use the ddprun that wrote it, or another directory)";
    EXPECT_TRUE(Fails(directory_.Newest(), ErrorKind::kUnavailable, why)) << line;
  }
  Write("term-1", "ddprun claim 1\nterm 7\nendpoint n0:1\ncounter 3\nclosed 2\n");
  const Claim before = Newest();
  EXPECT_EQ(before.endpoint, (Endpoint{"n0", 1}));
  EXPECT_TRUE(before.counter == 3 && before.over && before.lease == Duration{0});
}

TEST_F(Claims, HalfAClaimOrAForeignFileIsNoClaim) {
  const std::string whole = Encode(ClaimOf(1));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(DecodeClaim(whole.substr(0, length), 1)) << length;
  }
  EXPECT_FALSE(DecodeClaim(whole + "\n", 1));
  EXPECT_FALSE(DecodeClaim("notes\n", 1));
  Write("term-1", whole.substr(0, whole.size() - 2));
  EXPECT_EQ(Newest(), (Claim{.number = 1, .damaged = true}));
  Write("term-1", whole);
  Write("term-x", "");
  Write("terms", "");
  EXPECT_EQ(Newest(), ClaimOf(1));
}

TEST_F(Claims, ADirectoryThatIsGoneIsAnErrorNotAnAnswer) {
  ClaimDirectory directory(path_ / "gone");
  EXPECT_FALSE(directory.Newest());
  EXPECT_FALSE(directory.Make(ClaimOf(1)));
  EXPECT_FALSE(directory.Move(ClaimOf(1)));
}

TEST_F(Claims, APlaceThatCannotBeADirectoryIsRefusedByName) {
  Write("file", "");
  const Result<void> prepared = ClaimDirectory(path_ / "file").Prepare();
  EXPECT_TRUE(Fails(prepared, ErrorKind::kInvalid, (path_ / "file").native()));
  EXPECT_TRUE(Fails(prepared, "--run-dir"));
}

// ---- Of one server alone ----
TEST_F(Claims, AStateDirectoryIsOneServersAlone) {
  const ClaimDirectory directory(path_, kStateDirectory);
  {
    const Result<UniqueFd> lock = directory.Lock();
    ASSERT_TRUE(lock) << lock.error().message;
    EXPECT_TRUE(Fails(ClaimDirectory(path_, kStateDirectory).Lock(), ErrorKind::kInvalid,
                      "is in use by another rendezvous server"));
  }
  EXPECT_TRUE(directory.Lock()) << "its server has gone";
}

TEST_F(Claims, ARunDirectoryIsNoStateDirectory) {
  ASSERT_TRUE(directory_.Make(ClaimOf(1)));
  EXPECT_TRUE(
      Fails(ClaimDirectory(path_, kStateDirectory).Lock(), ErrorKind::kInvalid, "--state-dir"));
}

TEST_F(Claims, AStateDirectoryDoesNotGrowWithItsServers) {
  ClaimDirectory directory(path_, kStateDirectory);
  for (std::uint64_t number = 1; number <= 5; ++number) {
    ASSERT_TRUE(directory.Make(ClaimOf(number)));
    directory.RemoveBefore(number - 1);
    EXPECT_EQ(Files(), std::min<std::size_t>(number, 2));
  }
  EXPECT_EQ(NewestOf(directory), ClaimOf(5));
}

TEST_F(Claims, AsManyEndedRunsAsAServerRemembersAreRead) {
  ClaimDirectory directory(path_, kStateDirectory);
  Claim claim = ClaimOf(1);
  const Finish outcome{Ending::kFailed, 7, std::string(512, 'x'), WorkerFailure{.host = "n0"},
                       true};
  for (std::size_t i = 0; i < kMostEndedRuns; ++i) {
    claim.ended.push_back({std::to_string(i) + std::string(100, 'r'), {12}, outcome});
  }
  ASSERT_TRUE(directory.Make(claim));
  EXPECT_EQ(NewestOf(directory), claim);
  Claim next = claim;
  next.number = 2;
  const Result<Claim> made = directory.Make(next);
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, next);
}

TEST_F(Claims, TheEndpointAndTheTokenAreTheNewestServers) {
  const Result<void> first = directory_.Announce({"n1", 1}, "0123456789abcdef-1");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*ReadFile(path_ / "token", 100), "0123456789abcdef-1\n");
  ASSERT_TRUE(directory_.Announce({"n2", 2}, "0123456789abcdef-2"));
  EXPECT_EQ(*ReadFile(path_ / "token", 100), "0123456789abcdef-2\n");
  EXPECT_EQ(*ReadFile(path_ / "endpoint", 100), "n2:2\n");
  EXPECT_EQ(fs::status(path_ / "token").permissions() & fs::perms(077), fs::perms::none);
  EXPECT_EQ(Files(), 2u);
}

}  // namespace
}  // namespace ddprun
