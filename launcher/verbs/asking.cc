#include "launcher/verbs/asking.h"

#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

constexpr Duration kAnswerLimit{10'000};  // Beyond the wait.
// A server refuses calls of one connection that come faster than 100 a second.
constexpr Duration kBetweenCalls{12};

}  // namespace

Result<NodesAsked> NodesAsked::Find(const ServerQuery& server, ErrandWish wish,
                                    std::vector<NodeId> nodes) {
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(server));
  ASSIGN_OR_RETURN(AskingWay way, WayToAsk(place, kLongestWait + kAnswerLimit));
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

}  // namespace ddprun
