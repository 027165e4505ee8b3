// CHECK(condition): a programmer's error ends the process with a message, in every build type.
//
// Never for what the world does (files, sockets, peers): that is a Result. Never compiled out.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace ddprun {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "ddprun: internal error: CHECK(%s) failed at %s:%d\n", condition, file,
               line);
  std::abort();
}

}  // namespace ddprun

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) {                                      \
      ::ddprun::CheckFailed(#condition, __FILE__, __LINE__); \
    }                                                        \
  } while (false)
