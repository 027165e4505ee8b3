#include "agent/workers/kept_output.h"

#include <algorithm>
#include <utility>

namespace ddprun {

KeptOutput::KeptOutput(std::uint32_t workers)
    : workers_(workers),
      most_(std::min(kMostOfWorker, kMostOfNode / std::max<std::uint32_t>(workers, 1))) {}

void KeptOutput::Begin(std::uint32_t first_rank, std::uint64_t generation) {
  first_rank_ = first_rank;
  generation_ = generation;
  for (Worker& worker : workers_) {
    worker.past.clear();
  }
}

void KeptOutput::Append(std::uint32_t local_rank, AnswerKind of, std::string_view bytes,
                        std::int64_t unix_ms) {
  if (local_rank >= workers_.size()) {
    return;
  }
  Worker& worker = workers_[local_rank];
  const std::uint32_t rank = first_rank_ + local_rank;
  Kept* const last = worker.records.empty() ? nullptr : &worker.records.back();
  if (last != nullptr && last->number > read_ && last->number == last_ && last->record.of == of &&
      last->record.generation == generation_ && unix_ms - last->record.unix_ms < kTogetherMs) {
    const std::string_view fits =
        bytes.substr(0, kMostOfRecord - std::min(kMostOfRecord, last->record.text.size()));
    last->record.text += fits;
    worker.bytes += fits.size();
    bytes.remove_prefix(fits.size());
  }
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kMostOfRecord);
    Add(worker, {unix_ms, rank, generation_, of, std::string(part)});
    bytes.remove_prefix(part.size());
  }
  for (const auto& [id, more] : std::map(listeners_)) {
    more();
  }
}

void KeptOutput::Add(Worker& worker, AnswerRecord record) {
  worker.bytes += sizeof(Kept) + record.text.size();
  worker.records.push_back({++last_, std::move(record)});
  while (worker.bytes > most_ && worker.records.size() > 1) {
    const Kept& oldest = worker.records.front();
    worker.bytes -= sizeof(Kept) + oldest.record.text.size();
    worker.forgot = oldest.number;
    worker.forgot_rank = oldest.record.rank;
    worker.records.pop_front();
  }
}

void KeptOutput::GoesPast(std::uint32_t local_rank, AnswerKind of,
                          const std::filesystem::path& file) {
  if (local_rank < workers_.size()) {
    workers_[local_rank].past.push_back({first_rank_ + local_rank, generation_, of, file});
  }
}

// From the end to the beginning. Streams mix their records, so each has its own line under way.
KeptOutput::Starts KeptOutput::StartsOfLastLines(const RequestSpec& spec,
                                                 std::uint32_t lines) const {
  struct Stream {
    bool open = false;  // A line that is wanted begins in an earlier record, or with this one.
    std::uint64_t generation = 0;  // Of that line.
  };
  Starts starts;
  for (std::uint32_t local_rank = 0; local_rank < workers_.size(); ++local_rank) {
    const std::deque<Kept>& records = workers_[local_rank].records;
    if (records.empty()) {
      continue;
    }
    const Place end{records.back().number, records.back().record.text.size()};
    starts[{local_rank, AnswerKind::kOut}] = end;
    starts[{local_rank, AnswerKind::kErr}] = end;
    std::map<AnswerKind, Stream> streams;
    std::uint32_t left = lines;
    for (auto kept = records.rbegin(); kept != records.rend(); ++kept) {
      const AnswerRecord& record = kept->record;
      const std::string_view text = record.text;
      Stream& stream = streams[record.of];
      if (!Wants(spec, record.rank)) {
        continue;
      }
      // A worker's last words end with it, whether its line had an end or not.
      stream.open = stream.open && stream.generation == record.generation;
      for (std::size_t at = text.size(); stream.open || (at > 0 && left > 0);) {
        const bool has_end = !stream.open && text[at - 1] == '\n';
        left -= stream.open ? 0 : 1;
        stream = {true, record.generation};
        const std::size_t before = text.substr(0, at - (has_end ? 1 : 0)).rfind('\n');
        at = before == text.npos ? 0 : before + 1;
        starts[{local_rank, record.of}] = {kept->number, at};
        if (before == text.npos) {
          break;
        }
        stream.open = false;
      }
      if (left == 0 &&
          std::ranges::none_of(streams, [](const auto& of) { return of.second.open; })) {
        break;
      }
    }
  }
  return starts;
}

