// For tests: a coordinator's driver on its loop, and the answers to its callers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "common/asio_loop.h"
#include "rendezvous/driver.h"

namespace ddprun {

struct AskedSync final : PendingSync {
  void Answer(const SyncReply& reply) override { told = reply; }
  void Refuse(const Error&) override {}

  std::optional<SyncReply> told;
};

// The first one of a node that has heard nothing.
inline NodeReport FirstReportOf(const std::string& node, const RunSpec& spec) {
  NodeReport report;
  report.run_id = "run";
  report.node = report.host = node;
  report.incarnation = {1};
  report.sequence = 1;
  report.spec = spec;
  return report;
}

struct DriverTest : testing::Test {
  AsioLoop loop;

  // Returns at the end of `work`.
  void OnLoop(const std::function<void()>& work) {
    loop.Post([&] {
      work();
      loop.Stop();
    });
    loop.Run();
  }
};

}  // namespace ddprun
