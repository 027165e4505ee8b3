#include "proto/notify.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Notify, ReadsItsLines) {
  const Notification n = ParseNotification(
      "READY=1\nSTEP=1200\nPHASE=checkpoint\nEXTEND_TIMEOUT_USEC=5\n"
      "RESUME=1199\n");
  EXPECT_TRUE(n.ready);
  EXPECT_EQ(n.step, 1200u);
  EXPECT_EQ(n.resume, 1199u);
  EXPECT_EQ(n.phase, "checkpoint");
  EXPECT_EQ(n.extend, std::chrono::microseconds(5));
}

TEST(Notify, ReadsHowWellItGoes) {
  const Notification told =
      ParseNotification("LOSS=-0.5e-3\nSAMPLES_PER_S=51200\nCHECKPOINT=1000\n");
  EXPECT_EQ(told.loss, -0.0005);
  EXPECT_EQ(told.samples_per_s, 51200.0);
  EXPECT_EQ(told.checkpoint, 1000u);
  EXPECT_EQ(ParseNotification("STEPS=2000\n").steps, 2000u);
  EXPECT_FALSE(ParseNotification("STEPS=0\nSTEPS=all\n").steps);
  EXPECT_EQ(ParseNotification("STEP=7\nWORK_USEC=41000").work, std::chrono::microseconds(41'000));
  EXPECT_FALSE(ParseNotification("WORK_USEC=-1\nWORK_USEC=1.5\nWORK_USEC=").work);
  for (const char* const line :
       {"LOSS=nan", "LOSS=inf", "LOSS=1e999", "LOSS=", "LOSS=1x", "LOSS= 1", "SAMPLES_PER_S=-1",
        "SAMPLES_PER_S=nan", "CHECKPOINT=-1"}) {
    const Notification nothing = ParseNotification(line);
    EXPECT_FALSE(nothing.loss || nothing.samples_per_s || nothing.checkpoint) << line;
  }
}

TEST(Notify, DropsWhatItDoesNotUnderstand) {
  const Notification n = ParseNotification(
      "\n=\nSTEP=\nSTEP=-1\nSTEP=99999999999999999999999\nSTEP=7x\nPHASE=\nPHASE=\x01\nEXTEND_"
      "TIMEOUT_USEC=-1\nOTHER="
      "1\nREADY=2");
  EXPECT_FALSE(n.ready);
  EXPECT_FALSE(n.step);
  EXPECT_FALSE(n.phase);
  EXPECT_FALSE(n.extend);
  EXPECT_FALSE(ParseNotification("PHASE=" + std::string(65, 'x')).phase);
}

TEST(Notify, ReadsWhatGoesWithADescriptor) {
  const Notification n = ParseNotification("FDSTORE=1\nFDNAME=model state\n");
  EXPECT_TRUE(n.store);
  EXPECT_FALSE(n.remove);
  EXPECT_EQ(n.block, "model state");
  EXPECT_FALSE(ParseNotification("FDSTORE=1").block);
  EXPECT_FALSE(ParseNotification("FDSTORE=2").store);
  EXPECT_TRUE(ParseNotification("FDSTOREREMOVE=1\nFDNAME=x").remove);
  EXPECT_EQ(ParseNotification("FDNAME=a:b").block, "");
}

// A program that asks for a signal that no program can act upon would be killed or stopped by
// ddprun save.
TEST(Notify, ReadsTheSignalToSaveBy) {
  EXPECT_EQ(ParseNotification("SAVE_SIGNAL=23").save_signal, 23);
  for (const char* bad : {"0", "9", "19", "65", "-1", "USR1", ""}) {
    EXPECT_FALSE(ParseNotification(std::string("SAVE_SIGNAL=") + bad).save_signal) << bad;
  }
}

TEST(Notify, ANotifierWithoutASocketIsHarmless) {
  Notifier("").Send("READY=1");
  Notifier("/nonexistent/socket").Send("READY=1");
  Notifier(std::string(500, 'x')).Send("READY=1");
}

}  // namespace
}  // namespace ddprun
