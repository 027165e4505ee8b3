// A device that is no hardware, for libtorch's autograd engine: fake_device.so stands in for
// libtorch_cuda where a test asks when a process may register a device. As a GPU plug-in
// (trainer/device/gpu_plugin.h) it counts no GPU and says why.
//
// Everything is called by name: by ctypes from Python, and by dlopen from ddprun-train.
#include "trainer/device/gpu_plugin.h"

#include <ATen/ATen.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>
#include <unistd.h>

#include <string>

namespace {

constexpr auto kFake = c10::DeviceType::PrivateUse1;

struct Guard : c10::impl::NoOpDeviceGuardImpl<kFake> {
  c10::Device exchangeDevice(c10::Device) const override { return {kFake, 0}; }
  c10::Device getDevice() const override { return {kFake, 0}; }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, {kFake, 0});
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream({kFake, 0}); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

struct Hooks : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
};

struct End : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

pid_t registered_by = 0;

// The exception that `work` throws, in one line; "" where it throws nothing.
template <class Work>
std::string ErrorOf(Work work) {
  try {
    work();
    return "";
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return text.substr(0, text.find('\n'));
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string ErrorOfBackwardOnTheDevice() {
  return ErrorOf([] {
    static float numbers[3] = {1, 2, 3};
    const at::Tensor gradient = at::for_blob(numbers, {3})
                                    .options(at::TensorOptions(at::kFloat).device(kFake, 0))
                                    .target_device(c10::Device(kFake, 0))
                                    .make_tensor();
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
    auto end = c10::make_intrusive<End>();
#else
    auto end = std::make_shared<End>();
#endif
    end->add_input_metadata(gradient);
    torch::autograd::Engine::get_default_engine().execute(
        {torch::autograd::Edge(end, 0)}, {gradient}, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/true);
  });
}

// As libtorch_cuda's static objects do when it is loaded.
void Register() {
  if (registered_by != 0) {
    return;
  }
  registered_by = getpid();
  static Guard guard;
  c10::impl::DeviceGuardImplRegistrar(kFake, &guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::register_privateuse1_backend("fake");
}

struct FakePlugin : ddprun::GpuPlugin {
  template <class T>
  using Result = ddprun::Result<T>;
  static ddprun::Error None() { return {ddprun::ErrorKind::kSystem, "there is no GPU"}; }

  Result<ddprun::DeviceCount> CountDevices() const override {
    const std::string error = ErrorOfBackwardOnTheDevice();
    return ddprun::DeviceCount{0, "registered by process " + std::to_string(registered_by) +
                                      ", asked by " + std::to_string(getpid()) +
                                      ", backward: " + (error.empty() ? "fine" : error)};
  }
  Result<void> SetDevice(int) const override { return None(); }
  Result<ddprun::DeviceFacts> Describe(int) const override { return None(); }
  Result<c10d::Backend*> MakeNccl(c10d::Store*, int, int, int,
                                  std::chrono::milliseconds) const override {
    return None();
  }
  std::unique_ptr<ddprun::StepGraph> MakeStepGraph() const override { return nullptr; }
  std::string NcclVersion() const override { return ""; }
};

}  // namespace

extern "C" {

void fake_device_register() {
  Register();
}

// A backward pass whose gradient lies on the device: "", or why the engine refuses it.
const char* fake_device_backward() {
  static std::string text;
  text = ErrorOfBackwardOnTheDevice();
  return text.c_str();
}

const ddprun::GpuPlugin* ddprun_gpu_plugin_4(const char*) {
  Register();
  static const FakePlugin plugin;
  return &plugin;
}

}  // extern "C"
