// Where operators of this machine ask a run that listens for nobody else: a Unix socket in its run
// directory. Status, control and errands alone, in the messages that a server takes.
//
// Hears only sockets of this user's and root's (the kernel says whose they are), so no token is
// asked for. No gRPC, no thread. Bounded: a few callers at a time, a small question each, a moment
// for it; whoever has not read its answer by then is closed.
//
//   question: 'D', 'C' or 'A', length (4 bytes), DescribeRequest, ControlRequest or AskRequest; one
//             per connection
//   answer:   0, length, the reply to it; or 1 + the kind of an error, length, text
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/asio_loop.h"
#include "common/result.h"
#include "rendezvous/transport.h"

namespace ddprun {

inline constexpr const char* kOperatorsDoor = "operators";  // In a run directory.

class OperatorsDoor {
 public:
  // Mode 0600. The path may be longer than a socket's address.
  static Result<std::unique_ptr<OperatorsDoor>> Open(AsioLoop& loop,
                                                     const std::filesystem::path& run_directory,
                                                     RendezvousHandlers handlers,
                                                     std::string token);
  ~OperatorsDoor();
  OperatorsDoor(const OperatorsDoor&) = delete;
  OperatorsDoor& operator=(const OperatorsDoor&) = delete;

 private:
  class State;
  explicit OperatorsDoor(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // Shared with waits in flight.
};

// Whether somebody listens there. Blocks for no longer than a connection takes.
bool AnswersAtDoor(const std::filesystem::path& run_directory);

// As AskStatus and AskControl of a server. Block for `timeout`, and one byte's wait of as long, at
// most. kRefused: who listens there is neither this user nor root.
Result<std::vector<RunStatus>> AskStatusAtDoor(const std::filesystem::path& run_directory,
                                               const RunId& run_id, Duration timeout);
Result<std::string> AskControlAtDoor(const std::filesystem::path& run_directory,
                                     const ControlRequest& request, Duration timeout);
// One call of an operator's errand (messages/errand.h).
Result<AskReply> AskNodesAtDoor(const std::filesystem::path& run_directory, const Asking& asking,
                                Duration timeout);

}  // namespace ddprun
