#include "agent/guard_signals.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;

constexpr SignalRequests::Time kStart{std::chrono::seconds(1'000)};

struct Arrives {
  int signal;
  std::chrono::milliseconds after;
  bool is_new;
};

TEST(SignalRequests, SignalsWithOneMeaningAreOneRequest) {
  struct Case {
    const char* rule;
    std::vector<Arrives> signals;
  };
  const std::vector<Case> cases = {
      {"what repeats within a tenth of a second is one request",
       {{SIGTERM, 0ms, true}, {SIGTERM, 0ms, false}, {SIGTERM, 100ms, false}}},
      {"a second later it is another one",
       {{SIGTERM, 0ms, true}, {SIGTERM, 1'000ms, true}, {SIGTERM, 1'050ms, false}}},
      // Else a sender of one every 50 ms would never be heard again.
      {"a request lasts from its first signal",
       {{SIGINT, 0ms, true}, {SIGINT, 150ms, false}, {SIGINT, 300ms, true}}},
      // A terminal sends SIGINT, the script that started ddprun SIGTERM; systemd SIGTERM and
      // SIGHUP.
      {"all that ask for the end are one request",
       {{SIGINT, 0ms, true},
        {SIGTERM, 10ms, false},
        {SIGHUP, 20ms, false},
        {SIGQUIT, 30ms, false}}},
      {"an interrupt after another signal is a person's",
       {{SIGTERM, 0ms, true}, {SIGINT, 10ms, true}, {SIGINT, 20ms, false}}},
      {"what is for the workers is a request of its own",
       {{SIGUSR1, 0ms, true}, {SIGUSR2, 0ms, true}, {SIGTERM, 0ms, true}, {SIGUSR1, 10ms, false}}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.rule);
    SignalRequests requests;
    for (const Arrives& arrives : one.signals) {
      EXPECT_EQ(requests.IsNew(arrives.signal, kStart + arrives.after), arrives.is_new)
          << arrives.signal << " after " << arrives.after.count() << " ms";
    }
  }
}

}  // namespace
}  // namespace ddprun
