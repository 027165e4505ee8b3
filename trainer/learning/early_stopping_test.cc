#include "trainer/learning/early_stopping.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddprun {
namespace {

TEST(EarlyStopping, EndsAfterSoManyValidationsWithoutAGain) {
  Metrics metrics;
  EXPECT_TRUE(NoteValidation(metrics, 10, 0.5));
  EXPECT_TRUE(NoteValidation(metrics, 20, 0.4));
  EXPECT_FALSE(NoteValidation(metrics, 30, 0.4)) << "equal is no gain";
  EXPECT_FALSE(EnoughValidations(metrics, 2));
  EXPECT_FALSE(NoteValidation(metrics, 40, 0.6));
  EXPECT_TRUE(EnoughValidations(metrics, 2));
  EXPECT_FALSE(EnoughValidations(metrics, 3));
  EXPECT_FALSE(EnoughValidations(metrics, 0)) << "0: never";
  EXPECT_EQ(metrics[kBestStep], 20);
}

TEST(EarlyStopping, AGainStartsTheCountAgain) {
  Metrics metrics;
  NoteValidation(metrics, 1, 0.5);
  NoteValidation(metrics, 2, 0.6);
  EXPECT_TRUE(EnoughValidations(metrics, 1));
  NoteValidation(metrics, 3, 0.1);
  EXPECT_FALSE(EnoughValidations(metrics, 1));
}

TEST(EarlyStopping, NotANumberIsNeverTheBest) {
  Metrics metrics;
  EXPECT_FALSE(NoteValidation(metrics, 1, std::nan("")));
  EXPECT_TRUE(NoteValidation(metrics, 2, 7.0));
  EXPECT_FALSE(NoteValidation(metrics, 3, std::nan("")));
  EXPECT_EQ(metrics[kBestStep], 2);
}

// Else a training that began with one would never find a better one once it was resumed.
TEST(EarlyStopping, InfiniteIsNeverTheBestAndSurpassedWhereItWas) {
  Metrics metrics;
  EXPECT_FALSE(NoteValidation(metrics, 1, INFINITY));
  EXPECT_TRUE(NoteValidation(metrics, 2, 7.0));
  Metrics resumed{{kBestLoss, std::nan("")}, {kBestStep, 1}, {kSinceBest, 0}};
  EXPECT_TRUE(NoteValidation(resumed, 2, 7.0));
  EXPECT_EQ(resumed[kBestStep], 2);
}

TEST(EarlyStopping, ContinuesFromTheStateOfACheckpoint) {
  Metrics metrics{{"test_loss", 1.0}};
  NoteValidation(metrics, 1, 0.5);
  NoteValidation(metrics, 2, 0.6);
  Metrics resumed = ValidationMetrics(metrics);
  EXPECT_EQ(resumed.count("test_loss"), 0u);
  NoteValidation(resumed, 3, 0.7);
  EXPECT_TRUE(EnoughValidations(resumed, 2));
}

}  // namespace
}  // namespace ddprun
