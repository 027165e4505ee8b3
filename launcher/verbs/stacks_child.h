// `ddprun stacks` of some ranks in a process of its own, whose words are read as they come: so that
// who asks goes on meanwhile, and can end it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/files.h"
#include "launcher/server/server_files.h"

namespace ddprun {

class StacksChild {
 public:
  static constexpr std::size_t kMostText = std::size_t{256} << 10;  // What comes after is dropped.

  StacksChild() = default;
  ~StacksChild();  // Ends it, and does not wait for what it waits for.
  StacksChild(const StacksChild&) = delete;
  StacksChild& operator=(const StacksChild&) = delete;

  // Instead of an earlier one.
  void Begin(const ServerQuery& server, const std::vector<std::uint32_t>& ranks);

  int fd() const { return told_.get(); }  // Readable: call Read. Negative: nothing is to come.
  void Read();
  const std::string& text() const { return text_; }

 private:
  void End();

  pid_t pid_ = 0;
  UniqueFd told_;
  std::string text_;
};

}  // namespace ddprun
