// The fence log on a network file system, whose listings and lookups may be old.
#include <gtest/gtest.h>

#include "trainer/checkpoint/checkpoint_fixtures.h"
#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/memory_file_system.h"

namespace ddprun {
namespace {

const CheckpointRef kFirst{"step-00000100-00000000000abc01", 1};
const CheckpointRef kSecond{"step-00000200-00000000000abc01", 2};

// As a client of a network file system may: but opening by name asks the server.
struct OldListing : MemoryFileSystem {
  std::vector<std::string> names;
  Result<std::vector<std::string>> List(const std::filesystem::path& directory) override {
    return names.empty() ? MemoryFileSystem::List(directory) : names;
  }
};

TEST(FenceLog, AListingOlderThanANewersClaimProvesNothing) {
  OldListing files;
  ASSERT_TRUE(files.MakeDirectory("/ckpt"));
  FenceLog fence(files, "/ckpt");
  std::vector<std::string> warnings;
  const Liveness nobody{[](const FenceRecord&) -> Result<bool> { return false; }, [] {}};
  ASSERT_TRUE(fence.Claim(World("a", 1), nobody, warnings));
  const std::vector<std::string> names = files.List("/ckpt").value();
  ASSERT_TRUE(fence.Claim(World("a", 2), nobody, warnings));
  files.names = names;
  EXPECT_EQ(fence.CheckMine(World("a", 1)).error().kind, ErrorKind::kRefused);
}

// A name that was found once and is not found again is no record that never was: the claim would
// carry the head before it, and the newest checkpoint would be lost.
struct OldLookup final : OldListing {
  std::filesystem::path name;
  int found = 0;
  Result<std::string> Read(const std::filesystem::path& path, std::size_t most) override {
    if (path == name && found++ > 0) {
      return Error{ErrorKind::kNotFound, path.native() + " is not seen"};
    }
    return MemoryFileSystem::Read(path, most);
  }
};

TEST(FenceLog, WhatWasReadOnceCountsThoughALaterLookupIsOlder) {
  OldLookup files;
  ASSERT_TRUE(files.MakeDirectory("/ckpt"));
  FenceLog fence(files, "/ckpt");
  std::vector<std::string> warnings;
  const Liveness nobody{[](const FenceRecord&) -> Result<bool> { return false; }, [] {}};
  ASSERT_TRUE(fence.Claim(World("a", 1), nobody, warnings));
  ASSERT_TRUE(fence.Commit(World("a", 1), {kFirst}));
  files.names = files.List("/ckpt").value();
  ASSERT_TRUE(fence.Commit(World("a", 1), {kSecond, kFirst}));
  files.name = "/ckpt/fence-3";
  const Result<FenceRecord> claim = fence.Claim(World("a", 2), nobody, warnings);
  ASSERT_TRUE(claim) << claim.error().message;
  EXPECT_EQ(claim->number, 4u);
  EXPECT_EQ(claim->lineage, (std::vector{kSecond, kFirst}));
}

}  // namespace
}  // namespace ddprun
