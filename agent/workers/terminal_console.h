// A terminal as a console of several workers (terminal_rows): bytes of their streams in, and to
// its sink what the terminal is to be sent, with a timer for the rows.
//
// On the loop.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "agent/workers/output_sink.h"
#include "agent/workers/terminal_rows.h"
#include "common/loop.h"

namespace ddprun {

class TerminalConsole {
 public:
  // `terminal` is the sink's.
  TerminalConsole(Loop& loop, OutputSink& sink, int terminal);

  TerminalRows::Stream Add(std::string prefix, std::string name);
  void Feed(TerminalRows::Stream stream, std::string_view bytes);
  void End(TerminalRows::Stream stream);

  // The terminal's window may have changed.
  void LookAtWindow();

  OutputSink& sink() { return sink_; }

 private:
  // `rows` changes them, and says what the terminal is to be sent.
  void Change(const std::function<void(std::string& out)>& rows);

  Loop& loop_;
  OutputSink& sink_;
  const int terminal_;
  TerminalRows rows_;
  LoopTimer timer_;
};

}  // namespace ddprun
