// Finds the server of a run that took the first free one of several ports, and leads a channel to
// it. For a node that knows the host, the ports and the run's name, and may come before the server.
//
// Asks every port in turn, and again until one serves this run; whatever else listens there is
// passed over. Asking blocks, so it is done on the loop's pool thread. Decides nothing else; how
// long a node waits is its agent's.
#pragma once

#include <memory>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/loop.h"
#include "rendezvous/door/tls.h"
#include "rendezvous/succession/following_channel.h"

namespace ddprun {

struct ServerQuest {
  Endpoint first;
  std::uint16_t ports = 1;
  RunId run_id;
  Access access;
  bool sealed = false;  // MUNGE works here, so the token is the one that the server has sealed.
  std::string why_not = "";  // Else: what it said, for people.
};

class ServerSeeker {
 public:
  // `channel` is used until this is destroyed.
  ServerSeeker(Loop& loop, ServerQuest quest, FollowingChannel& channel);
  ~ServerSeeker();
  ServerSeeker(const ServerSeeker&) = delete;
  ServerSeeker& operator=(const ServerSeeker&) = delete;

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with a question that is being asked.
};

}  // namespace ddprun
