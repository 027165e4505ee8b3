// The claims in a directory that nodes share, as files.
//
//   <directory>/term-<n>    six lines of fixed width: kind, term, endpoint, counter, closed
//                           (0: no, 1: let go, 2: its run is over), lease; and one for each of the
//                           runs that have ended; before these, which agent died that held it
//   <directory>/endpoint    of the server that serves now, for people and verbs
//   <directory>/token       what its operators must show, mode 0600; stays when the server moves
//   <directory>/lock        of a state directory: held by the one server that may use it
//
// A claim is made whole beside and linked to its number, so no reader sees half of one and of two
// makers one is refused, on NFS too; it is never removed, or its number could be made again. Its
// counter is written in place; a read that meets the writing sees another counter, which is true.
// Where a run has ended a new file takes its name. A claim that is torn all the same (a disk that
// lost power, a foreign hand) is an open claim without a holder: the real holder, if there is one,
// writes it anew within a third of a lease, and else it stands still.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "common/files.h"
#include "common/result.h"
#include "rendezvous/failover/claims.h"

namespace ddprun {

std::string Encode(const Claim& claim);
// `number` is the file's name's, not in its text.
Result<Claim> DecodeClaim(const std::string& text, std::uint64_t number);

// The owner of a directory, for people.
struct ClaimPlace {
  const char* name;
  const char* flag;
};
inline constexpr ClaimPlace kRunDirectory{"run directory", "--run-dir"};        // All nodes'.
inline constexpr ClaimPlace kStateDirectory{"state directory", "--state-dir"};  // One server's.

class ClaimDirectory final : public Claims {
 public:
  explicit ClaimDirectory(std::filesystem::path path, ClaimPlace place = kRunDirectory)
      : path_(std::move(path)), place_(place) {}

  // Makes the directory where it is missing, and tries whether files can be made in it. kInvalid:
  // not so.
  Result<void> Prepare() const;
  // Of a state directory: no other process has it until the descriptor closes. kInvalid: a server
  // has it already, or it is a run directory.
  Result<UniqueFd> Lock() const;
  // Of a locked one: removes claims that were followed long ago.
  void RemoveBefore(std::uint64_t number) const;

  Result<std::optional<Claim>> Newest() override;
  Result<Claim> Make(const Claim& claim) override;
  Result<bool> Move(const Claim& claim) override;
  Result<void> Announce(const Endpoint& endpoint, const std::string& token) override;
  std::string Where() const override {
    return std::string("the ") + place_.name + " '" + path_.native() + "'";
  }

 private:
  std::filesystem::path FileOf(std::uint64_t number) const;
  Result<Claim> Read(std::uint64_t number) const;
  Result<std::string> TextOf(std::uint64_t number) const;
  // The numbers of claims, as far as the directory's listing has them.
  Result<std::set<std::uint64_t>> Listed() const;
  // In place of a torn claim: the contents of the last whole one of `known` before it.
  Claim Unknown(std::uint64_t number, const std::set<std::uint64_t>& known) const;
  Result<void> Replace(const std::filesystem::path& file, const std::string& text) const;

  std::filesystem::path path_;
  ClaimPlace place_;
};

}  // namespace ddprun
