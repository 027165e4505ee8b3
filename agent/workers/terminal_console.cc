#include "agent/workers/terminal_console.h"

#include <sys/ioctl.h>

#include <utility>

#include "common/log.h"

namespace ddprun {

TerminalConsole::TerminalConsole(Loop& loop, OutputSink& sink, int terminal)
    : loop_(loop), sink_(sink), terminal_(terminal), timer_(loop) {
  LookAtWindow();
}

TerminalRows::Stream TerminalConsole::Add(std::string prefix, std::string name) {
  EraseBelowLog();
  return rows_.Add(std::move(prefix), std::move(name));
}

void TerminalConsole::Feed(TerminalRows::Stream stream, std::string_view bytes) {
  std::string out;
  const bool fresh = rows_.AtFreshRow();
  rows_.Feed(stream, bytes, loop_.Now(), out);
  PassOn(fresh, out);
}

void TerminalConsole::End(TerminalRows::Stream stream) {
  std::string out;
  const bool fresh = rows_.AtFreshRow();
  rows_.End(stream, out);
  PassOn(fresh, out);
}

void TerminalConsole::PassOn(bool at_fresh_row, std::string_view bytes) {
  if (!bytes.empty()) {
    // ddprun's own line of what it waits for may be there.
    sink_.Append((at_fresh_row ? "\x1b[K" : "") + std::string(bytes));
  }
  timer_.ArmAt(rows_.due(), [this] {
    std::string out;
    const bool fresh = rows_.AtFreshRow();
    rows_.TakeDue(loop_.Now(), out);
    PassOn(fresh, out);
  });
}

void TerminalConsole::LookAtWindow() {
  winsize window{};
  if (::ioctl(terminal_, TIOCGWINSZ, &window) == 0) {
    rows_.SetHeight(window.ws_row);
  }
}

}  // namespace ddprun
