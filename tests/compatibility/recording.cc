#include "tests/compatibility/recording.h"

#include <fstream>
#include <sstream>

namespace ddprun {
namespace {

std::string Hex(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text.empty() ? "-" : text;
}

std::string Bytes(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace

std::string LineOf(const Call& call) {
  return call.method + ' ' + std::to_string(call.status) + ' ' + Hex(call.request) + ' ' +
         Hex(call.reply);
}

std::vector<Call> LoadCalls(const std::string& path) {
  std::ifstream file(path);
  std::vector<Call> calls;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    std::stringstream words(line);
    Call call;
    std::string request, reply;
    words >> call.method >> call.status >> request >> reply;
    call.request = Bytes(request);
    call.reply = Bytes(reply);
    calls.push_back(call);
  }
  return calls;
}

}  // namespace ddprun
