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
  // After it a silent peer counts as lost: too short ends ranks at a slow step, too long finds a
  // dead peer late.
  std::chrono::milliseconds timeout{120'000};
  // Network interface for the ranks' connections (GLOO_SOCKET_IFNAME): one that this machine lacks
  // is an error; empty: the one that reaches the store.
  std::string interface;
  // The library of collectives: one that the devices do not have is an error.
  BackendChoice backend = BackendChoice::kAuto;
  // Where this rank's tensors are: two ranks on one GPU cannot use NCCL.
  Device device;
  // The group's name: two groups of one generation with one name mix their messages.
  std::string name = "main";
  // Settles the values on which ranks must agree before they are a group; null: ranks with
  // different settings train together.
  std::function<Result<void>(Board&)> settle;
};

}  // namespace ddprun
