// The state that a worker reports of itself when it is asked (proto/notify.h, AskSocketBeside): a
// thread of its own answers, where ddprun watches a Python program.
//
// Blocks, until `deadline`. Trusts nothing that comes: it is bounded, untrusted text.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun {

// True: all of it came. False: that process does not listen there (a child has its parent's
// environment), or not in time (its interpreter may be held);
// or more than `most` bytes, of which the first were put.
bool AskWorker(const std::string& socket, int pid, std::string_view question, std::size_t most,
               std::chrono::steady_clock::time_point deadline,
               const std::function<void(std::string_view)>& put);

}  // namespace ddprun
