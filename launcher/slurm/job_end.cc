#include "launcher/slurm/job_end.h"

#include <re2/re2.h>

#include <chrono>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/slug.h"
#include "common/text.h"
#include "common/wall_clock.h"

namespace ddprun {
namespace {

constexpr Duration kQueuePatience{60'000};  // A busy slurmctld; nothing waits for it.
constexpr Duration kLongest = std::chrono::hours(24 * 366);

}  // namespace

std::optional<Duration> ParseTimeLeft(std::string_view text) {
  static const RE2 form(R"((?:(?:(?:(\d{1,6})-)?(\d{1,6}):)?(\d{1,6}):)?(\d{1,6}))");
  std::string days;
  std::string hours;
  std::string minutes;
  std::string seconds;
  if (!RE2::FullMatch(text, form, &days, &hours, &minutes, &seconds)) {
    return std::nullopt;
  }
  const auto number = [](const std::string& digits) {
    return ParseNumber<std::int64_t>(digits).value_or(0);  // None are there.
  };
  return std::chrono::hours(number(days) * 24 + number(hours)) +
         std::chrono::minutes(number(minutes)) + std::chrono::seconds(number(seconds));
}

JobEnd::JobEnd(AsioLoop& loop, const LaunchConfig& config,
               std::function<void(const JobEndKnown&)> on_known)
    : loop_(loop), config_(config), on_known_(std::move(on_known)) {
  const LaunchContext& context = config.context;
  if (config.time_limit > Duration{0}) {
    Know(config.time_limit, "--time-limit");
  } else if (context.ends_at) {
    Know(std::chrono::seconds(*context.ends_at) - Duration(UnixMilliseconds()),
         "SLURM_JOB_END_TIME");
  } else if (config.stop_before > Duration{0} && context.speaks_for_job) {
    const std::vector<std::string> words = {"squeue", "--noheader", "--jobs=" + context.job,
                                            "--format=%L"};
    squeue_.emplace(loop, words, kQueuePatience, [this](const Result<std::string>& printed) {
      const auto left = printed ? ParseTimeLeft(*printed) : std::nullopt;
      if (left) {
        Know(*left, "squeue");
        return;
      }
      Log(LogLevel::kWarning,
          "ignoring --stop-before: the job's end time is unknown (squeue: " +
              (printed ? "it printed '" + *printed + "'" : WithoutSlug(printed.error().message)) +
              "); set --time-limit [stop-before]");
    });
  }
}

void JobEnd::Know(Duration left, const std::string& origin) {
  if (left <= Duration{0} || left > kLongest) {
    const bool wanted = config_.stop_before > Duration{0};
    Log(wanted ? LogLevel::kWarning : LogLevel::kDebug,
        std::string(wanted ? "ignoring --stop-before: " : "") + origin +
            " does not give a usable end of the job; set --time-limit [stop-before]");
    return;
  }
  JobEndKnown known;
  known.ends = loop_.Now() + left;
  known.unix_seconds =
      std::chrono::floor<std::chrono::seconds>(Duration(UnixMilliseconds()) + left).count();
  const Duration before = config_.stop_before;
  std::string text = "the job ends in " + FormatDuration(left) + " (" + origin + ")";
  const bool soon = before >= left;
  if (soon) {
    text = "ignoring --stop-before=" + FormatDuration(before) + ": " + text + " [stop-before]";
  } else if (before > Duration{0}) {
    known.stop = known.ends - before;
    text += "; the workers are asked to save " + FormatDuration(before) + " before (--stop-before)";
  }
  const bool first = config_.context.speaks_for_job || config_.context.job.empty();
  Log(soon ? LogLevel::kWarning : first ? LogLevel::kInfo : LogLevel::kDebug, text);
  on_known_(known);
}

}  // namespace ddprun
