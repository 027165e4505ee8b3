#include "trainer/checkpoint/fenced_publish.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "common/files.h"
#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class FencedPublish : public ::testing::Test {
 protected:
  static Writer World(std::uint64_t generation, const std::string& run = "run") {
    return MakeWriter(run, Term{1}, Generation{generation}, WorldId{0xabc000 + generation});
  }
  fs::path Source(const std::string& text) const {
    const fs::path path = directory_ / ("new-" + text);
    std::ofstream(path) << text;
    return path;
  }
  Result<Published> Publish(const Writer& writer, const std::string& text,
                            std::function<void(const std::string&)> before = {}) const {
    return PublishFenced(RealFileSystem(),
                         {Source(text), directory_ / "model", writer, std::move(before)});
  }
  static Result<Published> Move(const fs::path& source, const fs::path& target) {
    return PublishFenced(RealFileSystem(), {source, target, World(1), {}});
  }
  std::string Final() const { return *ReadFile(directory_ / "model", 100); }
  std::vector<std::string> Versions() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_ / ".model.published")) {
      if (entry.path().filename().native().starts_with("step-")) {
        names.push_back(*ReadFile(entry.path(), 100));
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  ScratchDirectory scratch_;
  const fs::path directory_ = scratch_.path();
};

TEST_F(FencedPublish, TheNewestIsSeenAndThreeAreKept) {
  for (const char* text : {"a", "b", "c", "d", "e"}) {
    const Result<Published> published = Publish(World(1), text);
    ASSERT_TRUE(published) << published.error().message;
    EXPECT_FALSE(published->replaced);
    EXPECT_EQ(Final(), text);
    EXPECT_FALSE(fs::exists(directory_ / (std::string("new-") + text)));
  }
  EXPECT_THAT(Versions(), ElementsAre("c", "d", "e"));
  ASSERT_TRUE(Publish(World(2), "f"));
  EXPECT_EQ(Final(), "f");
}

TEST_F(FencedPublish, AnOlderGenerationIsRefusedAndKeepsItsFile) {
  ASSERT_TRUE(Publish(World(2), "newer"));
  EXPECT_TRUE(Fails(Publish(World(1), "older"), ErrorKind::kRefused, "generation 2"));
  EXPECT_EQ(Final(), "newer");
  EXPECT_TRUE(fs::exists(directory_ / "new-older"));
}

// The old world stands still before each of its operations in turn, while the new one publishes.
TEST_F(FencedPublish, WhereverAnOldWorldStoodStillTheNewVersionStays) {
  std::vector<std::string> places;
  ASSERT_TRUE(Publish(World(1), "0", [&](const std::string& next) { places.push_back(next); }));
  ASSERT_THAT(places, ElementsAre("claim", "move", "commit", "link", "prune"));
  std::uint64_t generation = 1;
  for (const std::string& place : places) {
    const Writer old_world = World(++generation);
    const Writer new_world = World(++generation);
    const std::string text = "new at " + place;
    bool stood_still = false;
    const Result<Published> late = Publish(old_world, "old at " + place, [&](const auto& next) {
      if (next == place && !std::exchange(stood_still, true)) {
        const Result<Published> published = Publish(new_world, text);
        ASSERT_TRUE(published) << published.error().message;
      }
    });
    EXPECT_EQ(Final(), text) << place;
    // Once committed it was the newest for a while; before, it never is.
    const bool committed = place == "link" || place == "prune";
    ASSERT_EQ(bool(late), committed) << place;
    if (!committed) {
      EXPECT_EQ(late.error().kind, ErrorKind::kRefused) << late.error().message;
    }
    // And the next one publishes as ever.
    ASSERT_TRUE(Publish(World(++generation), "after"));
    EXPECT_EQ(Final(), "after");
  }
  EXPECT_LE(Versions().size(), 3u);  // The refused writer left nothing for good.
}

TEST_F(FencedPublish, RanksOfOneWorldMayPublishAtOnce) {
  const Result<Published> first = Publish(World(1), "one", [&](const std::string& next) {
    if (next == "move" || next == "commit") {
      ASSERT_TRUE(Publish(World(1), "two at " + next));
    }
  });
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(Final(), "one");
}

TEST_F(FencedPublish, ADirectoryIsPublishedWithAllInIt) {
  const fs::path source = directory_ / "tree";
  fs::create_directories(source / "deep");
  std::ofstream(source / "deep" / "file") << "text";
  const Result<Published> published = Move(source, directory_ / "out");
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_EQ(*ReadFile(directory_ / "out" / "deep" / "file", 10), "text");
}

TEST_F(FencedPublish, ADirectoryThatItDidNotMakeIsLeftAlone) {
  std::ofstream(directory_ / "model") << "precious";
  Result<Published> refused = Publish(World(1), "a");
  EXPECT_TRUE(Fails(refused, ErrorKind::kInvalid));
  EXPECT_EQ(Final(), "precious");
  fs::remove(directory_ / "model");
  fs::create_symlink("elsewhere", directory_ / "model");
  refused = Publish(World(1), "a");
  EXPECT_TRUE(Fails(refused, "did not make"));
  EXPECT_FALSE(Move(directory_ / "none", directory_ / "x"));
  EXPECT_FALSE(Move(Source("a"), directory_ / ".."));
}

// A link that is moved into the store leads elsewhere from there, and a FIFO waits for a writer.
TEST_F(FencedPublish, OnlyFilesAndDirectoriesArePublished) {
  ASSERT_TRUE(Publish(World(1), "kept"));
  fs::create_directory(directory_ / "tree");
  fs::create_symlink("tree", directory_ / "link");
  fs::create_symlink("nowhere", directory_ / "dangling");
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  const UniqueFd writer(::open((directory_ / "fifo").c_str(), O_RDWR | O_CLOEXEC));
  for (const auto& [name, why] : {std::pair("link", "symbolic link"),
                                  {"link/", "symbolic link"},
                                  {"dangling", "symbolic link"},
                                  {"model", "symbolic link"},
                                  {"tree/.", "must end in a name"},
                                  {"fifo", "neither a file nor a directory"}}) {
    EXPECT_TRUE(Fails(Move(directory_ / name, directory_ / "model"), ErrorKind::kInvalid, why))
        << name;
    EXPECT_EQ(Final(), "kept") << name;
  }
  EXPECT_THAT(Versions(), ElementsAre("kept"));
  const fs::path tree = directory_ / "tree/";
  EXPECT_TRUE(Move(tree, directory_ / "out"));
}

// Moved to a new name, it would be missing under the one that readers follow.
TEST_F(FencedPublish, APublishedVersionIsNotMoved) {
  fs::create_directories(directory_ / "tree" / "deep");
  const fs::path target = directory_ / "model";
  const Result<Published> made = Move(directory_ / "tree", target);
  ASSERT_TRUE(made) << made.error().message;
  for (const fs::path& source : {made->version, made->version.parent_path(), target / "deep"}) {
    EXPECT_TRUE(Fails(Move(source, target), ErrorKind::kInvalid, "published already")) << source;
    EXPECT_TRUE(fs::exists(target / "deep"));
  }
}

TEST_F(FencedPublish, NorIsAVersionThatAnotherNameOrATrainingKeeps) {
  fs::create_directories(directory_ / "tree" / "deep");
  const Result<Published> made = Move(directory_ / "tree", directory_ / "other");
  ASSERT_TRUE(made) << made.error().message;
  for (const fs::path& source : {made->version, directory_ / "other" / "deep"}) {
    EXPECT_TRUE(Fails(Move(source, directory_ / "model"), ErrorKind::kInvalid, "published already"))
        << source;
  }
  EXPECT_TRUE(fs::exists(directory_ / "other" / "deep"));
  fs::create_directory(directory_ / "step-00000007-0000000000000abc");  // No owner: no fence.
  EXPECT_TRUE(Move(directory_ / "step-00000007-0000000000000abc", directory_ / "model"));
}

TEST_F(FencedPublish, ADirectoryIsNotPublishedIntoItself) {
  fs::create_directory(directory_ / "tree");
  for (const char* name : {"model", "deep/model"}) {
    EXPECT_TRUE(Fails(Move(directory_ / "tree", directory_ / "tree" / name), ErrorKind::kInvalid));
  }
  EXPECT_TRUE(fs::is_empty(directory_ / "tree"));
}

}  // namespace
}  // namespace ddprun
