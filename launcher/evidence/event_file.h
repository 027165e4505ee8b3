// The events of a run as lines of JSON in its run directory, by the node that hosts the server:
//
//   <run directory>/events.jsonl     appended to; beyond kMostBytes it becomes
//   <run directory>/events.1.jsonl   the one before, which goes then
//
// If the server moves and nodes share the directory, the run continues in the same file. Events at
// its end are not written again. A line has number and term, so that a reader can order lines that
// two servers wrote beside each other.
//
// Never holds the loop up (background_writer.h): of the events that wait meanwhile the newest
// kMostWaiting are kept.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/loop.h"
#include "launcher/evidence/background_writer.h"
#include "rendezvous/messages/run_event.h"

namespace ddprun {

// As it stands in the file, with its end.
std::string EventLineOf(const RunId& run_id, const RunEvent& event);

class EventFile {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20;
  static constexpr std::size_t kMostWaiting = 4'096;

  EventFile(Loop& loop, std::filesystem::path directory);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // On the loop.
  void Keep(const RunId& run_id, const RunEvent& event);

  // The loop has ended: waiting events are written, if that is possible within `limit`, and then
  // nothing more.
  void Finish(Duration limit) { writer_.Finish(limit); }

 private:
  struct Shared;  // With the thread.

  const std::shared_ptr<Shared> shared_;
  BackgroundWriter writer_;
};

}  // namespace ddprun
