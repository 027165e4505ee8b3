#include "agent/watch/nccl_ras.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/json.h"
#include "common/log.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOfName = 64;
constexpr std::size_t kMostOperations = 32;  // Of a rank; NCCL has five.
constexpr std::size_t kMostNamed = 16;       // Ranks of one group.
constexpr std::size_t kMostGroups = 8;
constexpr std::size_t kMostLines = 100;
constexpr std::uint32_t kSound[] = {2, 29, 2};

// 2.28.9 writes no comma before the "status" of a missing rank. A text that begins where none may
// begin lacks one.
std::string WithMissingCommas(std::string_view text) {
  std::string whole;
  whole.reserve(text.size() + text.size() / 64);
  char last = '{';
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      whole += c;
      whole += text[++i];
      continue;
    }
    if (c == '"' && !quoted && std::string_view("{[,:").find(last) == std::string_view::npos) {
      whole += ',';
    }
    quoted = c == '"' ? !quoted : quoted;
    whole += c;
    last = std::string_view(" \t\r\n").find(c) == std::string_view::npos ? c : last;
  }
  return whole;
}

const json* Field(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? nullptr : &*found;
}

// On one line: names are put between words.
std::string Name(const std::string& text) {
  std::string name = Printable(std::string_view(text).substr(0, kMostOfName));
  std::ranges::replace_if(
      name, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return name;
}

std::string StringAt(const json& object, const char* key) {
  const json* const value = Field(object, key);
  return value != nullptr && value->is_string() ? Name(value->get_ref<const std::string&>()) : "";
}

std::optional<std::uint64_t> Count(const json& object, const char* key) {
  const json* const value = Field(object, key);
  return value != nullptr && value->is_number_unsigned()
             ? std::optional(value->get<std::uint64_t>())
             : std::nullopt;
}

bool Says(const json* object, const char* key) {
  const json* const value = object == nullptr ? nullptr : Field(*object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

RasState StateOf(const json& rank, bool missing) {
  const json* const status = Field(rank, "status");
  if (missing) {
    return Says(status, "considered_dead") ? RasState::kDead : RasState::kMissing;
  }
  if (Says(status, "abort_flag")) {
    return RasState::kAborted;
  }
  if (Says(status, "finalize_called") || Says(status, "destroy_flag")) {
    return RasState::kEnding;
  }
  return status != nullptr && Count(*status, "init_state") == 0 ? RasState::kRunning
                                                                : RasState::kStarting;
}

std::optional<std::uint32_t> Small(std::optional<std::uint64_t> number) {
  return number && *number <= std::numeric_limits<std::uint32_t>::max()
             ? std::optional(static_cast<std::uint32_t>(*number))
             : std::nullopt;
}

bool ReadRanks(const json* list, bool missing, RasCommunicator& communicator) {
  if (list == nullptr || !list->is_array()) {
    return missing;  // Some have none.
  }
  for (const json& one : *list) {
    const std::optional<std::uint32_t> number = Small(Count(one, "rank"));
    if (!number) {
      return false;
    }
    RasRank rank{.rank = *number,
                 .process = {StringAt(one, "host"),
                             static_cast<std::int64_t>(Small(Count(one, "pid")).value_or(0))},
                 .state = StateOf(one, missing),
                 .counts = {}};
    const json* const counts = Field(one, "collective_counts");
    if (counts != nullptr && counts->is_object()) {
      for (const auto& [operation, count] : counts->items()) {
        if (count.is_number_unsigned() && rank.counts.size() < kMostOperations) {
          rank.counts[Name(operation)] = count.get<std::uint64_t>();
        }
      }
    }
    communicator.ranks.push_back(std::move(rank));
  }
  return true;
}

std::optional<RasCommunicator> ReadCommunicator(const json& one) {
  const std::optional<std::uint32_t> size = Small(Count(one, "size"));
  if (!size) {
    return std::nullopt;
  }
  const std::string second = StringAt(one, "secondary_hash");  // The first alone may be another's.
  RasCommunicator communicator{.name = StringAt(one, "hash"), .size = *size, .ranks = {}};
  communicator.name += second.empty() ? "" : ":" + second;
  if (!ReadRanks(Field(one, "ranks"), false, communicator) ||
      !ReadRanks(Field(one, "missing_ranks"), true, communicator)) {
    return std::nullopt;
  }
  std::ranges::sort(communicator.ranks);
  return communicator;
}

// ---- In words ----
bool IsThere(const RasRank& rank) {
  return rank.state != RasState::kMissing && rank.state != RasState::kDead;
}

std::uint64_t CountOf(const RasRank& rank, const std::string& operation) {
  const auto found = rank.counts.find(operation);
  return found == rank.counts.end() ? 0 : found->second;
}

// Operations of which ranks that are there have begun different numbers.
std::set<std::string> WhatDiffers(const RasCommunicator& communicator) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> bounds;  // Least and most.
  std::map<std::string, std::size_t> seen;
  std::size_t there = 0;
  for (const RasRank& rank : communicator.ranks) {
    if (!IsThere(rank)) {
      continue;
    }
    ++there;
    for (const auto& [operation, count] : rank.counts) {
      const auto [at, first] = bounds.try_emplace(operation, count, count);
      at->second = {std::min(at->second.first, count), std::max(at->second.second, count)};
      ++seen[operation];
    }
  }
  std::set<std::string> differing;
  for (const auto& [operation, range] : bounds) {
    const std::uint64_t least = seen[operation] < there ? 0 : range.first;
    if (least != range.second) {
      differing.insert(operation);
    }
  }
  return differing;
}

bool AreEqual(const RasCommunicator& communicator, const std::set<std::string>& differing) {
  return differing.empty() && std::ranges::all_of(communicator.ranks, [](const RasRank& rank) {
           return rank.state == RasState::kRunning;
         });
}

std::string WordFor(RasState state) {
  switch (state) {
    case RasState::kRunning:
      return "";
    case RasState::kStarting:
      return "still joining";
    case RasState::kEnding:
      return "leaving it";
    case RasState::kAborted:
      return "aborted";
    case RasState::kMissing:
      return "no answer";
    case RasState::kDead:
      return "considered dead";
  }
  return "";
}

// "AllReduce 641, Broadcast 3"
std::string WordsOf(const RasRank& rank, const std::set<std::string>& differing) {
  std::string words = WordFor(rank.state);
  if (IsThere(rank)) {
    for (const std::string& operation : differing) {
      words +=
          (words.empty() ? "" : ", ") + operation + " " + std::to_string(CountOf(rank, operation));
    }
  }
  return words.empty() ? "running" : words;
}

using Ranks = std::map<RasProcess, std::uint32_t>;

const RasCommunicator* OfAll(const RasAnswer& answer, std::uint32_t world_size) {
  const auto found = std::ranges::find(answer.communicators, world_size, &RasCommunicator::size);
  return found == answer.communicators.end() ? nullptr : &*found;
}

// By process, as the communicator of all ranks numbers them.
Ranks RanksOf(const RasAnswer& answer, std::uint32_t world_size) {
  Ranks ranks;
  if (const RasCommunicator* const all = OfAll(answer, world_size)) {
    for (const RasRank& rank : all->ranks) {
      ranks.emplace(rank.process, rank.rank);
    }
  }
  return ranks;
}

// "rank 12 and 13 on n3, pid 4711 on n4"
std::string NamesOf(const std::vector<const RasRank*>& members, const Ranks& ranks) {
  std::map<std::string, std::vector<std::string>> of_host;
  for (std::size_t i = 0; i < std::min(members.size(), kMostNamed); ++i) {
    const RasRank& member = *members[i];
    const auto known = ranks.find(member.process);
    of_host[member.process.first].push_back(known != ranks.end()
                                                ? std::to_string(known->second)
                                                : std::to_string(member.rank) + " of it (pid " +
                                                      std::to_string(member.process.second) + ")");
  }
  std::string names;
  for (const auto& [host, of_it] : of_host) {
    names += names.empty() ? "rank " : ", rank ";
    for (std::size_t i = 0; i < of_it.size(); ++i) {
      names += (i == 0 ? "" : i + 1 == of_it.size() ? " and " : ", ") + of_it[i];
    }
    names += " on " + (host.empty() ? "an unknown host" : host);
  }
  return names + (members.size() > kMostNamed
                      ? ", and " + std::to_string(members.size() - kMostNamed) + " more"
                      : "");
}

std::string InWords(const RasCommunicator& communicator, const std::set<std::string>& differing,
                    const Ranks& ranks) {
  std::map<std::string, std::vector<const RasRank*>> by_words;
  for (const RasRank& rank : communicator.ranks) {
    by_words[WordsOf(rank, differing)].push_back(&rank);
  }
  std::vector<std::pair<std::string, std::vector<const RasRank*>>> groups(by_words.begin(),
                                                                          by_words.end());
  std::ranges::stable_sort(
      groups, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) {
    const auto& [words, members] = groups[i];
    const bool few = i > 0 || (groups.size() > 1 && members.size() == groups[1].second.size());
    text += (text.empty() ? "" : "; ") + std::to_string(members.size()) + " rank" +
            (members.size() == 1 ? "" : "s") + ": " + words +
            (few ? ": " + NamesOf(members, ranks) : "");
  }
  return text + (groups.size() > kMostGroups
                     ? "; and " + std::to_string(groups.size() - kMostGroups) + " groups more"
                     : "");
}

}  // namespace

Result<RasAnswer> ParseRas(std::string_view text) {
  json whole = ParseJson(text);
  if (whole.is_discarded()) {
    whole = ParseJson(WithMissingCommas(text));
  }
  const json* const list = Field(whole, "communicators");
  if (list == nullptr || !list->is_array()) {
    return Error{ErrorKind::kInvalid, "what NCCL's RAS answers is no list of communicators"};
  }
  RasAnswer answer{.version = StringAt(whole, "nccl_version"), .communicators = {}};
  for (const json& one : *list) {
    std::optional<RasCommunicator> communicator = ReadCommunicator(one);
    if (!communicator) {
      return Error{ErrorKind::kInvalid,
                   "NCCL's RAS tells of a communicator without a size, or of a rank without a "
                   "number"};
    }
    answer.communicators.push_back(*std::move(communicator));
  }
  std::ranges::sort(answer.communicators);
  return answer;
}

bool MayBeAskedOften(const std::string& version) {
  std::uint32_t parts[3] = {};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (std::uint32_t& part : parts) {
    const auto [next, error] = std::from_chars(at, end, part);
    if (error != std::errc{}) {
      return false;
    }
    at = next + (next != end && *next == '.' ? 1 : 0);
  }
  return std::lexicographical_compare_three_way(std::begin(parts), std::end(parts),
                                                std::begin(kSound), std::end(kSound)) >= 0;
}

std::vector<std::string> GroupsInWords(const RasAnswer& answer, std::uint32_t world_size) {
  const Ranks ranks = RanksOf(answer, world_size);
  std::vector<std::string> lines;
  std::size_t equal = 0;
  std::size_t more = 0;
  for (const RasCommunicator& communicator : answer.communicators) {
    const std::set<std::string> differing = WhatDiffers(communicator);
    if (AreEqual(communicator, differing)) {
      ++equal;
    } else if (lines.size() < kMostLines) {
      lines.push_back((communicator.size == world_size
                           ? "of all ranks"
                           : "of communicator " + communicator.name + " (" +
                                 std::to_string(communicator.size) + " ranks)") +
                      ": " + InWords(communicator, differing, ranks));
    } else {
      ++more;
    }
  }
  if (more > 0) {
    lines.push_back("and of " + std::to_string(more) + " communicators more");
  }
  if (equal > 0) {
    lines.push_back(std::to_string(equal) + " communicator" + (equal == 1 ? "" : "s") +
                    ": all ranks have begun as many collectives");
  }
  return lines;
}

std::map<RasProcess, RasProgress> ProgressThatDiffers(const RasAnswer& answer,
                                                      std::uint32_t world_size) {
  if (OfAll(answer, world_size) == nullptr) {
    return {};
  }
  std::map<RasProcess, RasProgress> progress;
  bool differs = false;
  for (const RasCommunicator& communicator : answer.communicators) {
    if (communicator.ranks.size() != communicator.size) {
      return {};
    }
    const std::set<std::string> differing = WhatDiffers(communicator);
    differs |= !differing.empty();
    std::map<std::string, std::uint64_t> least;
    for (const RasRank& rank : communicator.ranks) {
      if (rank.state != RasState::kRunning) {
        return {};
      }
      for (const std::string& operation : differing) {
        const std::uint64_t count = CountOf(rank, operation);
        const auto [at, first] = least.try_emplace(operation, count);
        at->second = std::min(at->second, count);
      }
    }
    for (const RasRank& rank : communicator.ranks) {
      RasProgress& own = progress[rank.process];
      for (const auto& [operation, count] : rank.counts) {
        own.collectives += count;
        own.world_collectives += communicator.size == world_size ? count : 0;
      }
      own.waits |= std::ranges::any_of(
          least, [&](const auto& entry) { return CountOf(rank, entry.first) > entry.second; });
    }
  }
  return differs ? progress : std::map<RasProcess, RasProgress>{};
}

}  // namespace ddprun
