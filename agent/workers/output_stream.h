// The agent's end of one pipe from a worker, or of a terminal that a stream of it has.
//
// At most one piece per loop iteration is read; nothing while a sink has no room, unless it is a
// file whose disk hangs.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/workers/kept_output.h"
#include "agent/workers/line_assembler.h"
#include "agent/workers/merged_console.h"
#include "agent/workers/output_sink.h"
#include "agent/workers/terminal_console.h"
#include "common/asio_loop.h"
#include "common/files.h"
#include "common/lifetime.h"

namespace ddprun {

class OutputStream;

// The line that does not end yet on one of the agent's consoles, which may be one terminal.
struct OpenLine {
  const OutputStream* stream = nullptr;  // nullptr: every line has ended.
  OutputSink* console = nullptr;
};

class OutputStream {
 public:
  struct Plan {
    OutputSink* console = nullptr;  // nullptr: not shown.
    bool as_it_is = false;          // The console gets bytes as they come, not whole lines.
    OpenLine* open_line = nullptr;  // The line that all streams share; set where a console is.
    // Draws rows on the console, which is its sink; nullptr: the console gets lines.
    TerminalConsole* terminal = nullptr;
    std::string name;  // The stream's name, before the terminal's rows.
    // Merges the lines of several ranks before the console; nullptr: lines go there as they come.
    MergedConsole* merged = nullptr;
    std::uint32_t rank = 0;                // The rank by which merged lines are named.
    std::unique_ptr<OutputSink> file;      // Gets bytes as they are; nullptr: none.
    std::unique_ptr<OutputSink> filtered;  // Gets the console's lines in which a filter occurs.
    std::vector<std::string> filters;      // The texts of which a filtered line has one.
    std::string prefix;                    // Before each line of the console.
    // The part of some bytes that is shown; none: all. Other readers get them as they are.
    std::function<std::string(std::string_view)> shown;
    bool keep_tail = false;
    std::shared_ptr<KeptOutput> kept;              // nullptr: not kept for later requests.
    std::uint32_t local_rank = 0;                  // There.
    std::function<void(std::string_view)> reader;  // Also gets all bytes; none: no one does.
  };

  OutputStream(AsioLoop& loop, UniqueFd pipe, Plan plan);
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  // on_drained: end of file was read and the file is written. Called on the loop, once.
  void Start(std::function<void()> on_drained);

  // Reads what is in the pipe now, room or not; a pipe is small.
  void ReadAllThereIs();

  // Reads what is there and no further.
  void Abandon();

  // A worker's terminal gets the window of `terminal`; a pipe has none.
  void SetWindow(int terminal);

  bool drained() const { return ended_ && UnwrittenFile() == nullptr; }
  std::vector<std::string> LastLines() const { return tail_.Lines(); }

 private:
  enum class Outcome { kMore, kEmpty, kEnd };

  void ReadWhenReady();
  void WaitForRoom(OutputSink& full);
  Outcome ReadOnePiece();
  void Take(std::string_view bytes);
  void End();
  bool HasLines() const;
  void ShowLines(const std::string& lines, bool goes_on);
  void Show(const std::string& lines, bool goes_on);
  OutputSink* FullSink() const;
  OutputSink* UnwrittenFile() const;
  void SayWhenDrained();

  AsioLoop& loop_;
  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::steady_timer patience_;
  Plan plan_;
  LineAssembler assembler_;
  std::optional<TerminalRows::Stream> row_;  // On the terminal.
  TailLines tail_;
  bool reading_ = false;  // Waits for the pipe.
  bool ended_ = false;
  std::function<void()> on_drained_;
  const Lifetime life_;
};

}  // namespace ddprun
