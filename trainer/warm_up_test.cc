// Why the preload process of a GPU training takes no step: libtorch's autograd engine serves only
// devices that were registered before the first backward pass of the process
// (torch/csrc/autograd/engine.cpp, start_device_threads).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace ddprun {
namespace {

using Call = void (*)();
using Ask = const char* (*)();

// In a process of its own: the engine counts devices once.
[[noreturn]] void TakeBackwardPasses(bool device_comes_late) {
  void* const library = dlopen(FAKE_DEVICE, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    std::fprintf(stderr, "cannot load the fake device: %s\n", dlerror());
    _exit(2);
  }
  const auto register_device = reinterpret_cast<Call>(dlsym(library, "fake_device_register"));
  const auto backward_on_cpu =
      reinterpret_cast<Call>(dlsym(library, "fake_device_backward_on_cpu"));
  const auto backward = reinterpret_cast<Ask>(dlsym(library, "fake_device_backward"));
  if (device_comes_late) {
    backward_on_cpu();
    register_device();
  } else {
    register_device();
    backward_on_cpu();
  }
  const char* const error = backward();
  std::fprintf(stderr, "backward on the device: %s\n", *error == '\0' ? "fine" : error);
  _exit(*error == '\0' ? 0 : 1);
}

TEST(AutogradEngine, ServesADeviceThatWasThereBeforeTheFirstBackwardPass) {
  EXPECT_EXIT(TakeBackwardPasses(/*device_comes_late=*/false), ::testing::ExitedWithCode(0),
              "backward on the device: fine");
}

TEST(AutogradEngine, RefusesADeviceThatCameAfterIt) {
  EXPECT_EXIT(TakeBackwardPasses(/*device_comes_late=*/true), ::testing::ExitedWithCode(1),
              "device_ready_queues_.size... INTERNAL ASSERT FAILED");
}

}  // namespace
}  // namespace ddprun
