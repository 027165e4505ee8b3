#include "launcher/command_line/config.h"

#include <re2/re2.h>
#include <signal.h>

#include <algorithm>
#include <set>

#include "agent/workers/worker_spec.h"
#include "common/text.h"
#include "rendezvous/core/coordinator.h"

namespace ddprun {
Result<Endpoint> ParseHttpListen(const std::string& text) {
  const bool no_host = text.starts_with(':');
  const Result<Endpoint> listen = ParseEndpoint((no_host ? "0.0.0.0" : "") + text, std::nullopt);
  return listen ? listen
                : Error{ErrorKind::kInvalid,
                        "--http-listen must be HOST:PORT or :PORT: " + listen.error().message};
}

Result<std::pair<std::uint32_t, std::uint32_t>> ParseNodes(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string low = text.substr(0, colon);
  const std::string high = colon == std::string::npos ? low : text.substr(colon + 1);
  const std::optional<std::uint32_t> min = ParseNumber<std::uint32_t>(low);
  const std::optional<std::uint32_t> max = ParseNumber<std::uint32_t>(high);
  if (!min || !max || *min == 0 || *min > *max || *max > kMaxNodes) {
    return Invalid("--nnodes must be N or MIN:MAX with 0 < MIN <= MAX", text);
  }
  return std::pair(*min, *max);
}

Result<std::uint32_t> ParseWorkers(const std::string& text, const std::string& gpu_list) {
  if (text == "cpu") {
    return static_cast<std::uint32_t>(AllowedCpus());
  }
  if (text == "gpu" || text == "auto") {
    const std::uint32_t gpus =
        gpu_list.empty() ? CountGpus().count
                         : static_cast<std::uint32_t>(std::ranges::count(gpu_list, ',') + 1);
    if (gpus > 0) {
      return gpus;
    }
    if (text == "gpu") {
      return Error{ErrorKind::kNotFound,
                   "--nproc-per-node=gpu: no GPU is visible (/dev/nvidia*, /dev/kfd with /dev/dri, "
                   "CUDA_VISIBLE_DEVICES "
                   "and the like; ddprun env shows what is found)"};
    }
    return static_cast<std::uint32_t>(AllowedCpus());
  }
  const std::optional<std::uint32_t> count = ParseNumber<std::uint32_t>(text);
  if (!count || *count == 0 || *count > kMaxWorkers) {
    return Invalid("--nproc-per-node must be a number from 1 to 4096, auto, gpu or cpu", text);
  }
  return *count;
}

Result<void> ParseStreams(const std::string& flag, const std::string& text, std::uint32_t& all,
                          std::map<std::uint32_t, std::uint32_t>& by_rank) {
  const auto bad = [&] {
    return Invalid(flag + " must be 0, 1 (stdout), 2 (stderr), 3 (both) or a map like 0:3,1:0",
                   text);
  };
  if (text.find(':') == std::string::npos) {
    const std::optional<std::uint32_t> bits = ParseNumber<std::uint32_t>(text);
    if (!bits || *bits > 3) {
      return bad();
    }
    all = *bits;
    return {};
  }
  for (const std::string& entry : Split(text + ",", ',')) {
    const std::size_t colon = entry.find(':');
    const auto rank = ParseNumber<std::uint32_t>(entry.substr(0, colon));
    const auto bits = colon == std::string::npos
                          ? std::nullopt
                          : ParseNumber<std::uint32_t>(entry.substr(colon + 1));
    if (!rank || !bits || *bits > 3) {
      return bad();
    }
    by_rank[*rank] = *bits;
  }
  return {};
}

Result<std::optional<std::vector<std::uint32_t>>> ParseRanks(const std::string& flag,
                                                             const std::string& text) {
  std::vector<std::uint32_t> ranks;
  for (const std::string& entry : Split(text, ',')) {
    const auto rank = ParseNumber<std::uint32_t>(Trimmed(entry));
    if (!rank) {
      return Invalid(flag + " must be local ranks separated by commas", text);
    }
    ranks.push_back(*rank);
  }
  return ranks.empty() ? std::nullopt : std::optional(std::move(ranks));
}

Result<std::vector<std::string>> ParseFilters(const std::string& text) {
  constexpr std::string_view kComma("\0", 1);  // In no text of a command line.
  std::string marked = text;
  ReplaceAll(marked, ",,", kComma);
  std::vector<std::string> filters = Split(marked, ',');
  std::erase(filters, "");  // It would be in every line.
  for (std::string& filter : filters) {
    ReplaceAll(filter, kComma, ",");
  }
  return filters;
}

bool IsRunName(std::string_view text) {
  return !text.empty() && text.size() <= 128 &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~' && c != '/'; });
}

Result<Duration> ParseDuration(const std::string& flag, const std::string& text) {
  const std::optional<Duration> time = DurationOf(text);
  return time ? *time
              : Result<Duration>(Invalid(flag + " must be a time such as " + kTimeForms, text));
}

// A lease as rendezvous/core reckons it.
Result<void> CheckFence(const RunSpec& spec, const std::string& text) {
  const CoordinatorConfig reckoned;
  const Duration least =
      2 * std::max<Duration>(reckoned.long_lease, reckoned.lease_per_node * spec.max_nodes);
  if (spec.fence_after > Duration{0} && spec.fence_after < least) {
    return Invalid("--fence-after must be 0 or at least " + FormatDuration(least) + " for " +
                       std::to_string(spec.max_nodes) + (spec.max_nodes == 1 ? " node" : " nodes") +
                       ", twice the time after which a silent node is lost",
                   text);
  }
  return {};
}

Result<HandledSignals> ParseSignals(const std::string& text) {
  // The guard hears of these; no other is meant for a program's workers.
  static const std::map<std::string, int> kNames = {{"SIGTERM", SIGTERM}, {"SIGINT", SIGINT},
                                                    {"SIGHUP", SIGHUP},   {"SIGQUIT", SIGQUIT},
                                                    {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}};
  HandledSignals handled{.text = text};
  for (const std::string& part : Split(text, ',')) {
    const std::string name(Trimmed(part));
    if (const auto found = kNames.find(name); found != kNames.end()) {
      handled.numbers.insert(found->second);
    } else if (!name.empty()) {
      handled.unknown.push_back(name);
    }
  }
  if (text == kDefaultSignals) {
    handled.numbers.insert({SIGUSR1, SIGUSR2});
  }
  return handled;
}

Result<std::string> ParsePreload(const std::string& preload) {
  // Python's letters are those of every alphabet.
  const std::string word = R"([A-Za-z_\x80-\xff][\w\x80-\xff]*)";
  const std::string module = "-?" + word + R"((?:\.)" + word + ")*";
  const std::string list = "," + preload + ",";
  const bool leaves_out = list.find(",-") != list.npos;
  const bool imports = list.find(",imports,") != list.npos;
  const bool usual = preload == "auto";  // Every start would wait 0.2 ms for the expression.
  const bool named =
      usual || RE2::FullMatch(preload, RE2(module + "(?:," + module + ")*", RE2::Latin1));
  if (!named || (leaves_out && !imports)) {
    return Invalid(
        "--preload takes auto, none, Python modules (torch,torch._dynamo), imports, or "
        "imports,-MODULE",
        preload);
  }
  return preload;
}

namespace {

enum class ConfValue { kSeconds, kCount, kTruth, kText };

// The keys that tune torchrun's own backends; here the lease and the long poll need no tuning.
const std::map<std::string, ConfValue>& IgnoredConf() {
  static const std::map<std::string, ConfValue> kKeys = {
      {"close_timeout", ConfValue::kSeconds},
      {"heartbeat_timeout", ConfValue::kSeconds},
      {"heartbeat", ConfValue::kSeconds},
      {"keep_alive_interval", ConfValue::kSeconds},
      {"keep_alive_max_attempt", ConfValue::kCount},
      {"read_timeout", ConfValue::kSeconds},
      {"is_host", ConfValue::kTruth},
      {"store_type", ConfValue::kText},
      {"use_libuv", ConfValue::kTruth},
      {"timeout", ConfValue::kSeconds},
      {"rank", ConfValue::kCount}};
  return kKeys;
}

Result<void> CheckIgnored(const std::string& key, const std::string& value, ConfValue kind) {
  const std::string name = "--rdzv-conf " + key;
  static const std::set<std::string> kTruths = {"1", "true",  "t", "yes", "y", "on",
                                                "0", "false", "f", "no",  "n", "off"};
  if (kind == ConfValue::kSeconds) {
    RETURN_IF_ERROR(ParseDuration(name, value));
  } else if (kind == ConfValue::kCount && !ParseNumber<std::uint32_t>(value)) {
    return Invalid(name + " must be a number, 0 or more", value);
  } else if (kind == ConfValue::kTruth && !kTruths.contains(Lowercase(value))) {
    return Invalid(name + " must be true or false", value);
  }
  return {};
}

// Quotes that no shell has taken away: of a list that stands in a job's file, or in a variable.
std::string WithoutQuotes(const std::string& given) {
  const std::string_view text = Trimmed(given);
  const bool quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
                      text.back() == text.front();
  return std::string(quoted ? Trimmed(text.substr(1, text.size() - 2)) : text);
}

}  // namespace

Result<void> ParseRendezvousConf(const std::string& given, bool is_static, LaunchConfig& config) {
  const std::string text = WithoutQuotes(given);
  if (text.empty()) {
    return {};
  }
  std::optional<Duration> join, timeout;
  for (const std::string& pair : Split(text + ",", ',')) {
    const std::size_t equals = pair.find('=');
    const std::string key(Trimmed(std::string_view(pair).substr(0, equals)));
    const std::string value =
        equals == std::string::npos ? "" : WithoutQuotes(pair.substr(equals + 1));
    if (key.empty() || value.empty()) {
      return Invalid("--rdzv-conf must be key=value,key=value", given);
    }
    const auto ignored = IgnoredConf().find(key);
    if (key == "join_timeout") {
      ASSIGN_OR_RETURN(join, ParseDuration("--rdzv-conf join_timeout", value));
    } else if (key == "timeout" && is_static) {
      ASSIGN_OR_RETURN(timeout, ParseDuration("--rdzv-conf timeout", value));
    } else if (key == "last_call_timeout") {
      ASSIGN_OR_RETURN(config.spec.last_call,
                       ParseDuration("--rdzv-conf last_call_timeout", value));
    } else if (ignored == IgnoredConf().end()) {
      config.warnings.push_back("--rdzv-conf: ignoring the unknown key '" + key +
                                "'. Supported: join_timeout, last_call_timeout");
    } else {
      RETURN_IF_ERROR(CheckIgnored(key, value, ignored->second));
    }
  }
  config.spec.join_timeout = join.value_or(timeout.value_or(config.spec.join_timeout));
  return {};
}

}  // namespace ddprun
