// What nodes, operators and servers say of errands to each other, whatever they are, in three
// plays; the input's first byte says which, the others are its steps.
//
//   board   a server: an honest node's pieces reach their operator in their order, once each, and
//           whoever asked is answered or refused; nobody keeps more than he may
//   road    an agent, whose server lies: no job is asked twice at once, none outlives its errand
//   reader  an operator's verbs, given a node's bytes: lines are lines, and what is kept is bounded
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "agent/road/road.h"
#include "launcher/verbs/log_merge.h"
#include "launcher/verbs/stack_groups.h"
#include "launcher/verbs/told_records.h"
#include "rendezvous/road/errand_road.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/instant_loop.h"

namespace {

using namespace ddprun;

constexpr int kMostSteps = 400;
constexpr const char* kRun = "run";
constexpr const char* kNames[] = {"n0", "n1", "n2", "n3"};  // The first is honest.

// ---- A server ----
template <class Reply>
struct Answers {
  std::optional<Reply> reply;
  bool refused = false;
  bool open = true;
};

template <class Reply>
class FuzzCall final : public PendingCall<Reply> {
 public:
  explicit FuzzCall(std::shared_ptr<Answers<Reply>> answers)
      : PendingCall<Reply>(answers), answers_(std::move(answers)) {}
  ~FuzzCall() override { answers_->open = false; }
  void Answer(const Reply& reply) override {
    CHECK(!answers_->reply && !answers_->refused);
    answers_->reply = reply;
  }
  void Refuse(const Error& error) override {
    CHECK(!answers_->reply && !error.message.empty());
    answers_->refused = true;
  }

 private:
  const std::shared_ptr<Answers<Reply>> answers_;
};

// Sends the pieces of each errand that it has, one after the other, as the table says.
struct HonestRoad {
  std::uint64_t edition = 0;
  std::map<std::uint64_t, Errand> errands;
  std::shared_ptr<Answers<RoadReply>> call;

  static std::string PieceOf(std::uint64_t errand, std::uint64_t number) {
    return std::to_string(errand) + "/" + std::to_string(number);
  }
  void Speak(ErrandRoad& server) {
    if (call && call->reply) {
      edition = call->reply->edition;
      errands.clear();
      for (const Errand& errand : call->reply->errands) {
        CHECK(errand.piece_bytes >= kLeastPieceBytes && errand.piece_bytes <= kMaxPieceBytes);
        errands.emplace(errand.id, errand);
      }
      CHECK(errands.size() <= kMostAsks);
      call = nullptr;
    }
    if (call && call->open) {
      return;
    }
    RoadCall next{kRun, kNames[0], {1}, edition, {}};
    if (!errands.empty()) {
      const Errand& errand = errands.begin()->second;
      next.piece = ErrandPiece{errand.id, errand.taken + 1, PieceOf(errand.id, errand.taken + 1),
                               errand.taken == 4};
      errands.erase(errands.begin());
    }
    call = std::make_shared<Answers<RoadReply>>();
    server.OnRoad(next, std::make_shared<FuzzCall<RoadReply>>(call));
  }
};

struct Operator {
  std::uint64_t ask = 0;
  std::uint64_t call_number = 0;
  std::vector<TakenPiece> taken;
  std::shared_ptr<Answers<AskReply>> call;
  std::set<NodeId> asked;
  std::uint64_t told = 0;  // Of the honest node's pieces.
  bool over = false;

