// For tests: a GPU's graph as a learner sees it. Recording does nothing, each replay does the work.
#pragma once

#include <functional>
#include <vector>

#include "trainer/device/step_graph.h"

namespace ddprun {

class FakeGraph : public StepGraph {
 public:
  explicit FakeGraph(bool works = true) : works_(works) {}
  Result<void> Record(const std::function<void()>& work) override {
    recordings_.push_back(work);
    return works_ ? Result<void>() : Error{ErrorKind::kSystem, "it cannot be recorded"};
  }
  Result<void> Replay(std::size_t number) override {
    ++replays;
    recordings_.at(number)();
    return {};
  }
  std::size_t recordings() const { return recordings_.size(); }
  int replays = 0;

 private:
  const bool works_;
  std::vector<std::function<void()>> recordings_;
};

}  // namespace ddprun
