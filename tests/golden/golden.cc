// Replays a script of mishaps on a calm network and compares the conversation, in words, with the
// transcript beside it; --rewrite renews the transcript.
//
//   ddprun_golden FILE [--rewrite]
//
// A file begins with its script, one command per line, each after "> ":
//
//   > machines 2 min 1 max 2 restarts 1 workers 2 work 8s
//   > at 2s kill n1              also: exit N CODE, crash N, start N, term N, int N, cut N, mend N,
//                                hang N WORKER; "evicted 1" in the first line: TERM is a
//                                scheduler's, of a program that saves; "trainer 1": workers
//                                say hello
//   > at 3s crash server         also: start server; "state-dir 1" in the first line: it has one;
//                                "shared 1": no such machine, since nodes with one directory host
//                                the server
//
// and continues with the transcript. Blank lines before the transcript are ignored.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/log.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr Duration kEnd{120'000};

struct File {
  std::vector<std::string> script;
  std::vector<std::string> transcript;
};

[[noreturn]] void Fail(const std::string& what, const std::string& on) {
  std::fprintf(stderr, "golden: %s: '%s'\n", what.c_str(), on.c_str());
  std::exit(2);
}

File Read(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    Fail("cannot read", path);
  }
  File file;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("> ")) {
      file.script.push_back(line.substr(2));
    } else if (!line.empty()) {
      file.transcript.push_back(line);
    }
  }
  return file;
}

Duration Milliseconds(const std::string& text) {
  return Duration{static_cast<Duration::rep>(std::stod(text) * 1'000)};  // "2.5s"
}

Setup SetupFrom(const std::string& line) {
  Setup setup;
  setup.standing = true;
  std::istringstream in(line);
  std::uint32_t workers = 1;
  for (std::string name, value; in >> name >> value;) {
    const auto number = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "machines") {
      setup.machines = number;
    } else if (name == "min") {
      setup.spec.min_nodes = number;
    } else if (name == "max") {
      setup.spec.max_nodes = number;
    } else if (name == "restarts") {
      setup.spec.max_restarts = number;
    } else if (name == "workers") {
      workers = number;
    } else if (name == "silence") {
      setup.hang_timeout = Milliseconds(value);
    } else if (name == "shared") {
      setup.standing = number == 0;
    } else if (name == "state-dir") {
      setup.state_dir = number != 0;
    } else if (name == "evicted" && number != 0) {
      setup.evicted = true;
      setup.program = Program::kTrainer;
    } else if (name == "trainer" && number != 0) {
      setup.program = Program::kTrainer;
    } else if (name == "checks") {
      setup.checks = number;
    } else if (name == "work") {
      setup.work = Milliseconds(value);
    } else {
      Fail("unknown setting", name);
    }
  }
  if (setup.standing) {
    setup.bare = setup.machines++;
  }
  setup.workers.assign(setup.machines, workers);
  setup.spec.last_call = Duration{1'000};
  return setup;
}

void Do(const std::string& what, Machine& machine, int code) {
  if (what == "kill") {
    machine.workers().EndAWorker(0, Killed{9});
  } else if (what == "hang") {
    machine.workers().HangAWorker(static_cast<std::size_t>(code));
  } else if (what == "exit") {
    machine.workers().EndAWorker(0, Exited{code});
  } else if (what == "crash") {
    machine.Crash(true);
  } else if (what == "spoil") {
    machine.checks().Spoil();
  } else if (what == "start") {
    machine.Start();
  } else if (what == "term") {
    machine.Signal(15);
  } else if (what == "int") {
    machine.Signal(2);
  } else if (what == "cut") {
    machine.SetLink(false, false);
  } else if (what == "mend") {
    machine.SetLink(true, false);
  } else {
    Fail("unknown command", what);
  }
}

std::vector<std::string> Play(const std::vector<std::string>& script) {
  if (script.empty()) {
    Fail("the script is empty", "");
  }
  Simulation simulation(SetupFrom(script.front()), 1, true);
  Machine& server = *simulation.machines.back();
  const std::size_t nodes = simulation.machines.size() - (simulation.setup.standing ? 1 : 0);
  if (simulation.setup.standing) {
    server.Start();
  }
  for (std::size_t i = 1; i < script.size(); ++i) {
    std::istringstream in(script[i]);
    std::string at, when, what, node;
    int code = 0;
    in >> at >> when >> what >> node >> code;
    std::size_t index = 0;
    const bool to_server = node == "server";
    if (at != "at" || (!to_server && (node.size() != 2 || (index = node[1] - '0') >= nodes))) {
      Fail("cannot understand", script[i]);
    }
    Machine& machine = to_server ? server : *simulation.machines[index];
    simulation.event_queue.At(kBegin + Milliseconds(when),
                              [what, &machine, code] { Do(what, machine, code); });
  }
  simulation.RunUntil(kBegin + kEnd);
  std::vector<std::string> lines = simulation.transcript.lines();
  if (simulation.laws.broken()) {
    lines.push_back("law broken: " + *simulation.laws.broken());
  }
  if (!simulation.Quiet()) {
    lines.push_back("not over after " + FormatDuration(kEnd));
  }
  return lines;
}

int Compare(const File& file, const std::vector<std::string>& lines, const std::string& path) {
  for (std::size_t i = 0; i < std::max(lines.size(), file.transcript.size()); ++i) {
    const std::string was = i < file.transcript.size() ? file.transcript[i] : "(nothing)";
    const std::string is = i < lines.size() ? lines[i] : "(nothing)";
    if (was != is) {
      std::printf(
          "%s differs at line %zu of the transcript\n  was: %s\n  is:  %s\n"
          "if that is meant: ddprun_golden %s --rewrite\n",
          path.c_str(), i + 1, was.c_str(), is.c_str(), path.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace ddprun::sim

int main(int argc, char** argv) {
  using ddprun::sim::File;
  if (argc < 2 || argc > 3 || (argc == 3 && std::string(argv[2]) != "--rewrite")) {
    ddprun::sim::Fail("usage: ddprun_golden FILE [--rewrite]", argc > 2 ? argv[2] : "");
  }
  ddprun::StartLog("ddprun_golden", ddprun::LogLevel::kError);  // Nodes' lines are in it anyway.
  const File file = ddprun::sim::Read(argv[1]);
  const std::vector<std::string> lines = ddprun::sim::Play(file.script);
  if (argc == 2) {
    return ddprun::sim::Compare(file, lines, argv[1]);
  }
  std::ofstream out(argv[1]);
  for (const std::string& command : file.script) {
    out << "> " << command << "\n";
  }
  out << "\n";
  for (const std::string& line : lines) {
    out << line << "\n";
  }
  return out.good() ? 0 : 1;
}
