// A console on which equal lines of several ranks are said once (line_merger): whole lines in, and
// to its sink what is due.
//
// On the loop. A line longer than LineAssembler::kMaxLine comes as several.
#pragma once

#include <string_view>

#include "agent/workers/line_merger.h"
#include "agent/workers/output_sink.h"
#include "common/loop.h"

namespace ddprun {

class MergedConsole {
 public:
  MergedConsole(Loop& loop, OutputSink& sink, LineMerger::Plan plan = {});

  void Expect(std::uint32_t shown, std::uint32_t world) { merger_.Expect(shown, world); }
  void Put(std::uint32_t rank, std::string_view lines);
  // All that waits goes to the sink.
  void Finish();

 private:
  void PassOn(std::string_view lines);

  Loop& loop_;
  OutputSink& sink_;
  LineMerger merger_;
  LoopTimer timer_;
};

}  // namespace ddprun
