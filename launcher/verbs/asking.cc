#include "launcher/verbs/asking.h"

#include <charconv>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "rendezvous/messages/limits.h"
#include "rendezvous/operators_door.h"

namespace ddprun {
namespace {

constexpr Duration kAnswerLimit{10'000};  // Beyond the wait.
// A server refuses calls of one connection that come faster than 100 a second.
constexpr Duration kBetweenCalls{12};

Result<AskingWay> WayToPlace(const ServerPlace& place) {
  if (place.door.empty()) {
    return WayToAsk(place.endpoint, place.access, kLongestWait + kAnswerLimit);
  }
  return AskingWay([door = place.door](const Asking& asking) {
    return AskNodesAtDoor(door, asking, kLongestWait + kAnswerLimit);
  });
}

std::optional<std::uint32_t> RankIn(std::string_view text) {
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc{} || end != text.data() + text.size() || rank > kMaxWorld) {
    return std::nullopt;
  }
  return rank;
}

}  // namespace

Result<NodesAsked> NodesAsked::Find(const ServerQuery& server, ErrandWish wish,
                                    std::vector<NodeId> nodes) {
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(server));
  ASSIGN_OR_RETURN(AskingWay way, WayToPlace(place));
  std::random_device device;
  Asking asking;
  asking.run_id = server.run_id;
  asking.ask = static_cast<std::uint64_t>(device()) << 32 | device();
  asking.token = place.access.token;
  asking.wish = std::move(wish);
  asking.nodes = std::move(nodes);
  return NodesAsked(std::move(way), std::move(asking));
}

Result<AskReply> NodesAsked::Call(std::vector<TakenPiece> taken, Duration wait) {
  if (asking_.call > 0) {
    std::this_thread::sleep_for(kBetweenCalls);
  }
  ++asking_.call;
  asking_.taken = std::move(taken);
  asking_.wait = std::min(wait, kLongestWait);
  return way_(asking_);
}

Result<std::vector<RankSpan>> ParseRankSpans(const std::string& flag, const std::string& text) {
  std::vector<RankSpan> spans;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = std::string_view(text).substr(begin, end - begin);
    const std::size_t dash = entry.find('-');
    const auto first = RankIn(entry.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : RankIn(entry.substr(dash + 1));
    if (!first || !last || *first > *last) {
      return Invalid(flag + " must be ranks and spans of them, like 3,7,10-12", text);
    }
    spans.push_back({*first, *last});
    begin = end + 1;
  }
  if (spans.size() > kMostRankSpans) {
    return Invalid(flag + " takes " + std::to_string(kMostRankSpans) + " ranks and spans at most",
                   text);
  }
  return spans;
}

std::string RankSpansText(const std::vector<std::uint32_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    text += last == i ? "" : "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace ddprun
