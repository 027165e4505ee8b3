// See gloo/context.h: declarations only. The library's class has other virtual functions, so
// c10d::ProcessGroupGloo::GlooStore, which derives from this one, must never be instantiated here.
#pragma once

#include <gloo/context.h>

namespace gloo::rendezvous {

class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys,
                    const std::chrono::milliseconds& timeout) = 0;
};

}  // namespace gloo::rendezvous
