#include "trainer/checkpoint/saver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <semaphore>

#include "tests/support/scratch_directory.h"
#include "trainer/checkpoint/checkpoint_testing.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

const SaverOptions kQuick{.show_life = 5ms, .check_fence = 5ms, .look = {}};
const SaverOptions kSlow{.show_life = 1h, .check_fence = 1h, .look = {}};

// A training's tensors that have the values of a snapshot.
SnapshotView ViewOf(const Snapshot& snapshot) {
  const auto view = [](const std::vector<Tensor>& tensors) {
    std::vector<TensorView> views;
    for (const Tensor& tensor : tensors) {
      views.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
    }
    return views;
  };
  return {view(snapshot.model), view(snapshot.optimizer), {}};
}

// Bounded waiting for what a thread does.
bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

class SaverTest : public testing::Test {
 protected:
  SaverTest() {
    store_.emplace(RealFileSystem(), ConfigFor(directory_));
    EXPECT_TRUE(store_->Claim(World("a", 1)));
  }

  ScratchDirectory scratch_;
  const std::string directory_ = scratch_.path();
  std::optional<CheckpointStore> store_;
};

TEST_F(SaverTest, LooksAsOftenAsItChecksTheFence) {
  std::atomic<int> looks = 0;
  SaverOptions options = kQuick;
  options.look = [&looks] { ++looks; };
  const Saver saver(*store_, options);
  EXPECT_TRUE(Eventually([&looks] { return looks > 2; }));
}

// Its disk hangs.
TEST_F(SaverTest, ALookThatHangsHoldsUpNoSave) {
  std::promise<void> answer;
  std::atomic<bool> looks = false;
  SaverOptions options = kQuick;
  options.look = [&looks, asked = answer.get_future().share()] {
    looks = true;
    asked.wait();
  };
  Saver saver(*store_, options);
  ASSERT_TRUE(Eventually([&looks] { return looks.load(); }));
  EXPECT_TRUE(saver.Save(SnapshotAt(1)));
  saver.Drain();
  EXPECT_TRUE(saver.HasRoom());
  answer.set_value();
}

TEST_F(SaverTest, SavesInOrderAndReportsEachOnce) {
  Saver saver(*store_, kQuick);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    Snapshot snapshot = SnapshotAt(step);
    while (!saver.Save(std::move(snapshot))) {
      ASSERT_EQ(snapshot.state.step, step) << "refused means untouched";
      saver.Drain();
    }
  }
  saver.Drain();
  const std::vector<SaveResult> results = saver.TakeResults();
  ASSERT_EQ(results.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(results[i].step, i + 1);
    EXPECT_TRUE(results[i].report);
  }
  EXPECT_TRUE(saver.TakeResults().empty());
  EXPECT_TRUE(saver.Close());
  EXPECT_FALSE(saver.fenced());
}

TEST_F(SaverTest, TheDestructorFinishesWhatWasHandedOver) {
  {
    Saver saver(*store_, kSlow);
    ASSERT_TRUE(saver.Save(SnapshotAt(7)));
  }
  CheckpointStore next(RealFileSystem(), ConfigFor(directory_));
  ASSERT_TRUE(next.Claim(World("a", 2)));
  EXPECT_EQ(next.Load()->checkpoint->snapshot.state.step, 7u);
}

TEST_F(SaverTest, ANewerWorldIsNoticedWhileIdleAndLifeIsNoLongerShown) {
  Saver saver(*store_, kQuick);
  EXPECT_FALSE(saver.fenced());
  {
    CheckpointStore newer(RealFileSystem(), ConfigFor(directory_));
    ASSERT_TRUE(newer.Claim(World("a", 2)));
    ASSERT_TRUE(Eventually([&] { return saver.fenced().has_value(); }));
  }
  EXPECT_EQ(saver.fenced()->kind, ErrorKind::kRefused);
  EXPECT_EQ(saver.Close().error().kind, ErrorKind::kRefused);
  // The newer world died: the fenced one, still there, must not look like its owner.
  ASSERT_TRUE(Eventually([&] {
    CheckpointStore other(RealFileSystem(), ConfigFor(directory_));
    return other.Claim(World("b", 1)).has_value();
  }));
}

TEST_F(SaverTest, ARefusedSaveIsAResultAndAFence) {
  Saver saver(*store_, kSlow);
  CheckpointStore newer(RealFileSystem(), ConfigFor(directory_));
  ASSERT_TRUE(newer.Claim(World("a", 2)));
  ASSERT_TRUE(saver.Save(SnapshotAt(5)));
  saver.Drain();
  const std::vector<SaveResult> results = saver.TakeResults();
  ASSERT_EQ(results.size(), 1u);
  ASSERT_FALSE(results[0].report);
  EXPECT_EQ(results[0].report.error().kind, ErrorKind::kRefused);
  EXPECT_TRUE(saver.fenced());
}

TEST_F(SaverTest, AnIdleHolderKeepsMovingItsCounter) {
  Saver saver(*store_, kQuick);
  const std::string path = directory_ + "/fence-alive";
  const std::string first = RealFileSystem().Read(path, 4096).value();
  EXPECT_TRUE(Eventually([&] { return RealFileSystem().Read(path, 4096).value() != first; }));
}

// One in flight, one queued, a third is refused at once.
TEST(SaverQueue, RefusesAThirdWhileTheDiskIsSlow) {
  MemoryFileSystem files;
  CheckpointStore store(files, ConfigFor("/nowhere-ddprun/ckpt"));
  ASSERT_TRUE(store.Claim(World("a", 1)));
  std::binary_semaphore reached{0};
  std::binary_semaphore go_on{0};
  std::atomic<bool> first{true};
  files.before = [&](std::string_view operation, const std::filesystem::path&) {
    if (operation == "rename" && first.exchange(false)) {
      reached.release();
      go_on.acquire();
    }
  };
  Saver saver(store, kSlow);
  ASSERT_TRUE(saver.Save(SnapshotAt(1)));
  reached.acquire();
  EXPECT_TRUE(saver.Save(SnapshotAt(2)));
  Snapshot third = SnapshotAt(3);
  EXPECT_FALSE(saver.Save(std::move(third)));
  EXPECT_EQ(third.model, SnapshotAt(3).model);
  EXPECT_FALSE(saver.Save(ViewOf(third), third.state, /*surpasses=*/false));
  // One that matters more takes the place of the queued one, whatever the disk does.
  EXPECT_TRUE(saver.Save(ViewOf(third), third.state, /*surpasses=*/true));
  EXPECT_FALSE(saver.HasRoom());
  go_on.release();
  saver.Drain();
  const std::vector<SaveResult> results = saver.TakeResults();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].step, 1u);
  EXPECT_EQ(results[1].step, 3u);
}

}  // namespace
}  // namespace ddprun
