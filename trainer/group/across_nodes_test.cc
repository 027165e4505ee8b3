#include "trainer/group/across_nodes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "trainer/group/ranks_testing.h"
#include "trainer/group/shm_backend.h"

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

  using Work = std::function<void(std::size_t rank, const std::shared_ptr<SharedWorld>& world,
                                  const SharedWorld::Across& across)>;
  void OnEveryRank(const Work& work) {
    OnRanks(size(), [&](std::size_t rank) {
      const std::size_t node = places_[rank];
      const std::size_t local =
          rank - static_cast<std::size_t>(std::ranges::find(places_, node) - places_.begin());
      Result<SharedOutcome> joined = JoinShared(boards_[node], local, ranks_[node], kLong);
      ASSERT_TRUE(joined && joined->world);
      const std::shared_ptr<SharedWorld> world = std::move(joined->world);
      SharedWorld::Across across;
      if (ranks_.size() > 1) {
        across = AcrossNodes(local == 0 ? Gloo("leaders", node, ranks_.size()) : nullptr);
      }
      work(rank, world, across);
    });
  }

  c10::intrusive_ptr<GlooOfNodes> Gloo(const std::string& name, std::size_t rank,
                                       std::size_t size) {
    auto options = c10d::ProcessGroupGloo::Options::create(kLong);
    options->threads = 1;
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    return c10::make_intrusive<GlooOfNodes>(c10::make_intrusive<c10d::PrefixStore>(name, store_),
                                            static_cast<int>(rank), static_cast<int>(size),
                                            options);
  }

 private:
  const std::vector<std::size_t> ranks_;
  std::vector<std::size_t> places_;  // The node of each rank.
  std::vector<MapBoard> boards_;
  const c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
};

// Nodes of one rank and of several, unequal ones, one node; more than two, and calls in a row.
TEST(AcrossNodes, EveryRankHasTheSameMean) {
  for (const std::vector<std::size_t>& ranks :
       {std::vector<std::size_t>{3}, {1, 1}, {2, 2}, {1, 3}, {1, 2, 1}}) {
    Nodes nodes(ranks);
    std::vector<std::vector<float>> found(nodes.size());
    nodes.OnEveryRank([&](std::size_t rank, const auto& world, const auto& across) {
      const float factor = 1.0F / static_cast<float>(nodes.size());
      for (float call = 0; call < 20; ++call) {
        std::vector<float> large(9'001, 0.1F * static_cast<float>(rank) + call);
        std::vector<float> small(3, static_cast<float>(rank) * call);
        ASSERT_TRUE(world->Sum(std::vector<std::span<float>>{large, small}, factor, across));
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

// Larger than a slot; other operations and types stay Gloo's.
TEST(GlooOfNodes, SumsNodeByNode) {
  for (const std::vector<std::size_t>& ranks :
       {std::vector<std::size_t>{2, 2}, {1, 3}, {2, 1, 2}}) {
    Nodes nodes(ranks);
    const auto size = static_cast<std::int64_t>(nodes.size());
    nodes.OnEveryRank([&](std::size_t rank, const auto& world, const auto& across) {
      const auto all = nodes.Gloo("all", rank, nodes.size());
      all->SumBy(MakeShmBackend(world, across));
      const auto own = static_cast<std::int64_t>(rank);
      for (const at::ScalarType type :
           {at::kFloat, at::kDouble, at::kHalf, at::kLong, at::kComplexFloat}) {
        std::vector<at::Tensor> data = {at::arange(300'001).remainder(7).add(own).to(type)};
        all->allreduce(data, c10d::AllreduceOptions())->wait();
        const at::Tensor sum =
            at::arange(300'001).remainder(7).mul(size).add(size * (size - 1) / 2).to(type);
        EXPECT_TRUE(data[0].equal(sum)) << ranks.size() << " nodes, " << type;
        if (at::isComplexType(type)) {
          continue;  // There is no largest one.
        }
        std::vector<at::Tensor> largest = {at::full({3}, own, type)};
        c10d::AllreduceOptions options;
        options.reduceOp = c10d::ReduceOp::MAX;
        all->allreduce(largest, options)->wait();
        EXPECT_TRUE(largest[0].equal(at::full({3}, size - 1, type)));
      }
    });
  }
}

}  // namespace
}  // namespace ddprun
