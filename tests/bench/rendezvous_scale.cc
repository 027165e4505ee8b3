// How a rendezvous server does with very many nodes: real agent cores in this process, each with a
// connection of its own, the real `ddprun rendezvous` as another.
//
//   rendezvous_scale DDPRUN [--agents=1000] [--rounds=5] [--idle=SECONDS] [--token] [--light]
//                    [--at-once=N]
//
// cold     no node is connected -> every node has its directive to run
// warm     all but one wait; that one's first report -> the last node has its directive to run
// idle     the server's share of a core while all nodes run and nothing happens
// memory   the server's growth per node, in resident pages
//
// --token: with one, so every connection is TLS and its server proves the token in its certificate.
// --light: nodes that cost their machine little (light_channel.h) instead of real gRPC clients, ten
// thousand of which take more of two cores than their server does.
// --at-once: so many at a time are on their way to a first answer, and each as quick as if it had a
// machine of its own; else this one process makes them all wait for each other.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "agent/core/node_agent.h"
#include "common/asio_loop.h"
#include "common/overload.h"
#include "rendezvous/client.h"
#include "tests/bench/light_channel.h"
#include "tests/bench/server_process.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;

constexpr int kIdleWindows = 3;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// ---- The nodes ----
// Counts the directives of one round's nodes.
struct Round {
  std::size_t waiting = 0;
  std::size_t running = 0;
  std::size_t over = 0;
  std::map<std::string, std::uint64_t> failures;  // Calls without an answer: how many, by why.
  std::function<void()> progress;
};

// A node as the agent's driver runs it, but for processes: its workers are said to have started.
class ScaleNode {
 public:
  ScaleNode(AsioLoop& loop, std::unique_ptr<SyncChannel> channel, std::size_t number)
      : loop_(loop), channel_(std::move(channel)), timer_(loop) {
    config_.node = "host-" + std::to_string(number);
    config_.host = config_.node;
    config_.server = "the server";
  }

  // A new membership in a new run, over the connection there is.
  void Join(const RunId& run_id, std::uint32_t nodes, Round& round) {
    channel_->Cancel();
    round_ = &round;
    waits_ = false;
    config_.run_id = run_id;
    config_.spec = {.min_nodes = nodes, .max_nodes = nodes};
    state_ = AgentState{};
    static std::mt19937_64 random(1);
    Feed(Started{{random() | 1}, {"127.0.0.1", 1}});
  }

  // Its worker ends well.
  void Succeed() {
    const Generation generation = state_.placement->generation;
    Feed(WorkerEnded{generation, 0, 1, Exited{0}, false, ""});
    Feed(AllGone{generation, {"127.0.0.1", 1}});
  }

 private:
  void Feed(const AgentEvent& event) {
    for (const AgentEffect& effect : Step(state_, config_, event, loop_.Now())) {
      CarryOut(effect);
    }
    timer_.ArmAt(NextWake(state_, config_), [this] { Feed(AgentTick{}); });
  }

  void CarryOut(const AgentEffect& effect) {
    std::visit(Overload{
                   [&](const SendReport& send) {
                     channel_->Send(send.report, send.deadline,
                                    [this](std::uint64_t sequence, Result<SyncReply> reply) {
                                      OnReply(sequence, reply);
                                    });
                   },
                   [&](const Spawn&) {
                     ++round_->running;
                     round_->progress();
                   },
                   [&](const Exit&) {
                     ++round_->over;
                     round_->progress();
                   },
                   [](const auto&) {},
               },
               effect);
  }

  void OnReply(std::uint64_t sequence, const Result<SyncReply>& reply) {
    if (!reply) {
      ++round_->failures[reply.error().message];
      Feed(CallFailed{sequence, reply.error().message});
      return;
    }
    if (!waits_ && std::holds_alternative<Wait>(reply->directive)) {
      waits_ = true;
      ++round_->waiting;
      round_->progress();
    }
    Feed(Replied{sequence, *reply, {sequence}});
  }

