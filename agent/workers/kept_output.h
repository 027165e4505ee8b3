// The last output of this node's workers, in memory, for later requests (ddprun logs): as it came,
// with the time at which it was read.
//
// Bounded: 4 MiB of each worker, and 64 MiB of a node's, in equal shares; the oldest goes. Kept
// beyond a generation's end, until room is needed. Output that workers write past the agent (their
// own files, a terminal of their own) is not here, and that is known. No I/O; the loop's alone.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/messages/answer_records.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

class KeptOutput {
 public:
  static constexpr std::size_t kMostOfWorker = std::size_t{4} << 20;
  static constexpr std::size_t kMostOfNode = std::size_t{64} << 20;
  // Of one record's text: any piece has room for one.
  static constexpr std::size_t kMostOfRecord = kLeastPieceBytes - kRecordHead;
  // Output that comes within this time may be one record.
  static constexpr std::int64_t kTogetherMs = 20;

  explicit KeptOutput(std::uint32_t workers);

  // From here on local rank n is rank first_rank + n of this generation.
  void Begin(std::uint32_t first_rank, std::uint64_t generation);
  void Append(std::uint32_t local_rank, AnswerKind of, std::string_view bytes,
              std::int64_t unix_ms);
  // Its stream goes past the agent: to this file, or to ddprun's own terminal where that is empty.
  void GoesPast(std::uint32_t local_rank, AnswerKind of, const std::filesystem::path& file);

  // A byte of a stream: of this record, or of the stream's next one.
  struct Place {
    std::uint64_t number = 0;
    std::size_t offset = 0;
  };
  // By local rank and stream. A stream that is not in it begins with its first record.
  using Starts = std::map<std::pair<std::uint32_t, AnswerKind>, Place>;
  // Where the last `lines` lines of each worker's output begin, of both streams together.
  Starts StartsOfLastLines(const RequestSpec& spec, std::uint32_t lines) const;

  // Appends to `piece`, which has `most` bytes then, the kept records of those ranks after record
  // number `after`, which moves; none older than `since_ms`, and of no stream what is before its
  // start. False: nothing is left.
  bool Read(const RequestSpec& spec, std::int64_t since_ms, const Starts& starts,
            std::uint64_t& after, std::size_t most, std::string& piece);

  struct Past {
    std::uint32_t rank = 0;
    std::uint64_t generation = 0;
    AnswerKind of = AnswerKind::kOut;
    std::filesystem::path file;  // Empty: ddprun's own terminal.
  };
  // Of this generation's workers.
  std::vector<Past> PastOnes(const RequestSpec& spec) const;
  // The last output of this generation's worker, both streams as they came; `most` bytes of it.
  std::string LastOf(std::uint32_t local_rank, std::size_t most) const;
  // Those ranks of whose records after number `after` some have made room already.
  std::set<std::uint32_t> ForgottenAfter(std::uint64_t after, const RequestSpec& spec) const;

  // Nothing more comes: this node's part in the run is over.
  void Close();
  bool closed() const { return closed_; }

  // `more` is called with each Append and with Close, until Stop: from inside it.
  std::uint64_t Listen(std::function<void()> more);
  void Stop(std::uint64_t listener) { listeners_.erase(listener); }

 private:
  struct Kept {
    std::uint64_t number = 0;
    AnswerRecord record;
  };
  struct Worker {
    std::deque<Kept> records;
    std::size_t bytes = 0;
    std::uint64_t forgot = 0;       // Number of the last record that made room; 0: none has.
    std::uint32_t forgot_rank = 0;  // Its rank.
    std::vector<Past> past;
  };
  void Add(Worker& worker, AnswerRecord record);

  std::vector<Worker> workers_;
  const std::size_t most_;  // Bytes of one.
  std::uint32_t first_rank_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t read_ = 0;  // No record up to this one may grow any more.
  std::map<std::uint64_t, std::function<void()>> listeners_;
  std::uint64_t last_listener_ = 0;
  bool closed_ = false;
};

}  // namespace ddprun
