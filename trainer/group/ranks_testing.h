// For tests: ranks that are threads of one process, and the board that they share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/group/shared_join.h"

namespace ddprun {

class MapBoard : public Board {
 public:
  Result<void> Set(const std::string& key, const std::string& text) override {
    const std::lock_guard lock(mutex_);
    texts_[key] = change_ ? change_(key, text) : text;
    changed_.notify_all();
    return {};
  }
  Result<std::string> Get(const std::string& key) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return texts_.contains(key); })) {
      return Error{ErrorKind::kUnavailable, "nobody said " + key};
    }
    return texts_[key];
  }
  std::function<std::string(const std::string& key, const std::string& text)> change_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> texts_;
};

// Returns when all have done their work.
inline void OnRanks(std::size_t size, const std::function<void(std::size_t rank)>& work) {
  std::vector<std::jthread> ranks;
  for (std::size_t rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&work, rank] { work(rank); });
  }
}

}  // namespace ddprun