  AsioLoop& loop_;
  AgentConfig config_;
  AgentState state_;
  std::unique_ptr<SyncChannel> channel_;
  LoopTimer timer_;
  Round* round_ = nullptr;
  bool waits_ = false;
};

struct Options {
  std::string ddprun;
  std::size_t agents = 1000;
  int rounds = 5;
  int idle = 0;  // Seconds; 0: whole poll periods, at least 10 s.
  std::string token;
  bool light = false;
  std::size_t at_once = SIZE_MAX;
};

struct Figures {
  std::vector<double> cold, warm;  // Milliseconds.
  double cold_cpu = 0;             // The server's, milliseconds.
  std::size_t dialled = 0;         // Connections, of light nodes.
  std::vector<double> idle_percent;
  double kilobytes = 0;
  std::map<std::string, std::uint64_t> failures;  // As a round's, with the round's name.
};

void PrintFailures(const Figures& figures) {
  for (const auto& [why, count] : figures.failures) {
    std::printf("%llu calls without an answer in round %s\n",
                static_cast<unsigned long long>(count), why.c_str());
  }
  std::fflush(stdout);
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), server_(options.ddprun, options.token) {
    empty_ = server_.ResidentKilobytes();
  }

  Figures Run() {
    nodes_.reserve(options_.agents);
    for (std::size_t i = 0; i < options_.agents; ++i) {
      nodes_.push_back(std::make_unique<ScaleNode>(loop_, NewChannel(), i));
    }
    ColdRound();
    figures_.kilobytes =
        (server_.ResidentKilobytes() - empty_) / static_cast<double>(options_.agents);
    Idle();
    EndRound();
    for (int i = 0; i < options_.rounds; ++i) {
      WarmRound(i);
      EndRound();
    }
    KeepFailures();
    return figures_;
  }

 private:
  std::unique_ptr<SyncChannel> NewChannel() {
    if (options_.light) {
      return std::make_unique<LightChannel>(loop_, server_.endpoint(), options_.token);
    }
    return GrpcChannelTo(loop_, server_.endpoint(), Access{options_.token, {}});
  }

  // Runs the loop until `done`, which is looked at whenever a node has got somewhere.
  void RunUntil(const char* what, const std::function<bool()>& done) {
    round_.progress = [&] {
      if (done()) {
        loop_.Stop();
      }
    };
    LoopTimer limit(loop_);
    limit.ArmAt(loop_.Now() + 120'000ms, [&] {
      KeepFailures();
      PrintFailures(figures_);
      Fail(std::string(what) + ": not within 120 s: " + std::to_string(round_.waiting) +
           " have waited, " + std::to_string(round_.running) + " run, " +
           std::to_string(round_.over) + " are over");
    });
    if (!done()) {
      RunLoop();
    }
    round_.progress = [] {};
  }

  void RunFor(Duration time) {
    LoopTimer end(loop_);
    end.ArmAt(loop_.Now() + time, [&] { loop_.Stop(); });
    RunLoop();
  }

  void RunLoop() {
    loop_.io().restart();
    loop_.Run();
  }

  void NewRound(const std::string& name) {
    KeepFailures();
    round_ = Round{};
    round_.progress = [] {};
    run_id_ = name;
  }

  void KeepFailures() {
    for (const auto& [why, count] : round_.failures) {
      figures_.failures[run_id_ + ": " + why] += count;
    }
  }

  void Join(std::size_t node) {
    nodes_[node]->Join(run_id_, static_cast<std::uint32_t>(nodes_.size()), round_);
  }

  bool AllRun() const { return round_.running == nodes_.size(); }

  void ColdRound() {
    NewRound("cold");
    const auto begin = Clock::now();
    std::size_t joined = 0;
    RunUntil("cold", [&] {
      while (joined < nodes_.size() && joined < round_.waiting + options_.at_once) {
        Join(joined++);
      }
      return AllRun();
    });
    figures_.cold.push_back(MillisecondsSince(begin));
    figures_.cold_cpu = 1'000 * server_.CpuSeconds();
    figures_.dialled = LightChannel::Dialled();
    RunFor(4'000ms);  // Until all have reported that they host it.
  }

  void WarmRound(int number) {
    NewRound("warm" + std::to_string(number));
    for (std::size_t i = 1; i < nodes_.size(); ++i) {
      Join(i);
    }
    RunUntil("waiting", [&] { return round_.waiting == nodes_.size() - 1; });
    RunFor(Duration(500 + static_cast<int>(nodes_.size()) / 10));  // Until every call is parked.
    const auto begin = Clock::now();
    Join(0);
    RunUntil("warm", [&] { return AllRun(); });
    figures_.warm.push_back(MillisecondsSince(begin));
    RunFor(Duration(500 + static_cast<int>(nodes_.size()) / 5));
  }

  void EndRound() {
    for (const auto& node : nodes_) {
      node->Succeed();
    }
    RunUntil("ending", [&] { return round_.over == nodes_.size(); });
  }

  void Idle() {
    // Whole poll periods: all nodes were answered at one moment, so their calls come in waves.
    const double period = std::max(1.0, 0.009 / 3 * static_cast<double>(options_.agents));
    const double seconds = options_.idle > 0 ? options_.idle : std::ceil(10 / period) * period;
    for (int i = 0; i < kIdleWindows; ++i) {
      const double before = server_.CpuSeconds();
      const auto begin = Clock::now();
      RunFor(Duration(static_cast<Duration::rep>(1'000 * seconds)));
      figures_.idle_percent.push_back(100'000 * (server_.CpuSeconds() - before) /
                                      MillisecondsSince(begin));
    }
  }

  const Options options_;
  AsioLoop loop_;
  ServerProcess server_;
  double empty_ = 0;
  std::vector<std::unique_ptr<ScaleNode>> nodes_;
  Round round_;
  RunId run_id_;
  Figures figures_;
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return std::atoi(argument.c_str() + argument.find('=') + 1); };
    if (argument.starts_with("--agents=") && value() > 1) {
      options.agents = static_cast<std::size_t>(value());
    } else if (argument.starts_with("--rounds=")) {
      options.rounds = value();
    } else if (argument.starts_with("--idle=")) {
      options.idle = value();
    } else if (argument == "--token") {
      options.token = "a token for a benchmark";
    } else if (argument == "--light") {
      options.light = true;
    } else if (argument.starts_with("--at-once=") && value() > 0) {
      options.at_once = static_cast<std::size_t>(value());
    } else if (!argument.starts_with("-") && options.ddprun.empty()) {
      options.ddprun = argument;
    } else {
      Fail("cannot use '" + argument + "'");
    }
  }
  if (options.ddprun.empty()) {
    Fail(
        "usage: rendezvous_scale DDPRUN [--agents=N] [--rounds=N] [--idle=SECONDS] [--token] "
        "[--light] [--at-once=N]");
  }
  return options;
}

void Row(const char* name, std::vector<double> values, const char* unit) {
  std::sort(values.begin(), values.end());
  std::printf("%-44s%4zu%11.2f%11.2f%11.2f %s\n", name, values.size(), values.front(),
              values[values.size() / 2], values.back(), unit);
}

int Main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  RaiseFileLimit(options.agents);
  ::signal(SIGPIPE, SIG_IGN);
  const Figures figures = Bench(options).Run();
  std::printf("%zu nodes%*s%4s%11s%11s%11s\n", options.agents, 33, "", "n", "min", "median", "max");
  Row("cold: none connected to all may run", figures.cold, "ms");
  Row("cold: the server's CPU time", {figures.cold_cpu}, "ms");
  if (options.light) {
    Row("cold: connections per node",
        {static_cast<double>(figures.dialled) / static_cast<double>(options.agents)}, "");
  }
  if (!figures.warm.empty()) {
    Row("warm: last report to all may run", figures.warm, "ms");
  }
  Row("server memory per node", {figures.kilobytes}, "kB");
  Row("server CPU while nothing happens", figures.idle_percent, "% of a core");
  PrintFailures(figures);
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  return ddprun::Main(argc, argv);
}
