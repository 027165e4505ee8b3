#include "agent/watch/memory_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/memory_block.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMost = 1000;

class MemoryStoreTest : public ::testing::Test {
 protected:
  ForeignFd Memory(std::uint64_t bytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return foreign_.Take(std::move(fd));
  }

  // "": kept.
  std::string Leave(std::uint32_t rank, const std::string& name, const ForeignFd& file) {
    return Hear(rank, "FDSTORE=1\nFDNAME=" + name, {file});
  }

  std::string Hear(std::uint32_t rank, const std::string& text, const SentDescriptor& sent) {
    const Result<void> heard = store_.Hear(rank, ParseNotification(text), sent);
    return heard ? "" : heard.error().message;
  }

  std::vector<std::string> Names(std::uint32_t rank) {
    std::vector<std::string> names;
    for (const MemoryBlock& block : store_.BlocksOf(rank)) {
      names.push_back(block.name);
    }
    return names;
  }

  ForeignDescriptors foreign_;
  MemoryStore store_{kMost};
};

TEST_F(MemoryStoreTest, KeepsByLocalRankAndName) {
  EXPECT_EQ(Leave(0, "b", Memory(1)), "");
  EXPECT_EQ(Leave(0, "a", Memory(1)), "");
  EXPECT_EQ(Leave(1, "a", Memory(1)), "");
  EXPECT_EQ(Hear(1, "FDSTORE=1", {Memory(1)}), "");
  EXPECT_EQ(Names(0), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Names(1), (std::vector<std::string>{"a", "stored"}));
  EXPECT_THAT(Names(2), IsEmpty());
  EXPECT_EQ(Hear(0, "FDSTOREREMOVE=1\nFDNAME=a", {}), "");
  EXPECT_EQ(Hear(0, "FDSTOREREMOVE=1\nFDNAME=none", {}), "");
  EXPECT_EQ(Hear(1, "FDSTOREREMOVE=1", {}), "");
  EXPECT_EQ(Names(0), (std::vector<std::string>{"b"}));
  EXPECT_EQ(Names(1), (std::vector<std::string>{"a", "stored"}));
}

TEST_F(MemoryStoreTest, ANameAgainTakesThePlace) {
  EXPECT_EQ(Leave(0, "a", Memory(600)), "");
  const ForeignFd second = Memory(700);
  EXPECT_EQ(Leave(0, "a", second), "");
  ASSERT_EQ(store_.BlocksOf(0).size(), 1U);
  EXPECT_EQ(store_.BlocksOf(0)[0].file, second);
  EXPECT_EQ(Leave(0, "a", second), "") << "found, and left again";
}

TEST_F(MemoryStoreTest, BytesAreBounded) {
  EXPECT_EQ(Leave(0, "a", Memory(600)), "");
  EXPECT_THAT(Leave(1, "a", Memory(401)), HasSubstr("'a' has 401 bytes, and 600 of 1000"));
  EXPECT_EQ(Leave(1, "a", Memory(400)), "");
  EXPECT_THAT(Leave(1, "b", Memory(1)), HasSubstr("1000 of 1000"));
  EXPECT_THAT(Leave(1, "a", Memory(1ULL << 62)), HasSubstr("4611686018427387904 bytes"));
  EXPECT_EQ(Hear(0, "FDSTOREREMOVE=1\nFDNAME=a", {}), "");
  EXPECT_EQ(Leave(1, "b", Memory(600)), "");
}

TEST_F(MemoryStoreTest, BlocksOfAWorkerAreBounded) {
  for (int i = 0; i < kMostBlocks; ++i) {
    EXPECT_EQ(Leave(0, std::to_string(i), Memory(1)), "");
  }
  EXPECT_THAT(Leave(0, "more", Memory(1)), HasSubstr("16 blocks"));
  EXPECT_EQ(Leave(0, "7", Memory(1)), "");
  EXPECT_EQ(Leave(1, "more", Memory(1)), "");
}

TEST_F(MemoryStoreTest, OnlyMemoryThatKeepsItsSize) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const std::vector<ForeignFd> wrong = {
      Memory(1, 0),
      Memory(1, F_SEAL_SHRINK),
      Memory(1, F_SEAL_GROW),
      foreign_.Take(UniqueFd(ends[0])),
      foreign_.Take(UniqueFd(ends[1])),
      foreign_.Take(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))),
      foreign_.Take(UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC))),
      foreign_.Take(UniqueFd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC))),
      foreign_.Take(UniqueFd(::open("/", O_PATH | O_CLOEXEC))),
  };
  for (const ForeignFd& file : wrong) {
    EXPECT_THAT(Leave(0, "a", file), HasSubstr("not a memfd that is sealed")) << file->get();
  }
  EXPECT_THAT(Names(0), IsEmpty());
}

TEST_F(MemoryStoreTest, AMessageThatIsNotWholeIsRefused) {
  EXPECT_THAT(Hear(0, "STEP=1", {Memory(1)}), HasSubstr("without FDSTORE=1"));
  EXPECT_THAT(Hear(0, "FDSTORE=1", {}), HasSubstr("without a descriptor"));
  EXPECT_THAT(Hear(0, "FDSTORE=1", {Memory(1), true}), HasSubstr("several descriptors"));
  EXPECT_EQ(Hear(0, "STEP=1", {}), "");
  for (const std::string& name : {std::string(""), std::string("a:b"), std::string("a\tb"),
                                  std::string("\xc3\xa4"), std::string(256, 'x')}) {
    EXPECT_THAT(Leave(0, name, Memory(1)), HasSubstr("FDNAME must have")) << name;
  }
  EXPECT_THAT(Names(0), IsEmpty());
  EXPECT_EQ(Leave(0, std::string(255, 'x'), Memory(1)), "");
}

TEST_F(MemoryStoreTest, AShareOfTheMemory) {
  EXPECT_GT(MostKeptBytes(), 1ULL << 20);
  EXPECT_LE(MostKeptBytes(), static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 4);
}

}  // namespace
}  // namespace ddprun
