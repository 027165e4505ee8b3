#include "agent/workers/strays.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "agent/workers/process_tree.h"
#include "common/log.h"
#include "common/text.h"

namespace ddprun {
namespace {

// For a process that changed parents, or was in execve, while we looked.
constexpr Duration kLookAgain{20};
constexpr Duration kEndsSoon{250};

std::string NameOf(pid_t pid) {
  std::string name = ReadProcFile(pid, "comm");
  name.erase(name.find_last_not_of('\n') + 1);
  return Printable(name);
}

// By what it inherited from its worker.
std::optional<std::uint32_t> LocalRankOf(pid_t pid) {
  return ParseNumber<std::uint32_t>(VariableOf(pid, "LOCAL_RANK"));
}

}  // namespace

Strays::Strays(AsioLoop& loop, Duration linger, Events events)
    : loop_(loop),
      linger_(linger),
      events_(std::move(events)),
      child_signal_(loop.io(), SIGCHLD),
      look_again_(loop) {
  Watch();
}

void Strays::Watch() {
  child_signal_.async_wait(life_.Guard([this](boost::system::error_code error, int) {
    if (!error) {
      Watch();
      LookSoon();
    }
  }));
}

Strays::~Strays() {
  if (active_) {
    SweepChildren({}, Reach::kWhatWorkersLeave);
  }
}

void Strays::Begin(std::map<pid_t, std::uint32_t> workers) {
  workers_ = std::move(workers);
  running_.clear();
  for (const auto& [pid, local_rank] : workers_) {
    running_.insert(pid);
  }
  ended_.clear();
  asked_.clear();
  noted_.clear();
  killed_ = failed_ = false;
  active_ = true;
  if (missed_) {
    LookSoon();
  }
}

void Strays::Ended(pid_t worker, bool succeeded) {
  failed_ |= !succeeded;
  running_.erase(worker);
  ended_.insert(worker);
  soon_ = loop_.Now() + kEndsSoon;
  if (running_.empty()) {
    linger_until_ = loop_.Now() + (killed_ ? Duration{0} : linger_);
  }
  LookSoon();
}

void Strays::WillAsk(pid_t pid, int signal) {
  if (!killed_ && Catches(pid, signal) == true) {
    asked_.insert(pid);
  }
}

std::set<pid_t> Strays::AskedSessions() const {
  std::set<pid_t> sessions;
  if (!asked_.empty()) {
    for (const pid_t pid : ChildrenOf(::getpid())) {
      const pid_t session = ::getsid(pid);
      if (asked_.contains(pid) && workers_.contains(session)) {
        sessions.insert(session);
      }
    }
  }
  return sessions;
}

void Strays::Signal(int signal) {
  if (active_ && running_.empty() && !failed_) {
    for (const pid_t pid : ReapChildren({}, Reach::kWhatWorkersLeave)) {
      if (!TidiesUp(pid) && !asked_.contains(pid)) {
        ::kill(pid, signal);
      }
    }
  }
}

void Strays::KillAll() {
  linger_until_ = loop_.Now();
  if (active_) {
    SweepChildren(running_, Reach::kWhatWorkersLeave, [this](pid_t pid) {
      if (asked_.contains(pid)) {  // It has outlived its worker, and its time is over.
        Note(pid, false);
      }
    });
    LookAgain();
  }
  killed_ = true;
  asked_.clear();
}

// Once for all that end in one iteration of the loop: each look reads the list of all children.
void Strays::LookSoon() {
  if (std::exchange(look_is_due_, true)) {
    return;
  }
  loop_.Post(life_.Guard([this] {
    look_is_due_ = false;
    Look();
  }));
}

void Strays::LookAgain() {
  look_again_.ArmAt(loop_.Now() + kLookAgain, [this] { Look(); });
}

// Orphans that ended are reaped at any time; those that live are killed when nothing may live.
void Strays::Look() {
  if (!active_) {
    missed_ = true;
    return;
  }
  const BeforeSignal note = [this](pid_t pid) { Note(pid, false); };
  std::set<pid_t> spared = running_;
  spared.insert(asked_.begin(), asked_.end());
  if (!running_.empty() && !killed_) {
    ReapChildren(running_, Reach::kWhatWorkersLeave);
    const bool wait = !failed_ && loop_.Now() < soon_;
    if (linger_ > Duration{0} || ended_.empty() ||
        SignalMembers(Within::kSession, ended_, DescendantsOf(::getpid(), spared),
                      {wait ? 0 : SIGKILL}, wait ? nullptr : note) == 0) {
      ended_.clear();
      return;
    }
  } else if (running_.empty() && !failed_ && !killed_ && linger_ == Duration{0} && EndsSoon()) {
    // Nothing is killed yet.
  } else if (running_.empty() && loop_.Now() < linger_until_ && Lingers()) {
    Tell(true);
  } else if (NothingIsLeft(Reach::kWhatWorkersLeave, note, spared) && running_.empty()) {
    // Each process that lives now was asked, or is below one: no dying shell lies between.
    if (Lingers()) {
      Tell(true);
    } else if (NothingIsLeft(Reach::kWhatWorkersLeave, note) && !EndsSoon()) {
      Tell(false);
      active_ = false;
      look_again_.Cancel();
      events_.none_left();
      return;
    }
  }
  Tell(false);
  LookAgain();
}

// Whether processes live that may: those that were asked, and for a while all but what tidies up.
bool Strays::Lingers() {
  bool any = false;
  const bool all = loop_.Now() < linger_until_;
  for (const pid_t pid : ReapChildren({}, Reach::kWhatWorkersLeave)) {
    if (asked_.contains(pid) || (all && !TidiesUp(pid))) {
      any = true;
      Note(pid, true);
    }
  }
  return any;
}

// After a failure the next start waits for what tidies up alone: it may use the same names in
// shared memory.
bool Strays::EndsSoon() const {
  const auto may = [this](Purpose purpose) {
    return failed_ || killed_ ? purpose == Purpose::kTidySoon : purpose != Purpose::kTidyLater;
  };
  return loop_.Now() < soon_ &&
         std::ranges::any_of(ReapChildren({}, Reach::kWhatWorkersLeave), may, PurposeOf);
}

// A process that is killed together with its worker was not left behind.
void Strays::Note(pid_t pid, bool lingers) {
  if (killed_ || !noted_.emplace(pid, lingers).second) {
    return;
  }
  const auto worker = workers_.find(::getsid(pid));
  names_[worker != workers_.end() ? worker->second : LocalRankOf(pid)].push_back(NameOf(pid));
}

void Strays::Tell(bool lingers) {
  for (const auto& [local_rank, names] : std::exchange(names_, {})) {
    events_.left({local_rank, names, lingers});
  }
}

}  // namespace ddprun
