// The wait that GCC 12 calls by a new version, and older libraries know under an older one: with
// this inside, programs that share libtorch's libstdc++ need none newer than GLIBCXX_3.4.29 (GCC
// 11).
#include <pthread.h>

#include <condition_variable>
#include <mutex>

// std::condition_variable::wait(std::unique_lock<std::mutex>&), by the name that the linker looks
// for.
extern "C" __attribute__((visibility("hidden"))) void WaitOfGcc12(
    std::condition_variable* condition, std::unique_lock<std::mutex>& lock) noexcept
    __asm__("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");

extern "C" void WaitOfGcc12(std::condition_variable* condition,
                            std::unique_lock<std::mutex>& lock) noexcept {
  pthread_cond_wait(condition->native_handle(), lock.mutex()->native_handle());
}
