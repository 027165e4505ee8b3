#include "tests/sim/fiber.h"

#include <boost/context/pooled_fixedsize_stack.hpp>
#include <utility>

#include "common/check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace ddprun::sim {
namespace {

constexpr std::size_t kStack = 256 * 1024;

void BeginSwitch([[maybe_unused]] void** shadow, [[maybe_unused]] const void* bottom,
                 [[maybe_unused]] std::size_t size) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(shadow, bottom, size);
#endif
}

void EndSwitch([[maybe_unused]] void* shadow, [[maybe_unused]] const void** bottom,
               [[maybe_unused]] std::size_t* size) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(shadow, bottom, size);
#endif
}

}  // namespace

Fiber* Fiber::current_ = nullptr;

Fiber::Fiber(Agenda& agenda, std::function<void()> body) : agenda_(agenda), body_(std::move(body)) {
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

Fiber::~Fiber() {
  *alive_ = false;
  abandoned_ = true;
  if (!done_) {
    GoOn();
  }
  CHECK(done_);
}

// As far as its next sleep, or its end.
void Fiber::GoOn() {
  void* shadow = nullptr;
  Fiber* const outer = std::exchange(current_, this);
  BeginSwitch(&shadow, stack_, kStack);
  own_ = std::move(own_).resume();
  EndSwitch(shadow, nullptr, nullptr);
  current_ = outer;
}

void Fiber::Sleep(Duration duration) {
  CHECK(current_ != nullptr);
  Fiber& self = *current_;
  if (!self.abandoned_) {
    self.agenda_.After(duration, [&self, alive = self.alive_] {
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

}  // namespace ddprun::sim
