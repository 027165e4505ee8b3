// Stands for libmunge.so.2, for tests. munged's socket is a directory here, and each sealed text
// lies there as a file: "<user> <who may open it>\n<text>". A credential names it.
//
//   a file "fail" in there     everything fails
//   FAKE_MUNGE_USER            whom MUNGE takes the process for
//   FAKE_MUNGE_HANG            a file: nothing is answered to this process while it is there
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

constexpr int kSuccess = 0;
constexpr int kBadArgument = 2;
constexpr int kSocketError = 6;
constexpr int kBadCredential = 8;
constexpr int kReplayed = 17;
constexpr int kUnauthorized = 18;
constexpr int kSocketOption = 8;
constexpr int kUserOption = 9;

struct Context {
  fs::path directory = "/nonexistent/munge";
  long opens = -1;  // Every user.
  std::string why;
};

long Caller() {
  const char* const user = std::getenv("FAKE_MUNGE_USER");
  return user == nullptr ? static_cast<long>(::geteuid()) : std::atol(user);
}

int Refuses(Context& context) {
  const char* const own = std::getenv("FAKE_MUNGE_HANG");
  while (own != nullptr && fs::exists(own)) {
    ::usleep(1'000);
  }
  if (fs::exists(context.directory / "fail") || !fs::exists(context.directory)) {
    context.why = "Failed to access \"" + context.directory.native() + "\": fake trouble";
    return kSocketError;
  }
  return kSuccess;
}

}  // namespace

extern "C" {

Context* munge_ctx_create() {
  return new Context;
}

void munge_ctx_destroy(Context* context) {
  delete context;
}

const char* munge_ctx_strerror(Context* context) {
  return context->why.empty() ? "fake error" : context->why.c_str();
}

int munge_ctx_set(Context* context, int option, ...) {
  va_list arguments;
  va_start(arguments, option);
  if (option == kSocketOption) {
    context->directory = va_arg(arguments, const char*);
  } else if (option == kUserOption) {
    context->opens = static_cast<long>(va_arg(arguments, uid_t));
  }
  va_end(arguments);
  return option == kSocketOption || option == kUserOption ? kSuccess : kBadArgument;
}

int munge_encode(char** credential, Context* context, const void* text, int size) {
  if (const int code = Refuses(*context); code != kSuccess) {
    return code;
  }
  std::string name = (context->directory / "XXXXXX").native();
  ::close(::mkstemp(name.data()));
  std::ofstream file(name);
  file << Caller() << " " << context->opens << "\n";
  file.write(static_cast<const char*>(text), size);
  *credential = ::strdup(("MUNGE:" + fs::path(name).filename().native() + ":").c_str());
  return file.flush() ? kSuccess : kSocketError;
}

int munge_decode(const char* credential, Context* context, void** text, int* size, uid_t* user,
                 gid_t* group) {
  if (const int code = Refuses(*context); code != kSuccess) {
    return code;
  }
  const std::string given(credential);
  if (!given.starts_with("MUNGE:") || !given.ends_with(":") || given.size() < 8) {
    return kBadCredential;
  }
  const fs::path path = context->directory / given.substr(6, given.size() - 7);
  std::ifstream file(path);
  long sealed_by = 0;
  long opens = 0;
  if (!(file >> sealed_by >> opens) || file.get() != '\n') {
    return kBadCredential;
  }
  if (opens != -1 && opens != Caller()) {
    context->why = "Unauthorized credential";
    return kUnauthorized;
  }
  std::ostringstream rest;
  rest << file.rdbuf();
  *size = static_cast<int>(rest.str().size());
  *text = ::strndup(rest.str().data(), rest.str().size());
  *user = static_cast<uid_t>(sealed_by);
  *group = 0;
  const fs::path seen = path.native() + ".seen";
  const bool replayed = fs::exists(seen);
  std::ofstream{seen};
  return replayed ? kReplayed : kSuccess;
}
}
