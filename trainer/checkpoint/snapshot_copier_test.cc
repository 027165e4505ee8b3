#include "trainer/checkpoint/saver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <semaphore>

namespace ddprun {
namespace {

// Two tensors as a training changes them, one of them already in the forward.
struct Training {
  std::string weight = std::string(5'000'000, 'a');
  std::string statistics = "a";
  std::string momentum = "a";

  SnapshotView View() const {
    const auto view = [](const char* name, const std::string& bytes, bool forward) {
      return TensorView{
          name, DType::kU8, {static_cast<std::int64_t>(bytes.size())}, bytes, forward};
    };
    return {{view("weight", weight, false), view("statistics", statistics, true)},
            {view("momentum", momentum, false)}};
  }
  void Forward(char value) { statistics.assign(1, value); }
  void Update(char value) {
    std::fill(weight.begin(), weight.end(), value);
    momentum.assign(1, value);
  }
};

bool IsAll(const Tensor& tensor, char value) {
  const std::string_view bytes = tensor.bytes;
  return std::all_of(bytes.begin(), bytes.end(), [&](char c) { return c == value; });
}

TrainState StateOf(std::uint64_t step) {
  TrainState state;
  state.step = step;
  return state;
}

// The copy is held back until the step after it is about to change the parameters: as slow as can
// be, it still holds the values of the step at which it was asked for.
TEST(SnapshotCopier, HoldsTheValuesOfItsStepThoughTheNextOneRuns) {
  Training training;
  std::counting_semaphore<> update_is_near{0};
  std::vector<Snapshot> copies;
  SnapshotCopier copier([&](Snapshot&& done) { copies.push_back(std::move(done)); },
                        [&] { update_is_near.acquire(); });
  for (char step = 'a'; step < 'e'; ++step) {
    copier.Begin(training.View(), StateOf(static_cast<std::uint64_t>(step)), std::nullopt);
    training.Forward(static_cast<char>(step + 1));
    update_is_near.release();
    copier.Wait();
    training.Update(static_cast<char>(step + 1));
  }
  ASSERT_EQ(copies.size(), 4u);
  for (const Snapshot& copy : copies) {
    const char value = static_cast<char>(copy.state.step);
    EXPECT_TRUE(IsAll(copy.model[0], value)) << value;
    EXPECT_TRUE(IsAll(copy.model[1], value)) << value;
    EXPECT_TRUE(IsAll(copy.optimizer[0], value)) << value;
  }
}

// The test above could not see this otherwise: without Wait the late copy has later values.
TEST(SnapshotCopier, ACallerThatDoesNotWaitSpoilsTheCopy) {
  Training training;
  std::binary_semaphore updated{0};
  std::vector<Snapshot> copies;
  {
    SnapshotCopier copier([&](Snapshot&& done) { copies.push_back(std::move(done)); },
                          [&] { updated.acquire(); });
    copier.Begin(training.View(), StateOf(1), std::nullopt);
    training.Forward('b');
    training.Update('b');
    updated.release();
  }
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_TRUE(IsAll(copies[0].model[0], 'b'));
  EXPECT_TRUE(IsAll(copies[0].model[1], 'a')) << "copied before Begin returned";
}

// The loop waits for the copy alone, however long it takes to be written.
TEST(SnapshotCopier, TheCopyIsMadeBeforeItIsHandedOver) {
  const Training training;
  std::binary_semaphore let_go{0};
  std::vector<Snapshot> copies;
  SnapshotCopier copier([&](Snapshot&& done) {
    let_go.acquire();
    copies.push_back(std::move(done));
  });
  EXPECT_TRUE(copier.IsIdle());
  copier.Begin(training.View(), StateOf(1), std::nullopt);
  copier.WaitForCopy();
  EXPECT_FALSE(copier.IsIdle());
  let_go.release();
  copier.Wait();
  EXPECT_TRUE(copier.IsIdle());
  EXPECT_EQ(copies.size(), 1u);
}

TEST(SnapshotCopier, UsesTheMemoryOfASpentSnapshotOfTheSameLayoutOnly) {
  Training training;
  std::vector<Snapshot> copies;
  SnapshotCopier copier([&](Snapshot&& done) { copies.push_back(std::move(done)); });
  copier.Begin(training.View(), StateOf(1), std::nullopt);
  copier.Wait();
  const char* const memory = copies[0].model[0].bytes.data();
  copier.Begin(training.View(), StateOf(2), std::exchange(copies[0], {}));
  copier.Wait();
  EXPECT_EQ(copies[1].model[0].bytes.data(), memory);
  training.weight.resize(7);
  copier.Begin(training.View(), StateOf(3), std::exchange(copies[1], {}));
  copier.Wait();
  EXPECT_EQ(copies[2].model[0].bytes, Bytes("aaaaaaa"));
}

}  // namespace
}  // namespace ddprun
