#include "launcher/server/store_probe.h"

#include <boost/asio/ip/address.hpp>
#include <utility>

namespace ddprun {
namespace {

namespace ip = boost::asio::ip;

constexpr Duration kBetweenAttempts{250};

}  // namespace

StoreProbe::StoreProbe(AsioLoop& loop, Duration patience,
                       std::function<void(const std::string&)> on_unreachable)
    : loop_(loop),
      patience_(patience),
      on_unreachable_(std::move(on_unreachable)),
      again_(loop),
      limit_(loop) {}

void StoreProbe::Begin(const Endpoint& store) {
  Cancel();
  boost::system::error_code error;
  const ip::address address = ip::make_address(store.host, error);
  if (error) {
    return;
  }
  name_ = ToString(store);
  store_ = {address, store.port};
  last_ = "no answer";
  limit_.ArmAt(loop_.Now() + patience_, [this] {
    const std::string text =
        "cannot connect to " + name_ + " (" + last_ + ", for " + FormatDuration(patience_) +
        "): the workers' store is there, at an address that rank 0's node has chosen. If that is "
        "of a network that this node is not on, name another on that node: --interface=NAME or "
        "--local-addr=ADDRESS";
    Cancel();
    on_unreachable_(text);
  });
  Connect();
}

void StoreProbe::Cancel() {
  socket_.reset();
  again_.Cancel();
  limit_.Cancel();
}

void StoreProbe::Connect() {
  socket_ = std::make_shared<ip::tcp::socket>(loop_.io());
  socket_->async_connect(
      store_, [this, mine = std::weak_ptr(socket_)](const boost::system::error_code& error) {
        if (!mine.expired()) {  // Else another attempt has begun, or this is destroyed.
          OnTried(error);
        }
      });
}

void StoreProbe::OnTried(const boost::system::error_code& error) {
  if (!error) {
    Cancel();
    return;
  }
  last_ = error.message();
  again_.ArmAt(loop_.Now() + kBetweenAttempts, [this] { Connect(); });
}

}  // namespace ddprun
