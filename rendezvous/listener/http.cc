#include "rendezvous/listener/http.h"

namespace ddprun {
namespace {

std::string Reply(std::string_view status, std::string_view body, bool with_body) {
  std::string reply =
      "HTTP/1.0 " + std::string(status) +
      "\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\nConnection: close\r\n\r\n";
  if (with_body) {
    reply += body;
  }
  return reply;
}

std::string HealthReport(const Health& health, std::string_view query) {
  std::string body = std::string(kHealthGreeting) + DDPRUN_VERSION + "\n";
  if (!health.wants_token) {
    return health.run.empty() ? body : body + std::string(kHealthRun) + health.run + "\n";
  }
  body += std::string(kHealthToken) + "\n";
  if (query == "sealed" && !health.sealed.empty()) {
    body += std::string(kHealthSealed) + health.sealed + "\n";
  }
  return body;
}

}  // namespace

bool AsksSomethingElse(std::string_view request) {
  const std::size_t end = request.find_first_of("\r\n");
  const std::string_view line = request.substr(0, end);
  const std::size_t space = line.find(' ');
  if (end == request.npos || space == line.npos) {
    return false;
  }
  std::string_view path = line.substr(space + 1);
  path = path.substr(0, path.find_first_of(" ?"));
  return path != "/healthz";
}

std::optional<std::string> HttpReply(std::string_view request, const Health& health) {
  const bool complete = request.find("\r\n\r\n") != std::string_view::npos ||
                        request.find("\n\n") != std::string_view::npos;
  if (!complete) {
    if (request.size() < kMaxHttpRequest) {
      return std::nullopt;
    }
    return Reply("431 Request Header Fields Too Large", "the request is too large\n", true);
  }
  const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
  const std::size_t space = line.find(' ');
  const std::string_view method = line.substr(0, space);
  std::string_view path = space == std::string_view::npos ? "" : line.substr(space + 1);
  path = path.substr(0, path.find(' '));
  const std::size_t question = path.find('?');
  const std::string_view query = question == path.npos ? "" : path.substr(question + 1);
  path = path.substr(0, question);
  const bool get = method == "GET";
  if (!health.joinable) {
    return Reply("404 Not Found", "this is the store of a ddprun run\n", method != "HEAD");
  }
  if ((get || method == "HEAD") && path == "/healthz") {
    return Reply("200 OK", HealthReport(health, query), get);
  }
  return Reply("404 Not Found", "this is a ddprun rendezvous; try /healthz\n", method != "HEAD");
}

}  // namespace ddprun
