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
#include "rendezvous/door/listen_socket.h"
#include "rendezvous/door/token_proof.h"
#include "rendezvous/store/store_request.h"

namespace ddprun {
namespace {

using std::chrono::seconds;

constexpr const char* kCheckKey = "ddprun/check";
constexpr std::size_t kNumberDigits = 32;  // Of DrawNonce.

// Of the run's store; waits until somebody has set it.
Result<std::string> WaitAndGet(int store, const std::string& key, CheckTime deadline) {
  RETURN_IF_ERROR(SendBytes(store, wire::Wait({key}), deadline));
  RETURN_IF_ERROR(ReceiveBytes(store, 1, deadline));
  RETURN_IF_ERROR(SendBytes(store, wire::Get(key), deadline));
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
  ASSIGN_OR_RETURN(const ListenSocket listener, ListenOn({address, 0}));
  ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTo(leader, soon));
  nlohmann::json told = ToJson(node);
  told["rank"] = place.rank;
  told["address"] = address;
  told["port"] = listener.endpoint.port;
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
        AnswerOf(what == "serve" ? ServePair(listener.fd.get(), number) : CallPair(other, number)),
        CheckClock::now() + seconds(30)));
  }
}

Result<bool> TakePart(const CheckWorkerRequest& request) {
  ASSIGN_OR_RETURN(const WorkerPlace place, OwnPlace());
  const CheckedNode node = LookAtNode(request);
  const seconds patience = seconds(60) + std::chrono::ceil<seconds>(request.node_check_timeout);
  const CheckTime deadline = CheckClock::now() + patience;
  ASSIGN_OR_RETURN(const UniqueFd store, ConnectTo(place.store, deadline));
  RETURN_IF_ERROR(SendBytes(store.get(), wire::Validate(), deadline));
  const std::string address = OwnAddressOf(store.get());
  if (place.rank != 0) {
    ASSIGN_OR_RETURN(const std::string where, WaitAndGet(store.get(), kCheckKey, deadline));
    return DoAsTold(place, node, address, where);
  }
  ASSIGN_OR_RETURN(const ListenSocket listener, ListenOn({address, 0}));
  const CheckLead lead{place.size, DrawNonce(), request.pairs, patience};
  const std::string where = lead.number + ToString(listener.endpoint);
  RETURN_IF_ERROR(SendBytes(store.get(), wire::Set(kCheckKey, where), deadline));
  Result<Checked> checked = Error{ErrorKind::kSystem, "no check was made"};
  std::thread leader([&] { checked = LeadCheck(listener.fd.get(), lead); });
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
    std::fprintf(stderr, "ddprun check: %s\n", InOneLine(bad.error().message).c_str());
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
