// The stores of this node, one generation after the other, as its driver asks for them: where the
// next one will be found, and the one that runs. Real ones listen (listening_stores.h), others are
// a simulation's.
//
//   Bind -> Offer (reported to the coordinator) -> Begin -> End -> Offer (another one) -> ...
#pragma once

#include <string>

#include "common/endpoint.h"
#include "common/result.h"

namespace ddprun {

class NodeStores {
 public:
  virtual ~NodeStores() = default;

  // Binds the next generation's port unless one is bound already.
  virtual Result<void> Bind() = 0;
  // The endpoint to tell others. Port 0 where none could be bound, which is said.
  virtual Endpoint Offer() = 0;

  // The generation begins whose store was offered, if one could be. `peers`: the addresses of its
  // nodes, which are let in beside those that the options name; empty: not known.
  virtual void Begin(const std::string& peers) = 0;
  virtual void End() = 0;
};

}  // namespace ddprun
