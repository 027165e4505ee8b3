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
  rows_.Feed(stream, bytes, loop_.Now(), out);
  PassOn(out);
}

void TerminalConsole::End(TerminalRows::Stream stream) {
  std::string out;
  rows_.End(stream, out);
  PassOn(out);
}

void TerminalConsole::PassOn(std::string_view bytes) {
  sink_.Append(bytes);
  timer_.ArmAt(rows_.due(), [this] {
    std::string out;
    rows_.TakeDue(loop_.Now(), out);
    PassOn(out);
  });
}

void TerminalConsole::LookAtWindow() {
  winsize window{};
  if (::ioctl(terminal_, TIOCGWINSZ, &window) == 0) {
    rows_.SetHeight(window.ws_row);
  }
}

}  // namespace ddprun
