// Serves a StoreTable to c10d clients over TCP: torch's TCPStore, or anything that speaks as it
// does, sees no difference.
//
// Decides nothing about keys (store_table.h) or bytes (store_protocol.h). Never lets one peer
// disturb another: requests that are wrong, too large or too many end their peer's connection, with
// one logged reason. All on the loop thread; nothing blocks, and each iteration sends little.
//
//   readable --bytes--> parser --request--> table --answers--> outputs --> writable
// A connection with a reply that its peer has not taken yet is not read from.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/lifetime.h"
#include "rendezvous/listener/rejected.h"
#include "rendezvous/store/allow_list.h"
#include "rendezvous/store/refused_clients.h"
#include "rendezvous/store/store_protocol.h"
#include "rendezvous/store/store_table.h"

namespace ddprun {

struct StoreOptions {
  // The bytes of all keys and values: a request that would exceed them closes its connection.
  std::size_t max_store_bytes = 1 << 30;
  // The unfinished request and unsent replies of one connection: beyond it the connection is
  // closed, so less than StoreLimits::request_bytes refuses allowed requests.
  std::size_t max_connection_bytes = 512 << 20;
  // The same of all connections together: beyond it those that hold the most are closed; too large
  // a bound lets clients fill the memory.
  std::size_t max_traffic_bytes = 1 << 30;
  // Connections at once: too few refuse workers of a large world.
  std::size_t max_connections = 32 << 10;
  // From the connection to VALIDATE: too short closes clients of a busy machine, too long keeps
  // silent connections.
  Duration validate_timeout = std::chrono::seconds(10);
  // The bounds of a request: a larger one closes its connection.
  StoreLimits limits;
  // The addresses from which clients may come: too few refuse workers, too many let other processes
  // change the workers' keys.
  AllowList allowed;
  // Set by the caller that ends the store, on any thread: requests that clients made until then are
  // not begun, so that its loop is free. None: it ends by Close alone.
  std::shared_ptr<const std::atomic<bool>> over = nullptr;
};

class StoreServer {
 public:
  StoreServer(AsioLoop& loop, const StoreOptions& options);
  ~StoreServer() = default;  // On the loop thread, or after the loop has ended.
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // Takes the connections that come to `listener`, which listens and does not block. Call it once.
  void Serve(UniqueFd listener);

  // Takes over a connection that another listener accepted.
  void Adopt(int socket);

  std::size_t connections() const { return connections_.size(); }
  std::size_t bytes() const { return table_.bytes(); }
  std::size_t traffic() const { return traffic_; }
  std::uint64_t rejected() const { return rejected_.count(); }

 private:
  struct Connection {
    boost::asio::ip::tcp::socket socket;
    std::string peer;
    StoreParser parser;
    StoreOutput output;
    std::string unread;    // Read from the socket while a reply was unsent.
    std::size_t held = 0;  // The bytes of this connection in traffic_.
    bool reading = false;  // A wait for more bytes is armed.
  };

  bool Over() const { return options_.over != nullptr && *options_.over; }
  void ArmAccept();
  void AcceptAll();
  void ArmRead(StoreClientId id, Connection& connection);
  void ArmWrite(StoreClientId id, Connection& connection);
  void OnReadable(StoreClientId id);
  void OnWritable(StoreClientId id);
  void Process(StoreClientId id, std::string_view bytes);
  void Deliver();
  bool Flush(StoreClientId id, Connection& connection);
  void KeepBounds(StoreClientId id);
  void DropLargest();
  void Drop(StoreClientId id, std::string_view reason);
  void ExpireSilent();

  AsioLoop& loop_;
  StoreOptions options_;
  StoreTable table_;
  boost::asio::ip::tcp::acceptor acceptor_;
  LoopTimer accept_again_;
  LoopTimer silence_;
  std::map<StoreClientId, Connection> connections_;
  StoreClientId last_id_;
  std::size_t traffic_ = 0;
  std::deque<std::pair<Time, StoreClientId>> silent_until_;  // In order of time.
  std::vector<StoreAnswer> answers_;                         // Not delivered yet.
  bool delivering_ = false;
  std::vector<char> read_buffer_;
  std::vector<char> write_buffer_;
  RejectedConnections rejected_;
  RefusedClients refused_;
  const Lifetime life_;
};

}  // namespace ddprun
