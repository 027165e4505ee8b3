#include "trainer/group/small_sums.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "trainer/group/ranks_testing.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kLong{60};

// Nodes with so many ranks each, as threads of this process that talk as on several machines.
class Nodes {
 public:
  explicit Nodes(std::vector<std::size_t> ranks)
      : ranks_(std::move(ranks)), boards_(ranks_.size()) {
    for (std::size_t node = 0; node < ranks_.size(); ++node) {
      places_.insert(places_.end(), ranks_[node], node);
    }
  }

  std::size_t size() const { return places_.size(); }

  void OnEveryRank(const std::function<void(std::size_t rank, SmallSums&)>& work) {
    OnRanks(size(), [&](std::size_t rank) {
      const std::size_t node = places_[rank];
      const std::size_t local =
          rank - static_cast<std::size_t>(std::ranges::find(places_, node) - places_.begin());
      Result<SharedOutcome> joined = JoinShared(boards_[node], local, ranks_[node], kLong);
      ASSERT_TRUE(joined && joined->world);
      SmallSums sums(std::move(joined->world), static_cast<std::uint32_t>(size()),
                     {.count = static_cast<std::uint32_t>(ranks_.size()),
                      .own = static_cast<std::uint32_t>(node),
                      .leaders = local == 0 ? Leaders(node) : nullptr});
      work(rank, sums);
    });
  }

 private:
  c10::intrusive_ptr<c10d::Backend> Leaders(std::size_t node) {
    auto options = c10d::ProcessGroupGloo::Options::create(kLong);
    options->threads = 1;
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store_, static_cast<int>(node),
                                                       static_cast<int>(ranks_.size()), options);
  }

  const std::vector<std::size_t> ranks_;
  std::vector<std::size_t> places_;  // The node of each rank.
  std::vector<MapBoard> boards_;
  const c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
};

// Nodes of one rank and of several, unequal ones, one node; more than two, and calls in a row.
TEST(SmallSums, EveryRankHasTheSameMean) {
  for (const std::vector<std::size_t>& ranks :
       {std::vector<std::size_t>{3}, {1, 1}, {2, 2}, {1, 3}, {1, 2, 1}}) {
    Nodes nodes(ranks);
    std::vector<std::vector<float>> found(nodes.size());
    nodes.OnEveryRank([&](std::size_t rank, SmallSums& sums) {
      for (float call = 0; call < 20; ++call) {
        std::vector<float> large(9'001, 0.1F * static_cast<float>(rank) + call);
        std::vector<float> small(3, static_cast<float>(rank) * call);
        sums.Average(std::vector<std::span<float>>{large, small});
        found[rank].insert(found[rank].end(), {large.front(), large.back(), small.back()});
      }
    });
    const float mean = static_cast<float>(nodes.size() - 1) / 2;
    for (std::size_t i = 0; i < found[0].size(); ++i) {
      const auto call = static_cast<float>(i / 3);
      EXPECT_NEAR(found[0][i], i % 3 == 2 ? mean * call : 0.1F * mean + call, 1e-4);
    }
    for (const std::vector<float>& other : found) {
      EXPECT_EQ(other, found[0]) << nodes.size() << " ranks";  // To the last bit.
    }
  }
}

}  // namespace
}  // namespace ddprun
