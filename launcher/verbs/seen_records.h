// Which records of what workers printed have come already, so that a second server that is asked
// for more than is missing tells none of them again, and none is left out.
//
// Pure. By a worker's stream and its node's clock, and by count where several have one millisecond.
// A file that a worker writes itself tells no time: after a change of server it is not followed.
// Bounded: kMostStreams; of others all is new.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "common/ids.h"
#include "rendezvous/messages/answer_records.h"

namespace ddprun {

class SeenRecords {
 public:
  static constexpr std::size_t kMostStreams = 131'072;

  // Of the server that tells now, in its order. Notes are always new.
  bool IsNew(const NodeId& node, const AnswerRecord& record);

  // Another server tells from here on.
  void BeginAgain();

  // The newest moment of any; nullopt: none has come.
  std::optional<std::int64_t> newest() const { return newest_; }

 private:
  using Stream = std::tuple<NodeId, std::uint32_t, std::uint64_t, AnswerKind>;
  struct Told {
    std::int64_t unix_ms = 0;
    std::uint64_t count = 0;  // Of that millisecond.
  };

  std::map<Stream, Told> before_;  // Records that earlier servers sent.
  std::map<Stream, Told> now_;     // Records that this server has sent or gone through.
  std::optional<std::int64_t> newest_;
};

}  // namespace ddprun