  void Hear(const AskReply& reply) {
    asked.insert(reply.asked.begin(), reply.asked.end());
    std::size_t bytes = 0;
    for (const AnsweredPiece& answered : reply.pieces) {
      CHECK(asked.contains(answered.node));
      const ErrandPiece& piece = answered.piece;
      bytes += piece.bytes.size();
      CHECK(piece.bytes.size() <= kMaxPieceBytes && piece.refusal.size() <= kMaxRefusal);
      taken.push_back({answered.node, piece.number});
      if (answered.node != kNames[0] || !piece.refusal.empty()) {
        continue;
      }
      CHECK(piece.number == told + 1);
      CHECK(piece.bytes == HonestRoad::PieceOf(piece.errand, piece.number));
      told = piece.number;
    }
    CHECK(bytes <= kMostReplyBytes + kMaxPieceBytes);
  }
  void Speak(ErrandRoad& server, FuzzInput& input) {
    if (call && (call->reply || !call->open)) {
      over = over || !call->reply;
      if (call->reply) {
        Hear(*call->reply);
      }
      call = nullptr;
    }
    if (call || over) {
      return;
    }
    Asking asking{kRun, ask, ++call_number,    "",
                  {},   {},  std::move(taken), Duration(input.Byte() * 8)};
    taken.clear();
    std::vector<NodeId> members;
    for (int i = 0; i <= input.Byte() % 4; ++i) {
      members.emplace_back(kNames[i]);
    }
    call = std::make_shared<Answers<AskReply>>();
    server.OnAsk(asking, members, std::make_shared<FuzzCall<AskReply>>(call));
  }
};

struct Board {
  InstantLoop loop;
  std::set<std::pair<NodeId, std::uint64_t>> members{
      {kNames[0], 1}, {kNames[1], 1}, {kNames[1], 2}, {kNames[2], 1}};
  ErrandRoad road{loop, 100, [this](const RoadName& name) {
                    return members.contains({name.node, name.incarnation.value});
                  }};
  HonestRoad honest;
  std::map<int, Operator> operators;
  std::vector<std::shared_ptr<Answers<RoadReply>>> liars;
  std::uint64_t asks = 0;

  void Lie(FuzzInput& input) {
    RoadCall call{
        kRun, kNames[1 + input.Byte() % 3], {1u + input.Byte() % 2}, input.Byte() % 4u, {}};
    if (const std::uint8_t what = input.Byte(); what % 2 == 0) {
      call.piece =
          ErrandPiece{100u + input.Byte() % 16, input.Byte() % 4u,
                      std::string(what % 8 == 0 ? kMaxPieceBytes : what, 'x'), what % 5 == 0};
    }
    liars.push_back(std::make_shared<Answers<RoadReply>>());
    road.OnRoad(call, std::make_shared<FuzzCall<RoadReply>>(liars.back()));
    if (liars.size() > 8) {
      liars.erase(liars.begin());
    }
  }
  Operator& OperatorOf(std::uint8_t which) {
    Operator& found = operators[which % 12];
    found.ask = found.ask == 0 ? ++asks : found.ask;
    return found;
  }
  void Step(FuzzInput& input) {
    const std::uint8_t what = input.Byte();
    switch (what % 8) {
      case 0:
      case 1:
        return honest.Speak(road);
      case 2:
      case 3:
        return OperatorOf(input.Byte()).Speak(road, input);
      case 4:
        return Lie(input);
      case 5:
        return loop.GoTo(loop.Now() + Duration(input.Byte() * 40));
      case 6: {  // An operator leaves, and another one comes in his place.
        Operator& left = OperatorOf(input.Byte());
        if (left.call) {
          road.OnGone(left.call.get());
        }
        left = {};
        return;
      }
      default:
        if (what >= 248) {
          return road.ForgetRun(kRun);
        }
        if (!liars.empty()) {
          road.OnGone(liars[input.Byte() % liars.size()].get());
        }
    }
  }
  // Everybody goes; what was asked is forgotten.
  void End() {
    for (auto& [which, one] : operators) {
      if (one.call) {
        road.OnGone(one.call.get());
        CHECK(!one.call->open);
      }
    }
    loop.GoTo(loop.Now() + 2 * ErrandBoard::kCallerGone);
    CHECK(!road.asked());
    road.Close();
    CHECK(!honest.call || !honest.call->open);
  }
};

// ---- An agent ----
class LyingServer final : public SyncChannel {
 public:
  void Send(const NodeReport&, Duration, Done) override {}
  void Cancel() override {}
  void SendRoad(const RoadCall& call, RoadHeard heard) override {
    CHECK(!call.piece || (call.piece->number > 0 && call.piece->bytes.size() <= most));
    last = call;
    heard_ = std::move(heard);
  }
  void Answer(Result<RoadReply> reply) {
    if (heard_) {
      std::exchange(heard_, nullptr)(std::move(reply));
    }
  }
  std::optional<RoadCall> last;
  std::size_t most = kMaxPieceBytes;

