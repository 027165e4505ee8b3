// How ranks become a group, as the command line says.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/result.h"
#include "trainer/backend.h"
#include "trainer/device/choose_device.h"

namespace ddprun {

class Board;

struct GroupOptions {
  std::chrono::seconds timeout{120};
  // Network interface for the ranks' connections (GLOO_SOCKET_IFNAME). Empty: the one that
  // reaches the store.
  std::string interface;
  BackendChoice backend = BackendChoice::kAuto;
  Device device;              // Where this rank's tensors are.
  std::string name = "main";  // A second group of the same generation needs another one.
  // Settles what the ranks must agree on before they are a group; null: nothing.
  std::function<Result<void>(Board&)> settle;
};

}  // namespace ddprun
