// The protocol between `ddprun --hosts` and the ddprun that it has started on a host, over that
// process's standard streams. Pure.
//
//   to its stdin    | with --copy, the bytes of each file that was asked for
//                   | the order, once: what is to be started, with which token and in which place
//                   | then a byte each: the number of a signal, or 0: the launcher is still there
//   on its stdout   | with --copy, the number of each file that this host lacks (host_copies.h)
//                   | a greeting before all else; what is printed; when the run has ended, and not
//                   | this node's part alone, how it has; at the end the exit code
//
// Whatever a host's shell prints before the greeting is not the run's. The order comes only after
// the greeting, so nothing but a ddprun gets the token. What is said of the end carries a word of
// the order, which no worker knows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "common/time.h"

namespace ddprun {

inline constexpr char kStillThere = '\0';
inline constexpr Duration kStillTherePeriod{2'500};
// Of the launcher: after it a host ends its part of the run.
inline constexpr Duration kSilenceLimit{10'000};

struct NodeOrder {
  std::string word;       // Comes back with the run's end and the exit code.
  std::string token;      // DDPRUN_TOKEN; empty: none.
  std::string place;      // kLaunchPlace
  std::string directory;  // The working directory.
  std::vector<std::string> args;
  bool operator==(const NodeOrder&) const = default;
};

std::string Encode(const NodeOrder& order);

// Takes the bytes of stdin until the order is complete.
class OrderReader {
 public:
  // True: order() is there. An error: these are no order's bytes.
  Result<bool> Feed(std::string_view bytes);
  const NodeOrder& order() const { return order_; }
  // The bytes after it.
  const std::string& rest() const { return bytes_; }

 private:
  std::string bytes_;
  NodeOrder order_;
};

std::string Greeting();
std::string RunEndMark(const std::string& word, int exit_code);
std::string EndMark(const std::string& word, int exit_code);

// Takes the files asked for, the greeting, the run's end and the exit code out of a host's output.
class MarkReader {
 public:
  explicit MarkReader(std::string word) : word_(std::move(word)) {}

  // The part of these bytes to be shown: nothing before the greeting. A mark may come in pieces.
  std::string Feed(std::string_view bytes);
  bool greeted() const { return greeted_; }
  // The file that was asked for last. Each is asked for once at most, in the order of their
  // numbers, before the greeting.
  std::optional<std::size_t> lacks() const { return lacks_; }
  // Once the run has ended: the exit code that follows, if the connection lasts.
  std::optional<int> run_code() const { return run_code_; }
  std::optional<int> exit_code() const { return exit_code_; }

 private:
  bool Take(std::string_view mark, std::string& shown);

  const std::string word_;
  std::string held_;  // Begins like a mark.
  bool greeted_ = false;
  std::optional<std::size_t> lacks_;
  std::optional<int> run_code_;
  std::optional<int> exit_code_;
};

}  // namespace ddprun
