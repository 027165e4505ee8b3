#include "trainer/start_plan.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TrainConfig Config() {
  TrainConfig config;
  config.batch = 64;
  return config;
}

TrainState Saved() {
  TrainState state = FreshState(Config(), 2, "fc[1]");
  state.step = 300;
  state.epoch = 1;
  state.samples_in_epoch = 128;
  state.buckets = {{1, 0}};
  return state;
}

TEST(StartPlan, SurvivesTheWayToTheOtherRanks) {
  StartPlan plan{.kind = StartKind::kResume, .state = Saved(), .notes = {"a", "b \"c\""}};
  const Result<StartPlan> read = StartPlanFromText(ToText(plan));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->kind, StartKind::kResume);
  EXPECT_EQ(read->state.step, 300u);
  EXPECT_EQ(read->state.samples_in_epoch, 128u);
  EXPECT_EQ(read->state.buckets, plan.state.buckets);
  EXPECT_EQ(read->notes, plan.notes);
  EXPECT_FALSE(read->refusal);
  plan.refusal = Error{ErrorKind::kRefused, "in use"};
  EXPECT_EQ(StartPlanFromText(ToText(plan))->refusal->kind, ErrorKind::kRefused);
  EXPECT_EQ(StartPlanFromText(ToText(plan))->refusal->message, "in use");
}

TEST(StartPlan, GarbageIsAnError) {
  for (const char* text : {"", "{", "[]", "{\"kind\":9,\"notes\":[],\"state\":\"\"}",
                           "{\"kind\":0,\"notes\":[],\"state\":\"{}\"}"}) {
    EXPECT_FALSE(StartPlanFromText(text)) << text;
  }
}

TEST(ContinueFrom, TheSameWorldContinuesWithoutAWord) {
  std::vector<std::string> notes;
  const Result<TrainState> state = ContinueFrom(Saved(), FreshState(Config(), 2, "fc[1]"), notes);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->step, 300u);
  EXPECT_EQ(state->epoch, 1u);
  EXPECT_EQ(state->samples_in_epoch, 128u);
  EXPECT_EQ(state->global_batch, 128u);
  EXPECT_EQ(state->buckets, Saved().buckets);
  EXPECT_TRUE(notes.empty());
}

TEST(ContinueFrom, AnotherWorldSizeKeepsTheGlobalBatch) {
  for (const std::uint32_t world_size : {1, 3, 5}) {
    std::vector<std::string> notes;
    const Result<TrainState> state =
        ContinueFrom(Saved(), FreshState(Config(), world_size, "fc[1]"), notes);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->global_batch, 128u);
    EXPECT_EQ(state->world_size, world_size);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find("the global batch stays 128"), std::string::npos) << notes[0];
  }
}

TEST(ContinueFrom, AChangedBatchFlagChangesTheGlobalBatch) {
  TrainConfig config = Config();
  config.batch = 16;
  config.lr = 0.5;
  std::vector<std::string> notes;
  const Result<TrainState> state = ContinueFrom(Saved(), FreshState(config, 2, "fc[1]"), notes);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->global_batch, 32u);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("--lr changes"), std::string::npos);
  EXPECT_NE(notes[1].find("from 128 to 32"), std::string::npos);
}

// Twice the ranks with half the batch each is the same training.
TEST(ContinueFrom, TheSameGlobalBatchByOtherMeansNeedsNoWord) {
  TrainConfig config = Config();
  config.batch = 32;
  std::vector<std::string> notes;
  ASSERT_TRUE(ContinueFrom(Saved(), FreshState(config, 4, "fc[1]"), notes));
  EXPECT_TRUE(notes.empty());
}

TEST(ContinueFrom, AnotherTrainingIsRefusedWithAWayOut) {
  std::vector<TrainConfig> others(3, Config());
  others[0].seed = 2;
  others[1].limit_train = 100;
  others[2].dataset = "other";
  for (const TrainConfig& config : others) {
    std::vector<std::string> notes;
    const Result<TrainState> state = ContinueFrom(Saved(), FreshState(config, 2, "fc[1]"), notes);
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(state.error().message.find("--resume=never"), std::string::npos);
  }
}

TEST(ContinueFrom, OtherFrozenParametersAreRefused) {
  TrainState saved = Saved();
  TrainState asked = FreshState(Config(), 2, "fc[1]");
  asked.hyperparameters["frozen"] = "fc";
  std::vector<std::string> notes;
  EXPECT_TRUE(ContinueFrom(saved, asked, notes)) << "a checkpoint of an older version is silent";
  saved.hyperparameters["frozen"] = "none";
  const Result<TrainState> state = ContinueFrom(saved, asked, notes);
  ASSERT_FALSE(state);
  EXPECT_NE(state.error().message.find("frozen parameters (--freeze, set_requires_grad) none, not "
                                       "fc. Set the same, another --checkpoint-dir, or"),
            std::string::npos)
      << state.error().message;
  EXPECT_NE(state.error().message.find("--init-from"), std::string::npos);
}

TEST(ContinueFrom, ALongValueIsShownFromTheWordOnInWhichItDiffers) {
  TrainState saved = Saved();
  TrainState asked = FreshState(Config(), 2, "fc[1]");
  for (int i = 0; i < 100; ++i) {
    saved.hyperparameters["frozen"] += (i > 0 ? " layer" : "layer") + std::to_string(i);
  }
  asked.hyperparameters["frozen"] = saved.hyperparameters["frozen"] + " last";
  std::vector<std::string> notes;
  const std::string refusal = ContinueFrom(saved, asked, notes).error().message;
  EXPECT_NE(refusal.find(" ...layer99, not ...layer99 last."), std::string::npos) << refusal;
}

// Buckets number the parameters in their order.
TEST(ContinueFrom, ParametersInAnotherOrderBeginWithNewBuckets) {
  std::vector<std::string> notes;
  const Result<TrainState> state =
      ContinueFrom(Saved(), FreshState(Config(), 2, "other[1] fc[1]"), notes);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->buckets.empty());
}

TEST(ContinueFrom, AnAbsurdGlobalBatchIsRefused) {
  for (const std::uint64_t absurd : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    TrainState saved = Saved();
    saved.global_batch = absurd;
    std::vector<std::string> notes;
    EXPECT_FALSE(ContinueFrom(saved, FreshState(Config(), 2, "fc[1]"), notes));
  }
}

}  // namespace
}  // namespace ddprun
