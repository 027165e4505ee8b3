#include "agent/workers/merged_console.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun {

MergedConsole::MergedConsole(Loop& loop, OutputSink& sink, LineMerger::Plan plan)
    : loop_(loop), sink_(sink), merger_(std::move(plan)), timer_(loop) {}

void MergedConsole::Put(std::uint32_t rank, std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    merger_.Add(rank, lines.substr(0, end), loop_.Now(), out);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  PassOn(out);
}

void MergedConsole::PassOn(std::string_view lines) {
  if (!lines.empty()) {
    sink_.Append(lines);
  }
  timer_.ArmAt(merger_.due(), [this] {
    std::string out;
    merger_.TakeDue(loop_.Now(), out);
    PassOn(out);
  });
}

void MergedConsole::Finish() {
  std::string out;
  merger_.TakeAll(out);
  PassOn(out);
}

}  // namespace ddprun
