#include "launcher/check/node_look.h"

#include "agent/host/node_check.h"
#include "common/asio_loop.h"
#include "launcher/command_line/addresses.h"
#include "launcher/command_line/host_places.h"

namespace ddprun {
namespace {

std::string AskUser(const CheckWorkerRequest& request) {
  AsioLoop loop;
  NodeCheck check(loop, request.node_check, request.node_check_timeout);
  std::string verdict;
  loop.Post([&] {
    check.Run("check", [&](const std::string& why) {
      verdict = why;
      loop.Stop();
    });
  });
  loop.Run();
  return verdict;
}

}  // namespace

CheckedNode LookAtNode(const CheckWorkerRequest& request) {
  CheckedNode node;
  node.host = node.name = HostName();
  if (request.facts) {
    HostView view = LookAtHost(WatchedHost());
    node.facts = std::move(view.facts);
    node.refuses = std::move(view.refuses);
  }
  node.asked = !request.node_check.empty();
  node.node_check = node.asked ? AskUser(request) : "";
  return node;
}

}  // namespace ddprun
