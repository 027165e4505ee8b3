// Code that is written as if it were alone, and sleeps in simulated time: the real checkpoint code
// calls file operations one after the other, and between any two of them the world continues.
//
// Runs on a stack of its own in the one thread there is. A call that is not done when its fiber
// ends never wakes from its sleep: only destructors still run there.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "common/check.h"
#include "tests/sim/event_queue.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace ddprun::sim {

class Fiber {
 public:
  // Ends a body from within.
  struct Gone {};

  // Begins at once, and is back here when it sleeps for the first time.
  Fiber(EventQueue& event_queue, std::function<void()> body)
      : event_queue_(event_queue), body_(std::move(body)) {
    // Used again: to get one from the system each time costs more than what runs on it.
    static boost::context::pooled_fixedsize_stack stacks(kStack);
    const boost::context::stack_context stack = stacks.allocate();
    stack_ = static_cast<const char*>(stack.sp) - stack.size;
    own_ = boost::context::fiber(std::allocator_arg,
                                 boost::context::preallocated(stack.sp, stack.size, stack), stacks,
                                 [this](boost::context::fiber&& caller) {
                                   EndSwitch(nullptr, &caller_stack_, &caller_size_);
                                   caller_ = std::move(caller);
                                   try {
                                     body_();
                                   } catch (const Gone&) {
                                   }
                                   done_ = true;
                                   BeginSwitch(nullptr, caller_stack_, caller_size_);
                                   return std::move(caller_);
                                 });
    GoOn();
  }
  ~Fiber() {
    *alive_ = false;
    abandoned_ = true;
    if (!done_) {
      GoOn();
    }
    CHECK(done_);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From within.
  static void Sleep(Duration duration) {
    CHECK(current_ != nullptr);
    Fiber& self = *current_;
    if (!self.abandoned_) {
      self.event_queue_.After(duration, [&self, alive = self.alive_] {
        if (*alive) {
          self.GoOn();
        }
      });
      BeginSwitch(&self.shadow_, self.caller_stack_, self.caller_size_);
      self.caller_ = std::move(self.caller_).resume();
      EndSwitch(self.shadow_, &self.caller_stack_, &self.caller_size_);
    }
    if (self.abandoned_) {
      throw Gone{};
    }
  }

  bool done() const { return done_; }

 private:
  // As far as its next sleep, or its end.
  void GoOn() {
    void* shadow = nullptr;
    Fiber* const outer = std::exchange(current_, this);
    BeginSwitch(&shadow, stack_, kStack);
    own_ = std::move(own_).resume();
    EndSwitch(shadow, nullptr, nullptr);
    current_ = outer;
  }

  static void BeginSwitch([[maybe_unused]] void** shadow, [[maybe_unused]] const void* bottom,
                          [[maybe_unused]] std::size_t size) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(shadow, bottom, size);
#endif
  }
  static void EndSwitch([[maybe_unused]] void* shadow, [[maybe_unused]] const void** bottom,
                        [[maybe_unused]] std::size_t* size) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(shadow, bottom, size);
#endif
  }

  static constexpr std::size_t kStack = 256 * 1024;
  static inline Fiber* current_ = nullptr;
  EventQueue& event_queue_;
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
