#include "trainer/extras/publishing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/checkpoint/checkpoint_testing.h"
#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace ddprun {
namespace {

constexpr const char* kDirectory = "/nowhere-ddprun/model";

Result<void> PublishStep(MemoryFileSystem& files, std::uint64_t step) {
  const Snapshot snapshot = SnapshotAt(step);
  return Publish(files, kDirectory, snapshot.model, snapshot.state);
}

TEST(Publishing, GivesParametersAloneAndSaysWhatTheyAre) {
  MemoryFileSystem files;
  ASSERT_TRUE(PublishStep(files, 5));
  EXPECT_EQ(ReadParameters(files, std::string(kDirectory) + "/model.safetensors").value(),
            SnapshotAt(5).model);
  const auto about =
      nlohmann::json::parse(files.Read(std::string(kDirectory) + "/model.json", 1 << 20).value());
  EXPECT_EQ(about["model"], "mlp");
  EXPECT_EQ(about["step"], 5);
  EXPECT_EQ(about["metrics"]["accuracy"], 0.97);
}

// Where there is a model.json, what it names is there and whole, however the last one was cut
// short.
TEST(Publishing, CutShortAnywhereIsTheOldModelOrTheNewOneOrNone) {
  MemoryFileSystem disk;
  ASSERT_TRUE(disk.MakeDirectory("/nowhere-ddprun"));
  ASSERT_TRUE(disk.Sync("/"));
  ASSERT_TRUE(PublishStep(disk, 5));
  MemoryFileSystem counting = disk;
  counting.operations = 0;
  ASSERT_TRUE(PublishStep(counting, 6));
  ASSERT_GT(counting.operations, 8);
  std::map<std::uint64_t, int> found;
  for (int k = 1; k <= counting.operations + 1; ++k) {
    for (const auto cut :
         {MemoryFileSystem::PowerCut::kNone, MemoryFileSystem::PowerCut::kLosesAllUnsynced}) {
      SCOPED_TRACE("killed at operation " + std::to_string(k));
      MemoryFileSystem files = disk;
      files.operations = 0;
      files.kill_at = k;
      const bool done = PublishStep(files, 6).has_value();
      files.Restart(cut, 0);
      const auto text = files.Read(std::string(kDirectory) + "/model.json", 1 << 20);
      std::uint64_t step = 0;
      if (text) {
        const auto about = nlohmann::json::parse(*text);
        step = about["step"];
        const auto read =
            files.ReadDigested(std::string(kDirectory) + "/model.safetensors", 1 << 20);
        ASSERT_TRUE(read);
        EXPECT_EQ(Hex(read->xxh64), about["file"]["xxh64"]);
        EXPECT_EQ(ReadParameters(files, std::string(kDirectory) + "/model.safetensors").value(),
                  SnapshotAt(step).model);
      }
      EXPECT_TRUE(!done || step == 6);
      ++found[step];
      EXPECT_TRUE(PublishStep(files, 7)) << "and the next one is not in anybody's way";
    }
  }
  EXPECT_GT(found[5], 5);
  EXPECT_GT(found[6], 1);
}

TEST(Transfer, TakesWhatFitsAndSaysWhatDoesNot) {
  const std::vector<Tensor> old{Floats("body", {1, 2}), Floats("head", {3, 4, 5}),
                                Floats("extra", {6})};
  std::vector<Tensor> model{Floats("body", {0, 0}), Floats("head", {7, 8}), Floats("new", {9})};
  const std::vector<Tensor> before = model;
  const auto strict = Transfer(old, true, model);
  ASSERT_FALSE(strict);
  EXPECT_EQ(model, before);
  EXPECT_EQ(strict.error().message,
            "the parameters do not fit this model (--init-strict=no loads only those that do): "
            "fitting 1: body; missing 1: new; of another shape 1: head (F32[3] there, F32[2] "
            "here); not of this model 1: extra");
  const auto report = Transfer(old, false, model);
  ASSERT_TRUE(report);
  EXPECT_EQ(model[0], old[0]);
  EXPECT_EQ(model[1], before[1]);
  EXPECT_EQ(model[2], before[2]);
  EXPECT_EQ(Describe(*report),
            "loaded 1: body; "
            "missing, left as initialised, 1: new; "
            "of another shape, left as initialised, 1: head (F32[3] there, F32[2] here); "
            "not of this model, skipped, 1: extra");
}

TEST(Transfer, OfManyTensorsTheFirstEightAreNamed) {
  TransferReport report;
  for (int i = 0; i < 8; ++i) {
    report.loaded.push_back("t" + std::to_string(i));
  }
  EXPECT_EQ(Describe(report), "loaded 8: t0 t1 t2 t3 t4 t5 t6 t7");
  report.loaded.insert(report.loaded.end(), {"t8", "t9"});
  EXPECT_EQ(Describe(report), "loaded 10: t0 t1 t2 t3 t4 t5 t6 t7 and 2 more");
}

TEST(Transfer, NothingThatFitsIsAnError) {
  std::vector<Tensor> model{Floats("a", {0})};
  EXPECT_FALSE(Transfer({Floats("b", {1})}, false, model));
}

TEST(Transfer, StrictIsFineWithTheSameModel) {
  std::vector<Tensor> model{Floats("a", {0})};
  EXPECT_TRUE(Transfer({Floats("a", {1})}, true, model));
  EXPECT_EQ(model[0], Floats("a", {1}));
}

}  // namespace
}  // namespace ddprun
