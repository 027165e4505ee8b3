// Declarations of Gloo that c10d/ProcessGroupGloo.hpp names and the libtorch wheel does not ship.
//
// Opaque on purpose: the Gloo inside libtorch has other members and other virtual functions, so
// nothing here may be constructed, sized or subclassed by us; only pointers travel.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  Context() = delete;
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};
}  // namespace transport

}  // namespace gloo
