// Code that is written as if it were alone, and sleeps in simulated time: the real checkpoint code
// calls file operations one after the other, and between any two of them the world goes on.
//
// Runs on a stack of its own in the one thread there is. What is not done when its fiber ends never
// wakes from its sleep: only destructors still run there.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "tests/sim/agenda.h"

namespace ddprun::sim {

class Fiber {
 public:
  // What ends a body from within.
  struct Gone {};

  // Begins at once, and is back here when it sleeps for the first time.
  Fiber(Agenda& agenda, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From within.
  static void Sleep(Duration duration);

  bool done() const { return done_; }

 private:
  void GoOn();

  static Fiber* current_;
  Agenda& agenda_;
  const std::function<void()> body_;
  boost::context::fiber own_;  // Where it sleeps.
  boost::context::fiber caller_;
  bool done_ = false;
  bool abandoned_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // The address sanitizer's, which must know of stacks.
  const void* stack_ = nullptr;
  void* shadow_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_size_ = 0;
};

}  // namespace ddprun::sim
