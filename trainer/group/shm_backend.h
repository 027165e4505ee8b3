// c10d's backend for ranks that share memory.
//
// Small tensors are reduced in the calling thread: handing them to another and back would cost more
// than the work. Large ones go to a thread of the backend, so that backward goes on meanwhile. Has
// what c10d's Reducer and the process group need: all-reduce, reduce, broadcast, all-gather,
// barrier, of dense CPU tensors; the rest is refused by c10d's base class.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ddprun {

class SharedWorld;

c10::intrusive_ptr<c10d::Backend> MakeShmBackend(std::shared_ptr<SharedWorld> world);

}  // namespace ddprun
