#include "tests/sim/fiber.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "common/check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace ddprun::sim {
namespace {

constexpr std::size_t kStack = 256 * 1024;

// Stacks are used again: to get one from the system each time costs more than what runs on it.
std::vector<std::unique_ptr<char[]>>& FreeStacks() {
  static std::vector<std::unique_ptr<char[]>> free;
  return free;
}

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
  if (FreeStacks().empty()) {
    stack_.reset(new char[kStack]);
  } else {
    stack_ = std::move(FreeStacks().back());
    FreeStacks().pop_back();
  }
  CHECK(::getcontext(&own_) == 0);
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = kStack;
  own_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);  // makecontext passes ints.
  ::makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
  Resume();
}

Fiber::~Fiber() {
  *alive_ = false;
  abandoned_ = true;
  if (!done_) {
    Resume();
  }
  CHECK(done_);
}

void Fiber::Enter(unsigned low, unsigned high) {
  auto* const self = reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | std::uintptr_t{low});
  EndSwitch(nullptr, &self->caller_stack_, &self->caller_size_);
  try {
    self->body_();
  } catch (const Gone&) {
  }
  self->done_ = true;
  BeginSwitch(nullptr, self->caller_stack_, self->caller_size_);
  ::setcontext(&self->caller_);
}

void Fiber::Resume() {
  void* shadow = nullptr;
  Fiber* const outer = std::exchange(current_, this);
  BeginSwitch(&shadow, stack_.get(), kStack);
  CHECK(::swapcontext(&caller_, &own_) == 0);
  EndSwitch(shadow, nullptr, nullptr);
  current_ = outer;
  if (done_) {
    FreeStacks().push_back(std::move(stack_));
  }
}

void Fiber::Suspend() {
  BeginSwitch(&shadow_, caller_stack_, caller_size_);
  CHECK(::swapcontext(&own_, &caller_) == 0);
  EndSwitch(shadow_, &caller_stack_, &caller_size_);
}

void Fiber::Sleep(Duration duration) {
  CHECK(current_ != nullptr);
  Fiber& self = *current_;
  if (!self.abandoned_) {
    self.agenda_.After(duration, [&self, alive = self.alive_] {
      if (*alive) {
        self.Resume();
      }
    });
    self.Suspend();
  }
  if (self.abandoned_) {
    throw Gone{};
  }
}

}  // namespace ddprun::sim
