// Memory that one process writes and another one reads once the first is dead, however that died:
// two halves that are written in turn, each with a sequence, a length and a digest. A half that was
// not written whole does not count, so the other one does.
//
// Never waits: it is no file, and all of it is there from the start.
#pragma once

#include <cstdint>
#include <optional>

#include "common/files.h"
#include "common/result.h"
#include "rendezvous/succession/estate.h"

namespace ddprun {

inline constexpr std::size_t kMostEstate = 48 << 10;  // Bytes; some 700 nodes.

class EstateMemory {
 public:
  static Result<EstateMemory> Make();

  int fd() const { return fd_.get(); }
  // One that is larger than a claim can hold is none.
  void Hold(const std::optional<HeldEstate>& held);

  // What was held last.
  static std::optional<HeldEstate> Read(int fd);

 private:
  explicit EstateMemory(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::uint64_t sequence_ = 0;
};

}  // namespace ddprun
