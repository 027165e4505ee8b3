#include "trainer/shared_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/group/ranks_testing.h"

namespace ddprun {
namespace {

SharedSettings Given(const std::vector<const char*>& more) {
  std::vector<const char*> arguments = {"ddprun-train", "--model=toy"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto config = Parse(static_cast<int>(arguments.size()), arguments.data());
  return SharedSettingsOf(std::get<TrainConfig>(config));
}

// The settings that each rank hears.
std::vector<std::string> Agree(const std::vector<SharedSettings>& ranks) {
  MapBoard board;
  std::vector<std::string> heard(ranks.size());
  OnRanks(ranks.size(), [&](std::size_t rank) {
    const Result<void> agreed = AgreeOnSettings(board, ranks[rank], rank, ranks.size());
    heard[rank] = agreed ? "" : agreed.error().message;
    EXPECT_TRUE(agreed || agreed.error().kind == ErrorKind::kRefused);
  });
  return heard;
}

TEST(SharedSettings, AreEqualWhateverRanksMayDoByThemselves) {
  EXPECT_EQ(Difference(Given({}),
                       Given({"--threads=3", "--prefetch=on", "--checkpoint-dir=x", "--data-root=y",
                              "--progress-every=2"}),
                       1),
            "");
  // The optimizer's own default, given.
  EXPECT_EQ(Difference(Given({}), Given({"--weight-decay=0"}), 1), "");
}

TEST(SharedSettings, DifferInEachOptionThatMakesAnotherTraining) {
  for (const char* const option :
       {"--lr=0.5",          "--seed=7",          "--epochs=9",         "--batch=3",
        "--micro-batch=2",   "--optimizer=adamw", "--weight-decay=0.5", "--clip-norm=1",
        "--grad-norm",       "--drop-last",       "--autocast=bf16",    "--compress=fp16",
        "--schedule=cosine", "--warmup-steps=4",  "--bucket-mib=1",     "--backend=gloo",
        "--scale-lr",        "--freeze=fc1",      "--validate-every=5", "--split-devices=cpu,cpu",
        "--deterministic"}) {
    EXPECT_NE(Difference(Given({}), Given({option}), 1), "") << option;
  }
}

TEST(SharedSettings, HaveTheSameDataOnAllRanks) {
  EXPECT_TRUE(AgreeOnSamples(std::vector<double>{1000, 10, 1000, 10}));
  const Result<void> agreed = AgreeOnSamples(std::vector<double>{1000, 10, 1000, 10, 999, 10});
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().kind, ErrorKind::kRefused);
  EXPECT_EQ(
      agreed.error().message,
      "the ranks were started with different settings: the number of training samples is 999 on "
      "rank 2, "
      "1000 on rank 0. All ranks of a training need the same; nothing was trained [ranks-differ]");
}

TEST(SharedSettings, ThatAreEqualLetAllRanksStart) {
  EXPECT_THAT(Agree({Given({}), Given({}), Given({})}), testing::Each(""));
}

TEST(SharedSettings, ThatDifferEndAllRanksWithBothValues) {
  const std::vector<std::string> heard =
      Agree({Given({"--lr=0.01"}), Given({"--lr=0.01"}), Given({"--lr=0.5", "--seed=2"})});
  EXPECT_THAT(heard,
              testing::Each(
                  "the ranks were started with different settings: --lr is 0.5 on rank 2, 0.01 on "
                  "rank 0; --seed is 2 on rank 2, 1 on rank 0. All ranks of a "
                  "training need the same; nothing was trained [ranks-differ]"));
}

TEST(SharedSettings, OfManyRanksNameAFew) {
  std::vector<SharedSettings> ranks(12, Given({"--lr=0.5"}));
  ranks[0] = Given({"--lr=0.01"});
  EXPECT_THAT(Agree(ranks), testing::Each(testing::HasSubstr("; and 8 more ranks differ")));
}

}  // namespace
}  // namespace ddprun