 private:
  RoadHeard heard_;
};

struct Jobs {
  std::size_t alive = 0;
  std::vector<std::function<void(JobPiece)>*> waiting;
};

class CheckedJob final : public ErrandJob {
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

void PlayRoad(FuzzInput& input) {
  InstantLoop loop;
  LyingServer server;
  Jobs jobs;
  Road road(
      loop, server,
      [] {
        return RoadName{kRun, kNames[0], {1}};
      },
      [&jobs](const ErrandWish&) { return std::make_unique<CheckedJob>(jobs); });
  road.Start();
  bool finished = false;
  for (int step = 0; step < kMostSteps && !input.Rest().empty(); ++step) {
    const std::uint8_t what = input.Byte();
    if (what % 4 == 0) {
      loop.GoTo(loop.Now() + Duration(input.Byte() * 200));
    } else if (what % 4 == 1) {
      RoadReply reply{input.Byte() % 4u, {}};
      for (int i = 0; i < input.Byte() % 9; ++i) {
        reply.errands.push_back({input.Byte() % 16u,
                                 {},
                                 static_cast<std::uint32_t>(kLeastPieceBytes),
                                 input.Byte() % 8 == 0 ? kMaxCount : input.Byte() % 4u});
      }
      server.Answer(reply);
      CHECK(jobs.alive <= kMostAsks);
    } else if (what % 4 == 2) {
      server.Answer(Error{ErrorKind::kUnavailable, "gone"});
    } else if (!jobs.waiting.empty()) {
      auto* const slot = jobs.waiting[what / 4 % jobs.waiting.size()];
      std::erase(jobs.waiting, slot);
      const auto done = std::exchange(*slot, nullptr);
      done({std::string(what, 'x'), what >= 224, what >= 240 ? std::string(1'000, 'r') : ""});
    }
    loop.RunPosted();
  }
  road.Finish(Duration{2'000}, [&] { finished = true; });
  loop.GoTo(loop.Now() + Duration{5'000});
  CHECK(finished && jobs.alive == 0);
}

// ---- An operator's verbs ----
void PlayReader(FuzzInput& input) {
  LogMerge merge(input.Byte() % 2 == 0);
  ToldRecords told;
  std::vector<StackText> stacks;
  Time now{};
  std::uint64_t number = 0;
  for (const std::string& piece : input.Pieces("~~")) {
    const NodeId node = kNames[piece.size() % 4];
    std::vector<ErrandRecord> records;
    const bool whole = static_cast<bool>(ReadRecords(piece, records));
    std::string again;
    for (const ErrandRecord& record : records) {
      AppendRecord(record, again);
      told.IsNew(node, record);
      stacks.push_back({record.rank, node, record.text});
    }
    std::vector<ErrandRecord> read;
    CHECK(ReadRecords(again, read) && read == records);
    CHECK(again.size() <= piece.size() + kRecordHead * records.size());
    merge.Expect(node);
    merge.Add(node, ++number, std::move(records), now);
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
      Board board;
      for (int step = 0; step < kMostSteps && !input.Rest().empty(); ++step) {
        board.Step(input);
        board.loop.RunPosted();
      }
      board.End();
      return 0;
    }
    case 1:
      PlayRoad(input);
      return 0;
    default:
      PlayReader(input);
      return 0;
  }
}
