#include "launcher/slurm/munge.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/loop.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

constexpr const char* kLibrary = "libmunge.so.2";
constexpr const char* kSocketVariable =
    "DDPRUN_MUNGE_SOCKET";  // munged's, where not the usual one.
constexpr Duration kMungePatience{3'000};
constexpr Duration kHung{1'000};  // The library itself gives a silent daemon up after 2 s.
constexpr std::size_t kMaxSealed = 4096;

// As munge.h has them (version 2 of the library).
struct Context;
constexpr int kOptionSocket = 8;
constexpr int kOptionUserRestriction = 9;
constexpr int kSuccess = 0;
constexpr int kExpired = 15;
constexpr int kRewound = 16;
constexpr int kReplayed = 17;
constexpr int kUnauthorized = 18;

struct MungeLibrary {
  Context* (*create)() = nullptr;
  void (*destroy)(Context*) = nullptr;
  int (*set)(Context*, int, ...) = nullptr;
  int (*encode)(char**, Context*, const void*, int) = nullptr;
  int (*decode)(const char*, Context*, void**, int*, uid_t*, gid_t*) = nullptr;
  const char* (*reason)(Context*) = nullptr;
  const char* (*words)(int) = nullptr;
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
  FindSymbol(library, "munge_strerror", munge.words, munge.missing);
  return munge;
}

const MungeLibrary& Munge() {
  static const auto* const kMunge = new MungeLibrary(LoadMunge());  // A call may outlive the end.
  return *kMunge;
}

using ContextHolder = std::unique_ptr<Context, void (*)(Context*)>;

Error MungeError(const char* tried, int code, Context* context) {
  const char* why = context == nullptr ? nullptr : Munge().reason(context);
  why = why == nullptr ? Munge().words(code) : why;
  const ErrorKind kind = code == kUnauthorized ? ErrorKind::kRefused : ErrorKind::kInvalid;
  return {kind, std::string("MUNGE cannot ") + tried + ": " + (why == nullptr ? "" : why)};
}

Result<ContextHolder> NewContext(const char* tried) {
  if (!Munge().missing.empty()) {
    return Error{ErrorKind::kNotFound,
                 std::string("MUNGE cannot ") + tried + ": " + Munge().missing};
  }
  ContextHolder context(Munge().create(), Munge().destroy);
  const std::string socket = GetProcessEnv(kSocketVariable).value_or("");
  if (!context ||
      (!socket.empty() && Munge().set(context.get(), kOptionSocket, socket.c_str()) != kSuccess)) {
    return Error{ErrorKind::kNotFound,
                 std::string("MUNGE cannot ") + tried + ": it takes no context"};
  }
  return context;
}

Result<std::string> SealNow(const std::string& text) {
  constexpr const char* kTried = "seal a token";
  ASSIGN_OR_RETURN(const ContextHolder context, NewContext(kTried));
  if (const int code = Munge().set(context.get(), kOptionUserRestriction, ::geteuid());
      code != kSuccess) {
    return MungeError(kTried, code, context.get());
  }
  char* sealed = nullptr;
  const int code =
      Munge().encode(&sealed, context.get(), text.data(), static_cast<int>(text.size()));
  const std::unique_ptr<char, void (*)(void*)> owned(sealed, &std::free);
  if (code != kSuccess || sealed == nullptr) {
    Error error = MungeError(kTried, code, context.get());
    error.kind = ErrorKind::kNotFound;
    return error;
  }
  return std::string(sealed);
}

Result<MungeText> OpenNow(const std::string& sealed) {
  constexpr const char* kTried = "open the token that was sealed";
  ASSIGN_OR_RETURN(const ContextHolder context, NewContext(kTried));
  void* text = nullptr;
  int size = 0;
  MungeText opened;
  gid_t group = 0;
  const int code =
      Munge().decode(sealed.c_str(), context.get(), &text, &size, &opened.sealed_by, &group);
  const std::unique_ptr<void, void (*)(void*)> owned(text, &std::free);
  const bool known = code == kSuccess || code == kExpired || code == kRewound || code == kReplayed;
  if (!known || text == nullptr || size < 0) {
    return MungeError(kTried, code, context.get());
  }
  opened.text.assign(static_cast<const char*>(text), static_cast<std::size_t>(size));
  return opened;
}

// On a thread of its own, which is left behind when the daemon hangs.
template <class T>
Result<T> InTime(std::function<Result<T>()> work) {
  const auto result = std::make_shared<std::optional<Result<T>>>();
  const auto begin = std::chrono::steady_clock::now();
  if (!FinishesWithin(kMungePatience, [result, work = std::move(work)] { *result = work(); })) {
    return Error{ErrorKind::kUnavailable,
                 "MUNGE does not answer within " + FormatDuration(kMungePatience)};
  }
  if (!**result && std::chrono::steady_clock::now() >= begin + kHung) {
    return Error{ErrorKind::kUnavailable, (*result)->error().message};
  }
  return **result;
}

}  // namespace

Result<std::string> SealByMunge(const std::string& text) {
  return InTime<std::string>([text] { return SealNow(text); });
}

Result<MungeText> OpenByMunge(const std::string& sealed) {
  if (sealed.size() > kMaxSealed || sealed.find('\0') != std::string::npos) {
    return Invalid("no text that MUNGE has sealed", sealed.substr(0, 40));
  }
  return InTime<MungeText>([sealed] { return OpenNow(sealed); });
}

}  // namespace ddprun
