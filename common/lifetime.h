// Calls back that come too late, once the object that they are for has ended, do nothing.
//
// A member, of which the calls back of its object are made, on one thread: they may be copied and
// dropped on others.
#pragma once

#include <memory>
#include <utility>

namespace ddprun {

class Lifetime {
 public:
  // `callback`, or nothing from the end on.
  template <class Callback>
  auto Guard(Callback callback) const {
    return [life = std::weak_ptr(life_), callback = std::move(callback)](auto&&... news) {
      if (!life.expired()) {
        callback(std::forward<decltype(news)>(news)...);
      }
    };
  }

  // As if the object had ended and another one begun.
  void Renew() { life_ = std::make_shared<char>(); }

 private:
  std::shared_ptr<void> life_ = std::make_shared<char>();
};

}  // namespace ddprun
