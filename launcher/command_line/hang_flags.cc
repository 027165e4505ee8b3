#include "launcher/command_line/hang_flags.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun {
namespace {

void ResolveProgress(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (raw.progress_from.empty()) {
    return;
  }
  const auto forms = ProgressForms::Make(raw.progress_from);
  if (forms) {
    config.progress_from = *forms;
  } else {
    problems.Add("--progress-from must be auto, or a regular expression (RE2's) with a group: " +
                 forms.error().message);
  }
}

void ResolveHang(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  constexpr std::array<std::string_view, 3> kWords = {"restart", "fail", "observe"};
  const auto found = std::find(kWords.begin(), kWords.end(), raw.on_hang);
  if (found == kWords.end()) {
    problems.Add("--on-hang must be restart, fail or observe: '" + raw.on_hang + "'");
    return;
  }
  config.spec.on_hang = static_cast<std::uint32_t>(found - kWords.begin());
  if (IsSet(config, "hang-timeout")) {
    return;
  }
  if (IsSet(config, "start-timeout") || !raw.attach_rank.empty()) {
    config.hang_timeout = Duration{0};  // A start alone is judged; a debugger may hold a worker.
  } else if (!IsSet(config, "on-hang")) {
    config.hang_by_default = true;
    config.spec.on_hang = kHangIsTold;
  }
}

}  // namespace

void ResolveHangFlags(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  ResolveProgress(raw, config, problems);
  ResolveHang(raw, config, problems);
}

void ResolveCheckFlags(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (config.node_check_timeout == Duration{0}) {
    problems.Add("--node-check-timeout must be more than 0: a check needs a moment");
  }
  constexpr std::array<std::string_view, 3> kWords = {"on", "observe", "off"};  // As HostCheck.
  const auto found = std::find(kWords.begin(), kWords.end(), raw.host_check);
  if (found == kWords.end()) {
    problems.Add("--host-check must be on, observe or off: '" + raw.host_check + "'");
    return;
  }
  config.host_check = static_cast<HostCheck>(found - kWords.begin());
}

}  // namespace ddprun
