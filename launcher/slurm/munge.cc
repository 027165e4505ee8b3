#include "launcher/slurm/munge.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "common/loop.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

constexpr const char* kLibrary = "libmunge.so.2";
constexpr const char* kSocketVariable =
    "DDPRUN_MUNGE_SOCKET";  // munged's, where not the usual one.
constexpr Duration kMungePatience{10'000};
constexpr Duration kHung{1'000};  // The library itself gives a silent daemon up after 2 s.

// As munge.h has them (version 2 of the library).
struct Context;
constexpr int kOptionSocket = 8;
constexpr int kOptionUserRestriction = 9;
constexpr int kSuccess = 0;
constexpr int kExpired = 15;
constexpr int kRewound = 16;
constexpr int kReplayed = 17;

struct MungeLibrary {
  Context* (*create)() = nullptr;
  void (*destroy)(Context*) = nullptr;
  int (*set)(Context*, int, ...) = nullptr;
  int (*encode)(char**, Context*, const void*, int) = nullptr;
  int (*decode)(const char*, Context*, void**, int*, uid_t*, gid_t*) = nullptr;
  const char* (*reason)(Context*) = nullptr;
  std::string missing;  // Why it cannot be used; empty: it can.
};

template <class Function>
void FindSymbol(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && missing.empty()) {
    missing = std::string(kLibrary) + " lacks " + name;
  }
}

MungeLibrary LoadMunge() {
  MungeLibrary munge;
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    munge.missing = std::string("it cannot be loaded: ") + (why == nullptr ? kLibrary : why);
    return munge;
  }
  FindSymbol(library, "munge_ctx_create", munge.create, munge.missing);
  FindSymbol(library, "munge_ctx_destroy", munge.destroy, munge.missing);
  FindSymbol(library, "munge_ctx_set", munge.set, munge.missing);
  FindSymbol(library, "munge_encode", munge.encode, munge.missing);
  FindSymbol(library, "munge_decode", munge.decode, munge.missing);
  FindSymbol(library, "munge_ctx_strerror", munge.reason, munge.missing);
  return munge;
}

const MungeLibrary& Munge() {
  static const auto* const kMunge = new MungeLibrary(LoadMunge());  // A call may outlive the end.
  return *kMunge;
}

using ContextHolder = std::unique_ptr<Context, void (*)(Context*)>;

Error MungeError(const char* tried, const std::string& why) {
  return {ErrorKind::kInvalid, std::string("MUNGE cannot ") + tried + ": " + why};
}

Error MungeError(const char* tried, Context* context) {
  const char* const why = Munge().reason(context);
  return MungeError(tried, why == nullptr ? "" : why);
}

Result<ContextHolder> NewContext(const char* tried) {
  if (!Munge().missing.empty()) {
    return MungeError(tried, Munge().missing);
  }
  ContextHolder context(Munge().create(), Munge().destroy);
  const std::string socket = GetProcessEnv(kSocketVariable).value_or("");
  if (!context ||
      (!socket.empty() && Munge().set(context.get(), kOptionSocket, socket.c_str()) != kSuccess)) {
    return MungeError(tried, "it cannot create a context");
  }
  return context;
}

Result<std::string> SealNow(const std::string& text) {
  constexpr const char* kTried = "seal a token";
  ASSIGN_OR_RETURN(const ContextHolder context, NewContext(kTried));
  char* sealed = nullptr;
  int code = Munge().set(context.get(), kOptionUserRestriction, ::geteuid());
  if (code == kSuccess) {
    code = Munge().encode(&sealed, context.get(), text.data(), static_cast<int>(text.size()));
  }
  const std::unique_ptr<char, void (*)(void*)> owned(sealed, &std::free);
  if (code != kSuccess || sealed == nullptr) {
    return MungeError(kTried, context.get());
  }
  return std::string(sealed);
}

Result<std::string> OpenNow(const std::string& sealed) {
  constexpr const char* kTried = "open the sealed token";
  ASSIGN_OR_RETURN(const ContextHolder context, NewContext(kTried));
  void* text = nullptr;
  int size = 0;
  uid_t user = 0;
  gid_t group = 0;
  const int code = Munge().decode(sealed.c_str(), context.get(), &text, &size, &user, &group);
  const std::unique_ptr<void, void (*)(void*)> owned(text, &std::free);
  const bool known = code == kSuccess || code == kExpired || code == kRewound || code == kReplayed;
  if (!known || text == nullptr || size < 0) {
    return MungeError(kTried, context.get());
  }
  if (user != ::geteuid()) {
    return Error{ErrorKind::kInvalid, "user " + std::to_string(user) +
                                          " has sealed the token, not user " +
                                          std::to_string(::geteuid()) + " as here"};
  }
  return std::string(static_cast<const char*>(text), static_cast<std::size_t>(size));
}

// On a thread of its own, which is left behind when the daemon hangs.
Result<std::string> InTime(std::function<Result<std::string>()> work) {
  const auto result = std::make_shared<Result<std::string>>(std::string());
  const auto begin = std::chrono::steady_clock::now();
  if (!FinishesWithin(kMungePatience, [result, work = std::move(work)] { *result = work(); })) {
    return Error{ErrorKind::kUnavailable, "MUNGE does not answer within " +
                                              FormatDuration(kMungePatience) + " [munge-timeout]"};
  }
  if (!*result && std::chrono::steady_clock::now() >= begin + kHung) {
    return Error{ErrorKind::kUnavailable, result->error().message};
  }
  return *result;
}

}  // namespace

Result<std::string> SealByMunge(const std::string& text) {
  return InTime([text] { return SealNow(text); });
}

Result<std::string> OpenByMunge(const std::string& sealed) {
  return InTime([sealed] { return OpenNow(sealed); });
}

}  // namespace ddprun
