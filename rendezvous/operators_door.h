// A Unix socket in the run directory, for operators on this machine of a run that opens no port. It
// answers status, control and errands, in the messages of a server.
//
// Answers only sockets of this user and root (the kernel tells their owner), so it needs no token.
// No gRPC, no thread. Bounded: a few callers at a time, each with a small question and a time
// limit. A caller that has not read its answer by then is closed.
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

inline constexpr const char* kOperatorsDoor = "operators";  // The socket in a run directory.

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
  std::shared_ptr<State> state_;  // Shared with pending waits.
};

// Whether a run answers there. Blocks for no longer than a connection takes.
bool AnswersAtDoor(const std::filesystem::path& run_directory);

// As AskStatus and AskControl of a server. They block for twice `timeout` at most. kRefused: the
// process that listens there belongs neither to this user nor to root.
Result<std::vector<RunStatus>> AskStatusAtDoor(const std::filesystem::path& run_directory,
                                               const RunId& run_id, Duration timeout);
Result<std::string> AskControlAtDoor(const std::filesystem::path& run_directory,
                                     const ControlRequest& request, Duration timeout);
// One call of an operator's errand (messages/errand.h).
Result<AskReply> AskNodesAtDoor(const std::filesystem::path& run_directory, const Asking& asking,
                                Duration timeout);

}  // namespace ddprun
