#include "trainer/profiler/recorder.h"

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kPatience{100};

std::int64_t NowNanoseconds() {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

thread_local std::int64_t allocated = 0;

struct AllocationWatch : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    allocated += size;
  }
  bool memoryProfilingEnabled() const override { return true; }
};

// Where the callbacks, which carry no pointer of ours, put what they see. Never destroyed: an
// all-reduce may end after the recorder.
struct Sink {
  std::mutex mutex;
  std::condition_variable ended;
  std::int64_t open = 0;  // Begun and not ended.
  std::vector<ProfiledEvent> events;
};

Sink& TheSink() {
  static Sink* const sink = new Sink;
  return *sink;
}

struct Begun : at::ObserverContext {
  std::int64_t begin = 0;
  std::int64_t allocated_before = 0;
  std::uint64_t thread = 0;
};

std::unique_ptr<at::ObserverContext> OnBegin(const at::RecordFunction&) {
  auto begun = std::make_unique<Begun>();
  {
    Sink& sink = TheSink();
    const std::lock_guard lock(sink.mutex);
    ++sink.open;
  }
  begun->thread = at::RecordFunction::currentThreadId();
  begun->allocated_before = allocated;
  begun->begin = NowNanoseconds();
  return begun;
}

void OnEnd(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* const begun = static_cast<const Begun*>(context);
  if (begun == nullptr) {
    return;
  }
  ProfiledEvent event;
  event.end = NowNanoseconds();
  event.begin = begun->begin;
  event.name = function.name();
  event.thread = begun->thread;
  if (function.isAsync()) {
    event.kind = EventKind::kAsync;
  } else {
    event.kind =
        function.scope() == at::RecordScope::USER_SCOPE ? EventKind::kRange : EventKind::kOperator;
    event.bytes = allocated - begun->allocated_before;
  }
  Sink& sink = TheSink();
  const std::lock_guard lock(sink.mutex);
  sink.events.push_back(std::move(event));
  if (--sink.open == 0) {
    sink.ended.notify_all();
  }
}

}  // namespace

struct OperatorRecorder::Impl {
  c10::DebugInfoGuard allocations{c10::DebugInfoKind::PROFILER_STATE,
                                  std::make_shared<AllocationWatch>()};
  at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(&OnBegin, &OnEnd)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
  ~Impl() { at::removeCallback(handle); }
};

OperatorRecorder::OperatorRecorder() : impl_(std::make_unique<Impl>()) {}

OperatorRecorder::~OperatorRecorder() {
  impl_.reset();
  Take();
}

std::vector<ProfiledEvent> OperatorRecorder::Take() {
  Sink& sink = TheSink();
  std::unique_lock lock(sink.mutex);
  sink.ended.wait_for(lock, kPatience, [&] { return sink.open == 0; });
  return std::exchange(sink.events, {});
}

struct NamedRange::Impl {
  explicit Impl(at::StepCallbacks&& callbacks) : function(std::move(callbacks)) {}
  at::RecordFunction function;
};

NamedRange::NamedRange(const char* name) {
  if (auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE)) {
    impl_ = std::make_unique<Impl>(*std::move(callbacks));
    impl_->function.before(name);
  }
}

NamedRange::~NamedRange() = default;

}  // namespace ddprun
