// The stores of a simulated agent: ports, and whether a store listens there.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "agent/node_stores.h"
#include "tests/sim/laws.h"

namespace ddprun::sim {

class SimStores final : public NodeStores {
 public:
  SimStores(Laws& laws, std::string host) : laws_(laws), host_(std::move(host)) {}

  Result<void> Bind() override {
    if (!bound_) {
      offered_ = {host_, static_cast<std::uint16_t>(1000 + ++ports_)};
    }
    bound_ = true;
    return {};
  }
  Endpoint Offer() override {
    (void)Bind();
    return offered_;
  }
  void Begin(const std::string& peers) override {
    laws_.BreakIf(peers != peers_, "the store on ", host_, " does not know whom to let in");
    laws_.BreakIf(open_.has_value(), "a store begins on ", host_,
                  " beside that of an older generation");
    if (std::exchange(bound_, false)) {
      open_ = offered_;
    }
  }
  void End() override { open_.reset(); }

  // The running workers, and where.
  const std::optional<Endpoint>& open() const { return open_; }
  // The agent learns which clients a store that it begins now is to admit.
  void Expect(const std::string& peers) { peers_ = peers; }
  // Its process has ended.
  void Die() {
    open_.reset();
    bound_ = false;
  }

 private:
  Laws& laws_;
  const std::string host_;
  bool bound_ = false;
  Endpoint offered_;
  std::optional<Endpoint> open_;
  std::uint16_t ports_ = 0;
  std::string peers_;
};

}  // namespace ddprun::sim
