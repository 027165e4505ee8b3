#include "trainer/models/placement.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace ddprun {

Result<void> Place(TorchModel& model, const std::vector<std::string>& devices) {
  if (devices.empty()) {
    return {};
  }
  const std::size_t parts =
      model.parts.empty() ? 1 : 1 + *std::max_element(model.parts.begin(), model.parts.end());
  if (model.parts.empty() || parts != devices.size()) {
    const std::string names = std::to_string(devices.size()) + " devices";
    return Invalid(parts == 1 ? "--split-devices: this model cannot be split"
                              : "--split-devices must name a device for each of the model's " +
                                    std::to_string(parts) + " parts",
                   names);
  }
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string& name = devices[model.parts[i]];
    try {
      // As nn.Module.to: the parameter stays the same tensor, which forward holds too.
      model.parameters[i].set_data(model.parameters[i].to(at::Device(name)));
    } catch (const c10::Error& error) {
      // torch continues with all backends there are.
      const std::string text = error.what_without_backtrace();
      return Error{ErrorKind::kInvalid,
                   "--split-devices: cannot put " + model.names[i] + " on '" + name +
                       "': " + text.substr(0, std::min(text.find('\n'), text.find(". ")))};
    }
  }
  return {};
}

}  // namespace ddprun
