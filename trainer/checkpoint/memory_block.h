// A snapshot in a block of memory that outlives the process (docs/recovery.md), as bytes.
//
//   head | magic, size and digest of the rest
//   rest | one safetensors file: model, optimizer, and the training's state in its metadata
//
// A block is written, then handed over, and not written again until another one has taken its
// place. So the one that is found is whole; the digest is against all that goes wrong nevertheless.
#pragma once

#include <cstddef>

#include "common/result.h"
#include "trainer/checkpoint/bytes.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

// The bytes that a block needs for such snapshots, with room for a longer state.
std::size_t BlockBytes(const Snapshot& snapshot);

// False: it does not fit, and the block is as it was.
bool WriteBlock(Bytes& block, const Snapshot& snapshot);

// Why the block is not valid, or its contents: the tensors' bytes are the block's.
Result<Snapshot> ReadBlock(const Bytes& block);

}  // namespace ddprun
