// Random histories of worlds that begin from memory or from the disk, and of older ones that are
// held up and continue beside them, over the real fence log. The law: what is committed descends
// from the head before. Each part of the rule is left out once, and then the law breaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "trainer/checkpoint/checkpoint_testing.h"
#include "trainer/checkpoint/memory_file_system_testing.h"
#include "trainer/checkpoint/memory_start.h"

namespace ddprun {
namespace {

enum class LeftOut {
  kNothing,
  kLastStep,  // Each snapshot that its world has made counts.
  kHead,      // Any head counts.
};

constexpr int kNodes = 2;
const char* const kDirectory = "/ckpt";

struct Block {
  TrainState state;
  std::size_t content = 0;
};

struct ModelWorld {
  Writer writer;
  int node = 0;
  std::uint64_t step = 0;
  std::size_t content = 0;
  std::string parent;  // The head that its claim has found.
  std::optional<std::pair<std::uint64_t, std::size_t>> handed_over;  // Step and content.
};

class Model {
 public:
  Model(unsigned seed, LeftOut left_out) : random_(seed), left_out_(left_out) {
    EXPECT_TRUE(files_.MakeDirectory(kDirectory));
    for (int event = 0; event < 120 && broken_ == 0; ++event) {
      if (worlds_.empty() || Chance(8)) {
        Begin();
      } else {
        Act(worlds_[random_() % worlds_.size()]);
        std::erase_if(worlds_, [](const ModelWorld& world) { return world.writer.run_id.empty(); });
      }
    }
  }

  int broken() const { return broken_; }
  int commits = 0;
  int from_memory = 0;
  int by_own = 0;  // Of those: by what the state's own world had made.

 private:
  bool Chance(unsigned of) { return random_() % of == 0; }

  bool Descends(std::size_t content, std::size_t from) const {
    while (content > from) {
      content = parents_[content];
    }
    return content == from;
  }

  std::size_t Content(std::size_t parent) {
    parents_.push_back(parent);
    return parents_.size() - 1;
  }

  TrainState StateOf(const ModelWorld& world) const {
    TrainState state;
    state.run_id = world.writer.run_id;
    state.term = world.writer.term;
    state.generation = world.writer.generation;
    state.world_id = world.writer.world_id;
    state.step = world.step;
    state.parent = world.parent;
    return state;
  }

  bool Counts(const Block& block, const Writer& writer, const DiskHead& disk) const {
    TrainState state = block.state;
    if (left_out_ == LeftOut::kLastStep) {
      state.step = ~0ULL;
    }
    return left_out_ == LeftOut::kHead || !WhyNotFromMemory(state, std::nullopt, writer, disk);
  }

  // A process that is still there on its node is ended; those elsewhere may continue.
  void Begin() {
    ModelWorld world{.writer = World("run", ++generation_)};
    world.node = static_cast<int>(random_() % kNodes);
    std::erase_if(worlds_, [&](const ModelWorld& other) { return other.node == world.node; });
    std::vector<Block> found = blocks_[world.node];
    if (Chance(2)) {  // The other node takes part, and its workers are ended too.
      const std::vector<Block>& more = blocks_[1 - world.node];
      found.insert(found.end(), more.begin(), more.end());
      worlds_.clear();
    }
    const auto newest =
        std::max_element(found.begin(), found.end(),
                         [](const Block& a, const Block& b) { return AgeOf(a) < AgeOf(b); });
    const Result<FenceRecord> claim = Claim(world.writer);
    if (!claim) {
      return;
    }
    const DiskHead disk = HeadIn(*claim);
    world.parent = NameOf(disk);
    if (newest != found.end() && Counts(*newest, world.writer, disk)) {
      ++from_memory;
      by_own += world.parent != newest->state.parent;
      world.step = newest->state.step;
      world.content = newest->content;
    } else {
      world.step = disk.head ? WhoMade(disk.head->directory)->step : 0;
      world.content = disk.head ? disk.head->digest : Content(0);
    }
    worlds_.push_back(std::move(world));
  }

  static std::tuple<std::uint64_t, std::uint64_t> AgeOf(const Block& block) {
    return {block.state.generation.value, block.state.step};
  }

  static std::string NameOf(const DiskHead& disk) { return disk.head ? disk.head->directory : ""; }

  static DiskHead HeadIn(const FenceRecord& record) {
    return {record.lineage.empty() ? std::nullopt : std::optional(record.lineage.front()), {}};
  }

  Result<FenceRecord> Claim(const Writer& writer) {
    std::vector<std::string> warnings;
    return log_.Claim(writer, {[](const FenceRecord&) -> Result<bool> { return false; }, [] {}},
                      warnings);
  }

  void Act(ModelWorld& world) {
    switch (random_() % 6) {
      case 0:
      case 1:
        ++world.step;
        world.content = Content(world.content);
        break;
      case 2:
        blocks_[world.node] = {{StateOf(world), world.content}};
        break;
      case 3:
        world.handed_over.emplace(world.step, world.content);
        break;
      default:
        Commit(world);
    }
  }

  // A world that is ended has no run any more.
  static void End(ModelWorld& world) { world.writer.run_id = {}; }

  void Commit(ModelWorld& world) {
    if (!world.handed_over) {
      return;
    }
    const auto [step, content] = *world.handed_over;
    world.handed_over.reset();
    const std::string name = CheckpointName({step, world.writer.world_id});
    std::vector<std::string> warnings;
    const std::optional<CheckpointRef> before = HeadIn(**log_.Newest(warnings)).head;
    if (!log_.Commit(world.writer, {{name, content}})) {
      return End(world);
    }
    ++commits;
    broken_ += before && !Descends(content, before->digest) ? 1 : 0;
  }

  std::mt19937 random_;
  const LeftOut left_out_;
  MemoryFileSystem files_;
  FenceLog log_{files_, kDirectory};
  std::uint64_t generation_ = 0;
  std::vector<std::size_t> parents_ = {0};  // A content's is a smaller number; 0: before all.
  std::vector<ModelWorld> worlds_;
  std::map<int, std::vector<Block>> blocks_;
  int broken_ = 0;
};

TEST(MemoryStartModel, ACommitDescendsFromTheHeadBefore) {
  int commits = 0;
  int from_memory = 0;
  int by_own = 0;
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    const Model model(seed, LeftOut::kNothing);
    ASSERT_EQ(model.broken(), 0) << "seed " << seed;
    commits += model.commits;
    from_memory += model.from_memory;
    by_own += model.by_own;
  }
  EXPECT_GT(commits, 1000);  // Else the histories say nothing.
  EXPECT_GT(from_memory, 1000);
  EXPECT_GT(by_own, 10);
}

class MemoryStartModelWithout : public testing::TestWithParam<LeftOut> {};

TEST_P(MemoryStartModelWithout, TheLawBreaks) {
  for (unsigned seed = 1; seed <= 20000; ++seed) {
    if (Model(seed, GetParam()).broken() > 0) {
      return;
    }
  }
  FAIL() << "the rule is not needed, or the model does not reach what it is for";
}

INSTANTIATE_TEST_SUITE_P(EachPart, MemoryStartModelWithout,
                         testing::Values(LeftOut::kLastStep, LeftOut::kHead));

}  // namespace
}  // namespace ddprun
