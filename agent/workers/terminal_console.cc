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
  Change([&](std::string& out) { rows_.Feed(stream, bytes, loop_.Now(), out); });
}

void TerminalConsole::End(TerminalRows::Stream stream) {
  Change([&](std::string& out) { rows_.End(stream, out); });
}

void TerminalConsole::Change(const std::function<void(std::string& out)>& rows) {
  const bool at_fresh_row = rows_.AtFreshRow();
  std::string out;
  rows(out);
  if (!out.empty()) {
    // ddprun's own line of what it waits for may be there.
    sink_.Append((at_fresh_row ? "\x1b[K" : "") + out);
  }
  timer_.ArmAt(rows_.due(),
               [this] { Change([this](std::string& due) { rows_.TakeDue(loop_.Now(), due); }); });
}

void TerminalConsole::LookAtWindow() {
  winsize window{};
  if (::ioctl(terminal_, TIOCGWINSZ, &window) == 0) {
    rows_.SetHeight(window.ws_row);
  }
}

}  // namespace ddprun
