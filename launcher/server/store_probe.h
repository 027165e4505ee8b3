// Finds out whether this node reaches the store at which a generation's workers meet, and whether
// the store lets it in. The address is the first node's own choice: one of a network that other
// nodes are not on costs the workers minutes of vain attempts, and so does a NAT or a proxy on the
// way to it. The workers' own messages about it name no cause.
//
// Asks from this node, over the way that its workers take: other clients of the store change
// nothing here. Says so where it fails for long; decides nothing else.
//
//   Begin -> connecting --no answer for `unreachable`--> said, over
//            connecting --connected--> asking --let in, or an older store--> over
//            asking --refused--> said once; asks again each second
//            asking --refused, and so were `most` of its workers' tries, or they have been trying
//                     for `refused`--> on_refused, over
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/asio_loop.h"
#include "common/endpoint.h"

namespace ddprun {

class StoreProbe {
 public:
  struct Patience {
    Duration unreachable{3'000};
    Duration refused{30'000};  // torch's clients try less and less often: ten times in 40 s.
    std::uint64_t most = 10;
    Duration between{1'000};  // Questions.
  };
  struct Tells {
    // The warning for the user: what was tried, its result, and what to do.
    std::function<void(const std::string&)> warning;
    // The workers try in vain, and will: why, and what to set.
    std::function<void(const std::string&)> on_refused;
  };

  // `tells`: on the loop, each at most once per Begin.
  StoreProbe(AsioLoop& loop, Patience patience, Tells tells);

  // A generation begins; of an earlier one nothing is said any more. A host that is no numeric
  // address is not looked at.
  void Begin(const Endpoint& store);
  void Cancel();

 private:
  void Connect();
  void OnTried(const boost::system::error_code& error);
  void Read();
  void OnAnswer();

  AsioLoop& loop_;
  const Patience patience_;
  const Tells tells_;
  std::string name_;
  boost::asio::ip::tcp::endpoint store_;
  std::shared_ptr<boost::asio::ip::tcp::socket> socket_;  // None: nothing is looked at.
  std::string last_;                                      // The result of the last attempt.
  std::array<char, 256> buffer_{};
  std::string answer_;
  bool warned_ = false;              // That this generation's store refuses.
  std::optional<Time> tries_since_;  // The workers of this generation, as its store has seen.
  bool refused_before_ = false;      // A generation has ended for it: the next one need not wait.
  LoopTimer again_;
  LoopTimer limit_;
};

}  // namespace ddprun
