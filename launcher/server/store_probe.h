// Finds out whether this node reaches the store at which a generation's workers meet. The address
// is the first node's own choice: one of a network that other nodes are not on costs the workers
// minutes of vain attempts, and what they say of it names no cause.
//
// Only connects, and says so where that fails for long; decides nothing and sends nothing.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>

#include "common/asio_loop.h"
#include "common/endpoint.h"

namespace ddprun {

class StoreProbe {
 public:
  static constexpr Duration kPatience{3'000};

  // `on_unreachable`, on the loop, once per Begin: what was tried for `patience`, what came of it,
  // and what to do.
  StoreProbe(AsioLoop& loop, Duration patience,
             std::function<void(const std::string&)> on_unreachable);

  // A generation begins; of an earlier one nothing is said any more. A host that is no numeric
  // address is not looked at.
  void Begin(const Endpoint& store);
  void Cancel();

 private:
  void Connect();
  void OnTried(const boost::system::error_code& error);

  AsioLoop& loop_;
  Duration patience_;
  std::function<void(const std::string&)> on_unreachable_;
  std::string name_;
  boost::asio::ip::tcp::endpoint store_;
  std::shared_ptr<boost::asio::ip::tcp::socket> socket_;  // None: nothing is looked at.
  std::string last_;                                      // What the last attempt ended with.
  LoopTimer again_;
  LoopTimer limit_;
};

}  // namespace ddprun
