#include "launcher/watching/page_access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/text.h"
#include "rendezvous/listener/control_token.h"

namespace ddprun {
namespace {

constexpr std::size_t kCookieDigits = 8;
constexpr std::size_t kLeastNonce = 32;  // Hexadecimal digits.
constexpr std::size_t kMostNonce = 64;
constexpr const char* kPortUnsaid = ":80";  // A browser leaves it out.

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// "n1:29400", "[::1]:80" and "n1" without their ports.
std::string WithoutPort(const std::string& host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end == host.npos ? host : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

// Where the question came to, as far as that can be seen: an address is the connection's, loopback
// is this machine's alone, and the port is always the same.
bool CameTo(const std::string& host, const std::string& end) {
  if (end.empty()) {
    return false;
  }
  const std::string at = end.substr(0, end.rfind(':'));
  const std::string name = WithoutPort(host);
  const std::string own = WithoutPort(end);
  const bool loopback = own == "::1" || own.starts_with("127.");
  const bool port = host.ends_with(end.substr(at.size())) ||
                    (end.ends_with(kPortUnsaid) && host.find(':') == host.npos);
  return port && (IsAddress(name) ? name == own : loopback || name != "localhost");
}

}  // namespace

const char* WordOf(May may) {
  return may == May::kOperate ? "operate" : may == May::kLook ? "look" : "";
}

May PageAccess::Keys::Allow(const std::string& key) const {
  const bool operates = SameToken(key, keys.operate);
  const bool looks = SameToken(key, keys.look);
  return operates ? May::kOperate : looks ? May::kLook : May::kNothing;
}

// Cookies are separated by host, not by port: each run has a name of its own.
PageAccess::Keys PageAccess::KeysOf(const std::string& token, const RunId& run) {
  return {PageKeysOf(token, run),
          "ddprun-" + PageKeysOf("name of a cookie", run).look.substr(0, kCookieDigits)};
}

PageAccess::PageAccess(const std::string& token, const RunId& run, std::vector<std::string> names,
                       std::vector<std::string> places)
    : names_(std::move(names)), places_(std::move(places)) {
  if (!token.empty()) {
    keys_.push_back(KeysOf(token, run));
  }
}

void PageAccess::AlsoOfAllRuns(const std::string& token) {
  if (!token.empty()) {
    keys_.push_back(KeysOf(token, ""));
  }
}

May PageAccess::WithKey(const std::string& key) const {
  May may = keys_.empty() ? May::kLook : May::kNothing;
  for (const Keys& keys : keys_) {
    may = std::max(may, keys.Allow(key));
  }
  return may;
}

May PageAccess::Of(const HttpRequest& request) const {
  May may = WithKey("");
  for (const std::string& cookie : Split(request.cookie, ';')) {
    const std::string_view one =
        std::string_view(cookie).substr(std::min(cookie.find_first_not_of(' '), cookie.size()));
    for (const Keys& keys : keys_) {
      if (one.starts_with(keys.cookie + "=")) {
        may = std::max(may, keys.Allow(std::string(one.substr(keys.cookie.size() + 1))));
      }
    }
  }
  return may;
}

std::string PageAccess::KeyOf(May may) const {
  const PageKeys keys = keys_.empty() ? PageKeys{} : keys_.front().keys;
  return may == May::kOperate ? keys.operate : may == May::kLook ? keys.look : "";
}

std::optional<PageKeys> PageAccess::Proofs(const HttpRequest& request) const {
  const std::string asked = Lowercase(request.host);
  // CameTo says whether an address is one of those that "0.0.0.0" stands for.
  const bool elsewhere = WithoutPort(asked) == "::1" || asked.starts_with("127.");
  const bool here = std::ranges::any_of(places_, [&](const std::string& place) {
    return Lowercase(place) == asked || Lowercase(place) == asked + kPortUnsaid ||
           (IsWildcard(WithoutPort(place)) && IsAddress(WithoutPort(asked)) && !elsewhere);
  });
  const std::string& nonce = request.body;
  if (!here || !CameTo(asked, Lowercase(request.end)) || keys_.empty() ||
      nonce.size() < kLeastNonce || nonce.size() > kMostNonce ||
      nonce.find_first_not_of("0123456789abcdef") != nonce.npos) {
    return {};
  }
  const PageKeys& keys = keys_.front().keys;
  return PageKeys{PageProof(keys.look, request.host, nonce),
                  PageProof(keys.operate, request.host, nonce)};
}

std::string PageAccess::Cookie(const std::string& key) const {
  const auto its = std::ranges::find_if(
      keys_, [&](const Keys& keys) { return keys.Allow(key) != May::kNothing; });
  return its->cookie + "=" + key + "; Path=/; HttpOnly; SameSite=Strict";
}

bool PageAccess::IsOurName(const std::string& host) const {
  const std::string name = Lowercase(WithoutPort(host));
  const bool named =
      std::ranges::any_of(names_, [&](const std::string& own) { return Lowercase(own) == name; });
  return name == "localhost" || IsAddress(name) || (named && !name.empty());
}

bool PageAccess::FromPage(const HttpRequest& request) {
  const bool same = request.origin.empty() || request.origin == "http://" + request.host;
  return request.post && request.by_script && same;
}

std::vector<std::string> PlacesOf(const std::vector<Endpoint>& listening,
                                  const std::vector<std::string>& hosts) {
  std::vector<std::string> places;
  for (const Endpoint& at : listening) {
    if (at.port != 0) {
      places.push_back(ToString(at));
      for (const std::string& host : hosts) {
        places.push_back(ToString(Endpoint{host, at.port}));
      }
    }
  }
  return places;
}

std::string PageLinks(const std::string& address, const std::string& token, const RunId& run) {
  if (token.empty()) {
    return "look:    " + address + "/\n";
  }
  const PageKeys keys = PageKeysOf(token, run);
  return "look:    " + address + "/#key=" + keys.look + "\noperate: " + address +
         "/#key=" + keys.operate + "\n";
}

}  // namespace ddprun
