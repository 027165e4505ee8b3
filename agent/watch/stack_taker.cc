#include "agent/watch/stack_taker.h"

#include <signal.h>

#include <atomic>
#include <string_view>
#include <utility>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr std::size_t kAtOnce = 8;

// On a thread, which stays for as long as the child, which would die with it (PDEATHSIG). Of one
// with a file what it said, as an exit code, which a sweep may have taken already; -1: it was not
// started.
int RunToEnd(const WorkerSpec& spec, bool live, ChildRun& child,
             const std::shared_ptr<UniqueFd>& output) {
  constexpr std::size_t kMostSaid = 1024;
  std::string said;
  // One that holds a worker which is to continue is asked to let it go; others are killed.
  const auto ended = child.Run(spec, {.out = output ? output->get() : -1,
                                      .signal = live ? SIGTERM : SIGKILL,
                                      .output = [&](int, std::string_view bytes) {
                                        return said.append(bytes).size() <= kMostSaid;
                                      }});
  if (!ended) {
    Log(LogLevel::kWarning, ended.error().message);
    return -1;
  }
  std::string_view told = said;
  const bool unknown = told.ends_with(kFramesUnknownText);
  told.remove_suffix(unknown ? std::string_view(kFramesUnknownText).size() : 0);
  if (!told.empty()) {
    Log(LogLevel::kWarning, "cannot keep the stacks: " + Printable(std::string(told)));
  }
  return unknown ? kFramesUnknown : 0;
}

}  // namespace

StackTaker::StackTaker(Loop& loop, std::string program)
    : loop_(loop), program_(std::move(program)) {}

StackTaker::~StackTaker() {
  Forget();
}

void StackTaker::Take(std::vector<StackJob> jobs, Duration limit, Done done) {
  Forget();
  jobs_ = std::move(jobs);
  codes_.assign(jobs_.size(), -1);
  limit_ = limit;
  done_ = std::move(done);
  loop_.Post(round_.Guard([this] { Next(); }));
}

void StackTaker::Forget() {
  round_.Renew();
  jobs_.clear();
  for (const auto& child : children_) {
    child->GiveUp();
  }
  children_.clear();
  running_ = 0;
  started_ = 0;
  done_ = nullptr;
}

void StackTaker::Next() {
  while (running_ < kAtOnce && started_ < jobs_.size()) {
    ++running_;
    Run(started_++);
  }
  if (running_ == 0 && started_ == jobs_.size() && done_) {
    std::exchange(done_, nullptr)(codes_);
  }
}

void StackTaker::Run(std::size_t at) {
  const StackJob& job = jobs_[at];
  const auto code = std::make_shared<std::atomic<int>>(-1);
  const auto child = std::make_shared<ChildRun>();
  children_.push_back(child);
  loop_.RunBounded(  // It keeps its limit itself, and then has something to write.
      2 * limit_,
      [child, code, spec = SpecOf(job), live = job.live, output = job.output] {
        *code = RunToEnd(spec, live, *child, output);
      },
      round_.Guard([this, code, at](bool) {
        codes_[at] = *code;
        --running_;
        Next();
      }));
}

WorkerSpec StackTaker::SpecOf(const StackJob& job) const {
  WorkerSpec spec;
  spec.command.file = program_;
  spec.command.argv = {"ddprun",  "stacks",
                       "--limit", std::to_string(static_cast<double>(limit_.count()) / 1000),
                       "--title", job.title};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) {
      spec.command.argv.insert(spec.command.argv.end(), {option, value});
    }
  };
  add("--into", job.file.native());
  add("--notify", job.notify);
  add("--recorder", job.recorder.native());
  add("--also", job.also.native());
  if (job.live) {
    spec.command.argv.push_back("--live");
  }
  spec.command.argv.push_back(std::to_string(job.pid));
  spec.environment = ProcessEnvironment();
  return spec;
}

}  // namespace ddprun
