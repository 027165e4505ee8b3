#include "launcher/command_line/host_list.h"

#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "common/log.h"
#include "common/text.h"
#include "proto/hostlist.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

Result<std::uint32_t> ParseSlots(std::string_view text) {
  const auto slots = ParseNumber<std::uint32_t>(text);
  if (!slots || *slots == 0 || *slots > kMaxWorkers) {
    return Invalid("slots must be a number from 1 to " + std::to_string(kMaxWorkers),
                   InOneLine(text));
  }
  return *slots;
}

// "user@n3:4", "[fd00::1]:2"
Result<LaunchHost> ParseHost(std::string_view word) {
  static const RE2 form(
      R"(((?:[\w.][\w.-]*@)?)(?:\[([\w.:%][\w.:%-]*)\]|([\w.][\w.-]*))((?::[^:@]*)?))");
  std::string user;
  std::string v6;
  std::string slots;
  LaunchHost host;
  const bool good = RE2::FullMatch(word, form, &user, &v6, &host.name, &slots);
  host.name += v6;  // One of them is empty.
  if (!good || host.name.size() > kMaxHostName) {
    return Invalid(
        "a host must be NAME, NAME:SLOTS, USER@NAME or [IPV6]:SLOTS, of letters, digits, '.', '_' "
        "and '-'",
        InOneLine(word));
  }
  if (!slots.empty()) {
    ASSIGN_OR_RETURN(host.workers, ParseSlots(std::string_view(slots).substr(1)));
  }
  host.address = user + host.name;
  return host;
}

class HostList {
 public:
  Result<void> Add(const LaunchHost& host) {
    const auto [known, is_new] = places_.emplace(host.name, hosts_.size());
    if (is_new && hosts_.size() == kMaxNodes) {
      return Error{ErrorKind::kInvalid, "more than " + std::to_string(kMaxNodes) + " hosts"};
    }
    if (is_new) {
      hosts_.push_back(host);
      return {};
    }
    LaunchHost& first = hosts_[known->second];
    if (first.address != host.address) {
      return Invalid("a host is named with two users", host.name);
    }
    first.workers = first.workers.value_or(1) + host.workers.value_or(1);
    first.most_workers = std::max(first.most_workers, host.most_workers);
    return {};
  }

  Result<std::vector<LaunchHost>> Take() {
    if (hosts_.empty()) {
      return Error{ErrorKind::kInvalid, "no host is named"};
    }
    for (const LaunchHost& host : hosts_) {
      const std::uint32_t most = host.most_workers == 0 ? kMaxWorkers : host.most_workers;
      if (host.workers.value_or(0) > most) {
        return Error{ErrorKind::kInvalid,
                     "host " + host.name + " has " + std::to_string(*host.workers) +
                         " slots, but at most " + std::to_string(most) + " are allowed"};
      }
    }
    return std::move(hosts_);
  }

 private:
  std::vector<LaunchHost> hosts_;
  std::map<std::string, std::size_t> places_;
};

// "slots=4 max_slots=8" as words.
Result<void> ReadSlots(std::istream& words, LaunchHost& host) {
  for (std::string word; words >> word;) {
    std::string key = word.substr(0, word.find('='));
    std::ranges::replace(key, '-', '_');
    if (key.size() == word.size() || (key != "slots" && key != "max_slots")) {
      return Invalid("only slots=N and max_slots=N may follow a host", InOneLine(word));
    }
    ASSIGN_OR_RETURN(const std::uint32_t slots, ParseSlots(word.substr(key.size() + 1)));
    const bool is_given = key == "slots" ? host.workers.has_value() : host.most_workers != 0;
    if (is_given) {
      return Invalid("a host's " + key + " is given twice", InOneLine(word));
    }
    if (key == "slots") {
      host.workers = slots;
    } else {
      host.most_workers = slots;
    }
  }
  return {};
}

}  // namespace

Result<std::vector<LaunchHost>> ParseHosts(std::string_view text) {
  HostList list;
  for (const std::string& word : Split(text, ',')) {
    const Result<LaunchHost> host = ParseHost(Trimmed(word));
    RETURN_IF_ERROR(host ? list.Add(*host) : host.error());
  }
  return list.Take();
}

Result<std::vector<LaunchHost>> ParseHostfile(const std::string& name, std::string_view text) {
  HostList list;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) {
      continue;
    }
    Result<LaunchHost> host = ParseHost(word);
    Result<void> added = host ? ReadSlots(words, *host) : host.error();
    added = added ? list.Add(*host) : added;
    if (!added) {
      return Error{ErrorKind::kInvalid,
                   name + ":" + std::to_string(number) + ": " + added.error().message};
    }
  }
  return list.Take();
}

}  // namespace ddprun
