// c10d's backend for ranks that share memory.
//
// Small tensors are reduced in the calling thread: handing them to another and back would cost more
// than the work. Large ones go to a thread of the backend, so that backward goes on meanwhile. It
// has sums of floating-point numbers, broadcast and barrier, of dense CPU tensors: c10d's Reducer
// and the process group need these. c10d's base class refuses the rest.
#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/group/shared_world.h"

namespace ddprun {

// Whether it adds up tensors of this type.
bool ShmReduces(at::ScalarType type);
at::ScalarType TypeOf(Element element);

// `across`: all-reduces sums of several nodes, and does nothing else.
c10::intrusive_ptr<c10d::Backend> MakeShmBackend(std::shared_ptr<SharedWorld> world,
                                                 SharedWorld::Across across = {});

}  // namespace ddprun
