#include "launcher/check/check_worker.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/check/check_leader.h"
#include "launcher/check/exchange.h"
#include "launcher/check/node_look.h"
#include "proto/worker_env.h"
#include "rendezvous/door/token_proof.h"

namespace ddprun {
namespace {

using std::chrono::seconds;

constexpr const char* kCheckKey = "ddprun/check";
constexpr std::size_t kNumberDigits = 32;  // Of DrawNonce.

// ---- The run's store, as far as a check needs it ----
template <class Number>
void AppendRaw(std::string& bytes, Number number) {
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof raw);
}

std::string StoreText(const std::string& text) {
  std::string bytes;
  AppendRaw(bytes, std::uint64_t{text.size()});
  return bytes + text;
}

std::string StoreOperation(char op) {
  return std::string(1, op);
}

Result<void> OpenStore(int store, CheckTime deadline) {
  std::string bytes = StoreOperation(0);
  AppendRaw(bytes, std::uint32_t{0x3C85F7CE});
  return SendBytes(store, bytes, deadline);
}

// Waits until somebody has set it.
Result<std::string> WaitAndGet(int store, const std::string& key, CheckTime deadline) {
  std::string wait = StoreOperation(6);
  AppendRaw(wait, std::uint64_t{1});
  RETURN_IF_ERROR(SendBytes(store, wait + StoreText(key), deadline));
  RETURN_IF_ERROR(ReceiveBytes(store, 1, deadline));
  RETURN_IF_ERROR(SendBytes(store, StoreOperation(3) + StoreText(key), deadline));
  ASSIGN_OR_RETURN(const std::string length, ReceiveBytes(store, 8, deadline));
  std::uint64_t size = 0;
  std::memcpy(&size, length.data(), sizeof size);
  if (size > 4'096) {
    return Error{ErrorKind::kInvalid, "the run's store has something else at the key of checks"};
  }
  return ReceiveBytes(store, size, deadline);
}

struct WorkerPlace {
  std::size_t rank = 0;
  std::size_t size = 1;
  Endpoint store;
};

Result<WorkerPlace> OwnPlace() {
  const auto number = [](const char* name) {
    return std::strtoull(GetProcessEnv(name).value_or("").c_str(), nullptr, 10);
  };
  WorkerPlace place{number("RANK"),
                    number("WORLD_SIZE"),
                    {GetProcessEnv("MASTER_ADDR").value_or(""),
                     static_cast<std::uint16_t>(number("MASTER_PORT"))}};
  if (place.size == 0 || place.rank >= place.size || place.store.host.empty()) {
    return Error{ErrorKind::kInvalid, "ddprun check --worker is for ddprun itself to start"};
  }
  return place;
}

nlohmann::json AnswerOf(const Result<Exchanged>& exchanged) {
  if (!exchanged) {
    return {{"error", exchanged.error().message}};
  }
  return {{"received", exchanged->received}, {"latency", exchanged->latency}};
}

// Does what rank 0 says; whether something is bad anywhere.
Result<bool> DoAsTold(const WorkerPlace& place, const CheckedNode& node, const std::string& address,
                      const std::string& where) {
  const CheckTime soon = CheckClock::now() + seconds(30);
  const std::string number = where.substr(0, std::min(where.size(), kNumberDigits));
  ASSIGN_OR_RETURN(const Endpoint leader, ParseEndpoint(where.substr(number.size()), std::nullopt));
  std::uint16_t port = 0;
  ASSIGN_OR_RETURN(const UniqueFd listener, ListenOn(address, port));
  ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTo(leader, soon));
  nlohmann::json told = ToJson(node);
  told["rank"] = place.rank;
  told["address"] = address;
  told["port"] = port;
  RETURN_IF_ERROR(SendBytes(socket.get(), number, soon));
  RETURN_IF_ERROR(SendJson(socket.get(), told, soon));
  while (true) {
    // The slowest node's facts, or other pairs, are waited for; the leader's end is the line's.
    ASSIGN_OR_RETURN(const CheckMessage message,
                     ReceiveJson(socket.get(), CheckClock::now() + std::chrono::hours(1)));
    const nlohmann::json& wish = message.json;
    const std::string what = ValueOr(wish, "do", std::string());
    if (what == "end") {
      return ValueOr(wish, "bad", false);
    }
    const Endpoint other{ValueOr(wish, "host", std::string()),
                         ValueOr(wish, "port", std::uint16_t{0})};
    RETURN_IF_ERROR(SendJson(
        socket.get(),
        AnswerOf(what == "serve" ? ServePair(listener.get(), number) : CallPair(other, number)),
        CheckClock::now() + seconds(30)));
  }
}

Result<bool> TakePart(const CheckWorkerRequest& request) {
  ASSIGN_OR_RETURN(const WorkerPlace place, OwnPlace());
  const CheckedNode node = LookAtNode(request);
  const seconds patience = seconds(60) + std::chrono::ceil<seconds>(request.node_check_timeout);
  const CheckTime deadline = CheckClock::now() + patience;
  ASSIGN_OR_RETURN(const UniqueFd store, ConnectTo(place.store, deadline));
  RETURN_IF_ERROR(OpenStore(store.get(), deadline));
  const std::string address = OwnAddressOf(store.get());
  if (place.rank != 0) {
    ASSIGN_OR_RETURN(const std::string where, WaitAndGet(store.get(), kCheckKey, deadline));
    return DoAsTold(place, node, address, where);
  }
  std::uint16_t port = 0;
  ASSIGN_OR_RETURN(const UniqueFd listener, ListenOn(address, port));
  const CheckLead lead{place.size, DrawNonce(), request.pairs, patience};
  const std::string where = lead.number + ToString(Endpoint{address, port});
  RETURN_IF_ERROR(SendBytes(store.get(),
                            StoreOperation(1) + StoreText(kCheckKey) + StoreText(where), deadline));
  Result<Checked> checked = Error{ErrorKind::kSystem, "no check was made"};
  std::thread leader([&] { checked = LeadCheck(listener.get(), lead); });
  const Result<bool> followed = DoAsTold(place, node, address, where);
  leader.join();
  if (!checked) {
    return checked.error();
  }
  const std::string text = request.json ? InJson(*checked) : InWords(*checked);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return SystemError("write to", "standard output", errno);
  }
  return followed;
}

}  // namespace

int RunCheckWorker(const CheckWorkerRequest& request) {
  StartLog("ddprun check", LogLevel::kInfo);
  const Result<bool> bad = TakePart(request);
  if (!bad) {
    std::fprintf(stderr, "ddprun check: %s\n", bad.error().message.c_str());
    return 1;
  }
  const std::string verdict = GetProcessEnv(kCheckVerdict).value_or("");
  if (!verdict.empty()) {
    if (std::FILE* const file = std::fopen(verdict.c_str(), "we")) {
      std::fputs(*bad ? "bad" : "well", file);
      std::fclose(file);
    }
  }
  return kExitOk;
}

}  // namespace ddprun
