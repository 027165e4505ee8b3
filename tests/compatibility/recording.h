// A file of calls, one a line: method, status code, request and reply in hexadecimal ("-": empty).
#pragma once

#include <string>
#include <vector>

namespace ddprun {

struct Call {
  std::string method;
  int status = 0;
  std::string request, reply;
};

std::string LineOf(const Call& call);

// Lines that begin with # are left out.
std::vector<Call> LoadCalls(const std::string& path);

}  // namespace ddprun
