#include "agent/guard_signals.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;

constexpr SignalRequests::Time kStart{std::chrono::seconds(1'000)};

TEST(SignalRequests, WhatRepeatsWithinATenthOfASecondIsOneRequest) {
  SignalRequests requests;
  EXPECT_TRUE(requests.IsNew(SIGTERM, kStart));
  EXPECT_FALSE(requests.IsNew(SIGTERM, kStart));
  EXPECT_FALSE(requests.IsNew(SIGTERM, kStart + 100ms));
}

TEST(SignalRequests, ASecondLaterItIsAnotherOne) {
  SignalRequests requests;
  EXPECT_TRUE(requests.IsNew(SIGTERM, kStart));
  EXPECT_TRUE(requests.IsNew(SIGTERM, kStart + 1'000ms));
  EXPECT_FALSE(requests.IsNew(SIGTERM, kStart + 1'050ms));
}

// Else a sender of one every 50 ms would never be heard again.
TEST(SignalRequests, ARequestLastsFromItsFirstSignal) {
  SignalRequests requests;
  EXPECT_TRUE(requests.IsNew(SIGINT, kStart));
  EXPECT_FALSE(requests.IsNew(SIGINT, kStart + 150ms));
  EXPECT_TRUE(requests.IsNew(SIGINT, kStart + 300ms));
}

// A terminal sends SIGINT, the script that started ddprun SIGTERM; systemd SIGTERM and SIGHUP.
TEST(SignalRequests, AllThatAskForTheEndAreOneRequest) {
  SignalRequests requests;
  EXPECT_TRUE(requests.IsNew(SIGINT, kStart));
  EXPECT_FALSE(requests.IsNew(SIGTERM, kStart + 10ms));
  EXPECT_FALSE(requests.IsNew(SIGHUP, kStart + 20ms));
  EXPECT_FALSE(requests.IsNew(SIGQUIT, kStart + 30ms));
}

TEST(SignalRequests, AnInterruptAfterAnotherSignalIsAPersons) {
  SignalRequests requests;
  EXPECT_TRUE(requests.IsNew(SIGTERM, kStart));
  EXPECT_TRUE(requests.IsNew(SIGINT, kStart + 10ms));
  EXPECT_FALSE(requests.IsNew(SIGINT, kStart + 20ms));
}

TEST(SignalRequests, WhatIsForTheWorkersIsARequestOfItsOwn) {
  SignalRequests requests;
  EXPECT_TRUE(requests.IsNew(SIGUSR1, kStart));
  EXPECT_TRUE(requests.IsNew(SIGUSR2, kStart));
  EXPECT_TRUE(requests.IsNew(SIGTERM, kStart));
  EXPECT_FALSE(requests.IsNew(SIGUSR1, kStart + 10ms));
}

}  // namespace
}  // namespace ddprun