// Of all workers the next one each time, by number.
bool KeptOutput::Read(const RequestSpec& spec, std::int64_t since_ms, const Starts& starts,
                      std::uint64_t& after, std::size_t most, std::string& piece) {
  struct Way {
    std::uint32_t local_rank;
    std::deque<Kept>::const_iterator next;
    std::deque<Kept>::const_iterator end;
  };
  std::vector<Way> ways;
  for (std::uint32_t local_rank = 0; local_rank < workers_.size(); ++local_rank) {
    const std::deque<Kept>& records = workers_[local_rank].records;
    const auto begin = std::ranges::upper_bound(records, after, {}, &Kept::number);
    if (begin != records.end()) {
      ways.push_back({local_rank, begin, records.end()});
    }
  }
  const auto later = [](const Way& a, const Way& b) { return a.next->number > b.next->number; };
  std::ranges::make_heap(ways, later);
  while (!ways.empty()) {
    std::ranges::pop_heap(ways, later);
    auto& [local_rank, next, end] = ways.back();
    const AnswerRecord& record = next->record;
    const auto start = starts.find({local_rank, record.of});
    const std::size_t skipped = start == starts.end() || next->number > start->second.number ? 0
                                : next->number < start->second.number ? record.text.size()
                                                                      : start->second.offset;
    const bool wanted =
        record.unix_ms >= since_ms && Wants(spec, record.rank) && skipped < record.text.size();
    if (wanted && piece.size() + kRecordHead + record.text.size() > most) {
      return true;
    }
    if (wanted) {
      AppendRecord(
          {record.unix_ms, record.rank, record.generation, record.of, record.text.substr(skipped)},
          piece);
    }
    after = next->number;
    read_ = std::max(read_, after);
    if (++next == end) {
      ways.pop_back();
    } else {
      std::ranges::push_heap(ways, later);
    }
  }
  return false;
}

std::vector<KeptOutput::Past> KeptOutput::PastOnes(const RequestSpec& spec) const {
  std::vector<Past> all;
  for (const Worker& worker : workers_) {
    std::ranges::copy_if(worker.past, std::back_inserter(all),
                         [&](const Past& past) { return Wants(spec, past.rank); });
  }
  return all;
}

std::string KeptOutput::LastOf(std::uint32_t local_rank, std::size_t most) const {
  std::string text;
  if (local_rank >= workers_.size()) {
    return text;
  }
  const Worker& worker = workers_[local_rank];
  for (const Past& past : worker.past) {
    text += std::string(past.of == AnswerKind::kErr ? "(its stderr" : "(its stdout") +
            " goes past ddprun, to " +
            (past.file.empty() ? "the terminal" : "'" + past.file.native() + "'") + ")\n";
  }
  std::size_t bytes = 0;
  auto first = worker.records.end();
  while (first != worker.records.begin() && bytes < most &&
         std::prev(first)->record.generation == generation_) {
    bytes += (--first)->record.text.size();
  }
  for (; first != worker.records.end(); ++first) {
    const std::size_t too_much = bytes > most ? bytes - most : 0;
    text += first->record.text.substr(std::min(too_much, first->record.text.size()));
    bytes = most;
  }
  return text;
}

std::set<std::uint32_t> KeptOutput::ForgottenAfter(std::uint64_t after,
                                                   const RequestSpec& spec) const {
  std::set<std::uint32_t> ranks;
  for (const Worker& worker : workers_) {
    if (worker.forgot > after && Wants(spec, worker.forgot_rank)) {
      ranks.insert(worker.forgot_rank);
    }
  }
  return ranks;
}

void KeptOutput::Close() {
  closed_ = true;
  for (const auto& [id, more] : std::map(listeners_)) {
    more();
  }
}

std::uint64_t KeptOutput::Listen(std::function<void()> more) {
  listeners_.emplace(++last_listener_, std::move(more));
  return last_listener_;
}

}  // namespace ddprun
