// As at the limit of processes, which knows no root: for a time no thread can be had.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace ddprun::testing {

class NoMoreThreads {
 public:
  NoMoreThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t too_large = before_;
    ::pthread_attr_setstacksize(&too_large, std::size_t{1} << 50);  // No address space has it.
    ::pthread_setattr_default_np(&too_large);
  }
  ~NoMoreThreads() { ::pthread_setattr_default_np(&before_); }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace ddprun::testing
