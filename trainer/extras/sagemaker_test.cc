#include "trainer/extras/sagemaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/files.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

Result<std::optional<SageMaker>> Detect(const std::vector<std::string>& environment) {
  std::vector<const char*> pointers;
  for (const std::string& variable : environment) {
    pointers.push_back(variable.c_str());
  }
  pointers.push_back(nullptr);
  return DetectSageMaker(pointers.data());
}

TEST(SageMaker, ElsewhereThereIsNothingToDo) {
  EXPECT_FALSE(*Detect({"HOME=/root", "RANK=0"}));
}

TEST(SageMaker, NamesItsDirectories) {
  const auto found = *Detect({"SM_CHANNEL_TRAINING=/opt/ml/input/data/training"});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->arguments,
              ElementsAre("--checkpoint-dir=/opt/ml/checkpoints", "--publish=/opt/ml/model",
                          "--data-root=/opt/ml/input/data/training"));
}

class SageMakerFiles : public testing::Test {
 protected:
  SageMakerFiles() { fs::create_directories(root_ / "input/config"); }

  ScratchDirectory scratch_;
  const fs::path root_ = scratch_.path();
};

TEST_F(SageMakerFiles, HyperparametersAreFlagsAndTheMostParticularWins) {
  std::ofstream(root_ / "input/config/hyperparameters.json")
      << R"({"epochs": "3", "batch": "16", "lr": "0.5", "model": "\"mlp\"",)"
      << R"( "sagemaker_program": "x"})";
  const auto found =
      *Detect({"DDPRUN_SAGEMAKER_ROOT=" + root_.native(), "SM_MODEL_DIR=/m",
               R"(SM_HPS={"batch": 32, "lr": 0.25})", "SM_HP_LR=0.125", "SM_HP_KEEP_LAST=4"});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->arguments, ElementsAre("--checkpoint-dir=" + (root_ / "checkpoints").native(),
                                            "--publish=/m", "--batch=32", "--epochs=3",
                                            "--keep-last=4", "--lr=0.125", "--model=mlp"));
}

TEST_F(SageMakerFiles, AFileThatIsNoJsonIsAnErrorThatNamesIt) {
  const auto found = Detect({"DDPRUN_SAGEMAKER_ROOT=" + root_.native(), "SM_HPS=epochs=3"});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("SM_HPS"));
}

TEST_F(SageMakerFiles, TheFirstFailureStays) {
  const SageMaker sagemaker{root_, {}};
  WriteFailure(sagemaker, "the disk is full");
  WriteFailure(sagemaker, "a peer is gone");
  EXPECT_EQ(ReadFile(root_ / "output/failure", 4096).value(), "the disk is full\n");
}

}  // namespace
}  // namespace ddprun
