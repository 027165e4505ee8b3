// The memory that values take, so that what a run may hold can be bounded (keeping.h).
//
// Counts what containers allocate as GNU's library does; a few bytes more or less do not matter.
#pragma once

#include <cstddef>
#include <string>

#include "rendezvous/messages/messages.h"

namespace ddprun {

inline constexpr std::size_t kTreeNode = 48;  // Of a map or a set, beside its value.

// Beside the string itself.
std::size_t HeapOf(const std::string& text);

std::size_t BytesOf(const WorkerFailure& failure);

// Assigning an empty one would keep its memory.
template <class Container>
void Drop(Container& values) {
  Container().swap(values);
}

// The rest names the worker and how it ended.
void DropTexts(WorkerFailure& failure);

}  // namespace ddprun
