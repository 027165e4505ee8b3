// The page, probes and metrics of a server alone: on its own port, and where --http-listen says.
//
// Puts together and passes on. Lives on the loop; the loop ends before its callers do.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/asio_loop.h"
#include "launcher/command_line/config.h"
#include "launcher/watching/page_listener.h"
#include "rendezvous/driver.h"

namespace ddprun {

class ServerWatch {
 public:
  // Of the server that is here now; nullptr: another one serves.
  using Here = std::function<CoordinatorDriver*()>;
  // Where this one answers, and where the server of its runs is; port 0: not known.
  using Where = std::function<Endpoint()>;

  ServerWatch(AsioLoop& loop, const ServerConfig& config, std::string token)
      : loop_(loop), config_(config), token_(std::move(token)) {}

  // Binds what --http-listen says, if it does.
  Result<void> Bind();
  // From now on.
  Result<void> Open(Here here, Where served_at, Where server);
  // Handles browsers' connections to the server's port; without a browser's certificate none comes.
  std::function<void(UniqueFd, std::string)> OfPort();

 private:
  ServerView Look() const;

  AsioLoop& loop_;
  const ServerConfig& config_;
  const std::string token_;
  std::optional<ListenSocket> socket_;  // Until it is watched.
  Endpoint page_;                       // Port 0: without --http-listen.
  Here here_;
  Where served_at_, server_;
  std::unique_ptr<HttpListener> watch_;
};

}  // namespace ddprun
