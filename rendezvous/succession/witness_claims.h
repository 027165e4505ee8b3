// The claims to the server's part as kept by the nodes of a fixed list (core/succession/witness.h):
// asks all of them at once, and waits until a majority has decided, a sixth of a lease at most.
//
// Those that are slower are still told: their calls go on beside. One that cannot be reached costs
// nothing as long as a majority can. How a request gets to a witness is WitnessCalls'.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "rendezvous/core/succession/witness.h"
#include "rendezvous/succession/claims.h"

namespace ddprun {

// The same for the same list in the same order.
std::uint64_t DigestOf(const std::vector<Endpoint>& list);

// One request to every witness, and what has come of it. Answers may come on any thread.
class WitnessRound {
 public:
  WitnessRound(std::size_t listed, const WitnessRequest& request) : ballot_(listed, request) {}

  // One more is asked.
  void Expect();
  void Add(std::size_t witness, const Result<WitnessAnswer>& answer);
  // More answers can change nothing, or none is to come.
  bool IsOver() const;
  // Blocks until it is.
  void Wait();

  // What has come so far.
  Ballot ballot() const;
  std::string trouble() const;  // What one that did not answer said.

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t open_ = 0;
  Ballot ballot_;
  std::string trouble_;
};

// How requests reach the witnesses of a list: gRPC (client_witness.h), or what stands for a
// network in a simulation.
class WitnessCalls {
 public:
  using Done = std::function<void(const Result<WitnessAnswer>&)>;

  virtual ~WitnessCalls() = default;  // Gives up what is still under way.

  // May block while a name is looked up. `done` comes once, on any thread, or from inside; an error
  // when `patience` is over.
  virtual void Send(std::size_t witness, const WitnessRequest& request, Duration patience,
                    Done done) = 0;
  // Until the round is over.
  virtual void Await(WitnessRound& round) { round.Wait(); }
};

class WitnessClaims final : public Claims {
 public:
  WitnessClaims(std::vector<Endpoint> list, std::unique_ptr<WitnessCalls> calls);

  Result<std::optional<Claim>> Newest(Duration lease) override;
  Result<Claim> Make(const Claim& claim, Duration lease) override;
  Result<bool> Move(const Claim& claim, Duration lease) override;
  Result<void> Announce(const Endpoint& endpoint, const std::string& token) override;
  std::string Where() const override;

 private:
  // Nobody waits for it.
  void Tell(std::size_t witness, const WitnessRequest& request,
            const std::shared_ptr<WitnessRound>& round);
  std::shared_ptr<WitnessRound> TellAll(const WitnessRequest& request);
  Ballot Ask(const WitnessRequest& request);
  Error Explained(Error error) const;

  const std::vector<Endpoint> list_;
  const std::uint64_t digest_;
  bool everybody_new_ = false;  // In the last look.
  std::string trouble_;         // What one that did not answer the last round said.
  const std::unique_ptr<WitnessCalls> calls_;
};

}  // namespace ddprun
