// Messages of one run's nodes, and of people, to a server that has other runs as well: for any of
// them, nodes of the others get the same directives at the same time, and people who ask about
// those hear the same.
//
// Two servers with real drivers play one run of two honest nodes; to one of them others come, each
// with a run of his own making. The input is a list of steps: who speaks, whose call ends, what is
// asked, how much time goes by.
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "rendezvous/driver.h"
#include "tests/fuzz/generated_reports.h"
#include "tests/support/instant_loop.h"

namespace {

using namespace ddprun;

constexpr int kMostSteps = 300;
constexpr int kOtherRuns = 6;
constexpr Duration kLease{1'000};
constexpr Duration kBeat = kLease / 2;
constexpr const char* kRun = "run";
const RunSpec kShape{.min_nodes = 2, .max_nodes = 2, .max_restarts = 1'000};

struct Call final : PendingSync {
  void Answer(const SyncReply& with) override { reply = with; }
  void Refuse(const Error& error) override {
    CHECK(!error.message.empty());
    refused = true;
  }

  std::optional<SyncReply> reply;
  bool refused = false;
};

struct Server {
  InstantLoop loop;
  CoordinatorDriver driver{loop, {.term = {1}, .seed = 7, .base_lease = kLease}};
  RendezvousHandlers handlers = driver.Handlers();

  std::shared_ptr<Call> Ask(const NodeReport& report) {
    auto call = std::make_shared<Call>();
    handlers.sync(report, call);
    loop.RunPosted();
    return call;
  }
};

// One of the run that is looked at, with its open call.
struct Member {
  HonestNode node;
  std::shared_ptr<Call> call;

  explicit Member(const std::string& name) : node(name, kShape) { node.report.run_id = kRun; }
  void Speak(Server& server) {
    if (call && call->reply) {
      node.Hear(call->reply->directive, call->reply->term, call->reply->beat);
      call = nullptr;
    }
    CHECK(!call || !call->refused);
    call = call ? call : server.Ask(node.report);
  }
  void Fail(Server& server) {
    if (node.Fail()) {
      call = server.Ask(node.report);
    }
  }
};

std::string Words(const Server& server) {
  std::string text;
  for (const RunStatus& status : *server.handlers.status(kRun)) {
    text += status.phase + ": " + status.waits_for + "\n";
    for (const RunEvent& event : status.events) {
      text += event.text + "\n";
    }
  }
  return text;
}

class Play {
 public:
  explicit Play(FuzzInput input) : input_(input) {}

  void Run() {
    for (int i = 0; i < 4; ++i) {
      Beat();
    }
    CHECK(visited_.driver.StateOf(kRun)->phase == Phase::kRunning);
    for (int step = 0; step < kMostSteps && !input_.Rest().empty(); ++step) {
      TakeStep(input_.Byte());
      Compare();
    }
    for (int i = 0; i < 8; ++i) {  // Longer than a lease.
      Beat();
    }
    CHECK(visited_.driver.StateOf(kRun)->budget.used == alone_.driver.StateOf(kRun)->budget.used);
  }

 private:
  void TakeStep(std::uint8_t what) {
    switch (what % 8) {
      case 0:
      case 1:
      case 2:
      case 3:
        Lie();
        break;
      case 4:
        if (last_) {  // Its connection is closed.
          visited_.handlers.cancel(*last_);
        }
        break;
      case 5: {
        ControlRequest request{.run_id = what < 128 ? kRun : "", .verb = ControlVerb::kStop};
        request.node = "n0";
        request.token = SomeText(input_);
        CHECK(!visited_.handlers.control(request));
        break;
      }
      case 6:
        (void)visited_.handlers.status(what < 128 ? "" : OtherRun());
        break;
      default:
        if (what >= 224) {  // So that something is said of this run, too.
          members_[what / 8 % 2].Fail(alone_);
          same_[what / 8 % 2].Fail(visited_);
        }
        Beat();
        break;
    }
    visited_.loop.RunPosted();
  }

  void Lie() {
    NodeReport report;
    const RunId run = OtherRun();
    MakeUpNode(input_, kShape, report);
    const CoordinatorState* const state =
        visited_.driver.StateOf(input_.Byte() % 2 == 0 ? run : kRun);
    MakeUp(input_, state == nullptr ? CoordinatorState{} : *state, report);
    report.run_id = run;
    report.term =
        std::min(report.term, Term{1});  // A later one makes it begin a new term, for all runs.
    report.sequence = ++sequences_[{report.node, report.incarnation}];
    last_ = NameOf(report);
    const auto answered = visited_.Ask(report);
    CHECK(!answered->reply || !Describe(answered->reply->directive).empty());
  }

  void Beat() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      members_[i].Speak(alone_);
      same_[i].Speak(visited_);
    }
    Compare();
    now_ += kBeat;
    alone_.loop.GoTo(now_);
    visited_.loop.GoTo(now_);
    Compare();
    if (Words(alone_) != Words(visited_)) {
      std::fprintf(stderr, "%s--- and, where others came:\n%s", Words(alone_).c_str(),
                   Words(visited_).c_str());
      CHECK(false);
    }
  }

  void Compare() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const auto& [one, other] = std::pair{members_[i].call, same_[i].call};
      CHECK((one == nullptr) == (other == nullptr));
      CHECK(one == nullptr || one->reply.has_value() == other->reply.has_value());
      if (one && one->reply && !SameDirective(one->reply->directive, other->reply->directive)) {
        std::fprintf(stderr, "%s, and where others came: %s\n",
                     Describe(one->reply->directive).c_str(),
                     Describe(other->reply->directive).c_str());
        CHECK(false);
      }
    }
  }

  RunId OtherRun() { return "other" + std::to_string(input_.Byte() % kOtherRuns); }

  FuzzInput input_;
  Server alone_, visited_;
  std::array<Member, 2> members_{Member("n0"), Member("n1")};
  std::array<Member, 2> same_{Member("n0"), Member("n1")};
  Time now_ = alone_.loop.Now();
  std::map<NodeKey, std::uint64_t> sequences_;
  std::optional<CallName> last_;  // Of a liar's.
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool quiet = [] {
    StartLog("fuzz", LogLevel::kError);
    return true;
  }();
  CHECK(quiet);
  const std::size_t before = AllocatedBytes();
  Play(FuzzInput(data, size)).Run();
  CHECK(AllocatedBytes() <= before + (1 << 20));  // Nothing stays.
  return 0;
}
