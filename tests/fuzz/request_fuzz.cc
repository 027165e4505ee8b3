// Messages of nodes, operators and servers about operators' requests, true or not, in three plays;
// the input's first byte says which, the others are its steps.
//
//   server  an honest node's pieces reach their operator in their order, once each, and each is
//           made because the operator wanted it
//   node    an agent, whose server lies: no job is asked twice at once, none outlives its request
//   reader  an operator's verbs, given a node's bytes: lines are lines, and what is kept is bounded
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "agent/commands/commands.h"
#include "launcher/verbs/log_merge.h"
#include "launcher/verbs/seen_records.h"
#include "launcher/verbs/stack_groups.h"
#include "rendezvous/requests/operator_requests.h"
#include "rendezvous/testing/stream_testing.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/instant_loop.h"

namespace {

using namespace ddprun;

constexpr int kMostSteps = 400;
constexpr const char* kRun = "run";
constexpr const char* kNames[] = {"n0", "n1", "n2", "n3"};  // The first is honest.

// ---- A server ----
struct Node {
  std::shared_ptr<NodeLog> log = std::make_shared<NodeLog>();
  std::size_t read = 0;                         // Of its commands.
  std::map<std::uint64_t, std::uint64_t> made;  // Pieces, by request.
};

struct Operator {
  std::shared_ptr<OperatorLog> log = std::make_shared<OperatorLog>();
  std::size_t read = 0;
  std::uint64_t told = 0;    // Of the honest node's pieces.
  std::uint64_t wanted = 1;  // Of them.
};

std::string BytesOf(std::uint64_t request, std::uint64_t number) {
  return std::to_string(request) + "/" + std::to_string(number);
}

struct Server {
  InstantLoop loop;
  OperatorRequests requests{loop,
                            [](const Membership& name) { return name.incarnation.value < 3; }};
  std::map<NodeId, Node> nodes;
  std::map<int, Operator> operators;

  void Open(const NodeId& name, std::uint64_t incarnation) {
    Node& node = nodes[name] = {};
    requests.OnNode({kRun, name, {incarnation}}, StreamTo(node.log));
    CHECK(node.log->open == (incarnation < 3));
  }
  void Ask(Operator& asked, FuzzInput& input) {
    asked.log->Break();  // An earlier one leaves.
    asked = {};
    std::vector<NodeId> members;
    for (int i = 0; i <= input.Byte() % 4; ++i) {
      members.emplace_back(kNames[i]);
    }
    requests.OnOperator(kRun, {}, members, StreamTo(asked.log));
    CHECK(asked.log->open != asked.log->refused.has_value());
  }
  // Makes the piece of its next command.
  void BeHonest() {
    Node& node = nodes[kNames[0]];
    if (node.read == node.log->sent.size()) {
      return;
    }
    const NodeCommand command = node.log->sent[node.read++];
    CHECK(command.over ||
          (command.piece_bytes >= kLeastPieceBytes && command.piece_bytes <= kMaxPieceBytes));
    if (!command.over) {
      const std::uint64_t number = ++node.made[command.request];
      node.log->Say({command.request, BytesOf(command.request, number), number == 5});
    }
  }
  void Lie(FuzzInput& input) {
    const std::uint8_t what = input.Byte();
    nodes[kNames[1 + what % 3]].log->Say(
        {input.Byte() % 16u, std::string(what % 8 == 0 ? 5 * kMaxPieceBytes : what, 'x'),
         what % 5 == 0});
  }
  void Read(Operator& asked, FuzzInput& input) {
    for (; asked.read < asked.log->sent.size(); ++asked.read) {
      const auto& [members, name, piece] = asked.log->sent[asked.read];
      CHECK(piece.bytes.size() <= kMaxPieceBytes && piece.refusal.size() <= kMaxRefusal);
      CHECK(members.empty() == (asked.read > 0));
      if (name == kNames[0] && piece.refusal.empty()) {
        CHECK(piece.bytes == BytesOf(piece.request, ++asked.told) && asked.told <= asked.wanted);
      }
    }
    const NodeId name = kNames[input.Byte() % 4];
    asked.wanted += name == kNames[0] && asked.told == asked.wanted ? 1 : 0;
    asked.log->Say(name);
  }
  void Step(FuzzInput& input) {
    const std::uint8_t what = input.Byte();
    switch (what % 8) {
      case 0:
      case 1:
        return BeHonest();
      case 2:
        return Ask(operators[input.Byte() % 12], input);
      case 3:
        return Read(operators[input.Byte() % 12], input);
      case 4:
        return Lie(input);
      case 5:
        return loop.GoTo(loop.Now() + Duration(input.Byte() * 40));
      case 6: {
        const std::uint8_t who = input.Byte();
        return who % 2 == 0 ? operators[who % 12].log->Break()
                            : nodes[kNames[who % 4]].log->Break();
      }
      default:
        return what >= 248   ? requests.ForgetRun(kRun)
               : what >= 232 ? requests.Send(kRun, {}, {kNames[0], kNames[1]})
                             : Open(kNames[input.Byte() % 4], 1 + input.Byte() % 3);
    }
  }
  // Operators go; their requests are forgotten.
  void End() {
    for (auto& [which, one] : operators) {
      one.log->Break();
      CHECK(!one.log->open || !one.log->heard);
    }
    loop.GoTo(loop.Now() + OperatorRequests::kOfOwn);
    CHECK(!requests.asked());
    requests.Close();
  }
};

// ---- An agent ----
class LyingServer final : public SyncChannel {
 public:
  void Send(const NodeReport&, Duration, Done) override {}
  void Cancel() override {}
  std::unique_ptr<CommandStream> OpenCommands(const Membership&) override {
    log = std::make_shared<CommandLog>();
    return StreamTo(log);
  }
  std::shared_ptr<CommandLog> log = std::make_shared<CommandLog>();
};

struct Jobs {
  std::size_t alive = 0;
  std::vector<std::function<void(JobPiece)>*> waiting;
};

class CheckedJob final : public RequestJob {
 public:
  explicit CheckedJob(Jobs& jobs) : jobs_(jobs) { ++jobs_.alive; }
  ~CheckedJob() override {
    --jobs_.alive;
    std::erase(jobs_.waiting, &done_);
  }
  void Next(std::size_t most, std::function<void(JobPiece)> done) override {
    CHECK(!done_ && most >= kLeastPieceBytes && most <= kMaxPieceBytes);
    done_ = std::move(done);
    jobs_.waiting.push_back(&done_);
  }

 private:
  Jobs& jobs_;
  std::function<void(JobPiece)> done_;
};

void PlayNode(FuzzInput& input) {
  InstantLoop loop;
  LyingServer server;
  Jobs jobs;
  Commands commands(
      loop, server,
      [] {
        return Membership{kRun, kNames[0], {1}};
      },
      [&jobs](const RequestSpec&) { return std::make_unique<CheckedJob>(jobs); });
  commands.Start();
  bool finished = false;
  for (int step = 0; step < kMostSteps && !input.Rest().empty(); ++step) {
    const std::uint8_t what = input.Byte();
    if (what % 4 == 0) {
      loop.GoTo(loop.Now() + Duration(input.Byte() * 200));
    } else if (what % 4 == 1) {
      server.log->Say({.request = input.Byte() % 32u, .over = input.Byte() % 4 == 0});
      CHECK(jobs.alive <= Commands::kMostJobs);
    } else if (what % 4 == 2) {
      server.log->Break();
      CHECK(jobs.alive == 0);
    } else if (!jobs.waiting.empty()) {
      auto* const slot = jobs.waiting[what / 4 % jobs.waiting.size()];
      std::erase(jobs.waiting, slot);
      const auto done = std::exchange(*slot, nullptr);
      done({std::string(what, 'x'), what >= 224, what >= 240 ? std::string(1'000, 'r') : ""});
    }
    loop.RunPosted();
  }
  commands.Finish(Duration{2'000}, /*followed=*/false, [&] { finished = true; });
  loop.GoTo(loop.Now() + Duration{5'000});
  CHECK(finished && jobs.alive == 0);
}

// ---- An operator's verbs ----
void PlayReader(FuzzInput& input) {
  LogMerge merge(input.Byte() % 2 == 0);
  SeenRecords told;
  std::vector<StackText> stacks;
  Time now{};
  for (const std::string& piece : input.Pieces("~~")) {
    const NodeId node = kNames[piece.size() % 4];
    std::vector<AnswerRecord> records;
    const bool whole = static_cast<bool>(ReadRecords(piece, records));
    std::string again;
    for (const AnswerRecord& record : records) {
      AppendRecord(record, again);
      told.IsNew(node, record);
      stacks.push_back({record.rank, node, record.text});
    }
    std::vector<AnswerRecord> read;
    CHECK(ReadRecords(again, read) && read == records);
    CHECK(again.size() <= piece.size() + kRecordHead * records.size());
    merge.Expect(node);
    merge.Add(node, std::move(records), now);
    if (!whole) {
      merge.End(node);
    }
    if (piece.size() % 7 == 0) {
      merge.BeginAgain();
      told.BeginAgain();
    }
    now += Duration(static_cast<std::int64_t>(piece.size() % 512));
    for (const LogLine& line : merge.Take(now)) {
      CHECK(line.text.find('\n') == line.text.npos);
      CHECK(line.text.size() <= LogMerge::kMostOfLine + piece.size() + kMaxPieceBytes);
    }
    CHECK(merge.Used().size() <= std::size(kNames));
  }
  for (const char* const name : kNames) {
    merge.End(name);
  }
  while (!merge.Ended()) {
    CHECK(!merge.Take(now += LogMerge::kHeld).empty() || !merge.Used().empty() || merge.Ended());
  }
  std::size_t ranks = 0;
  for (const StackGroup& group : GroupStacks(stacks)) {
    ranks += group.ranks.size();
  }
  CHECK(ranks == stacks.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  switch (input.Byte() % 3) {
    case 0: {
      Server server;
      for (int step = 0; step < kMostSteps && !input.Rest().empty(); ++step) {
        server.Step(input);
        server.loop.RunPosted();
      }
      server.End();
      return 0;
    }
    case 1:
      PlayNode(input);
      return 0;
    default:
      PlayReader(input);
      return 0;
  }
}
