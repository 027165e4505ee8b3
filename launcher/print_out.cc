#include "launcher/print_out.h"

#include <unistd.h>

#include <cstdio>

#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {

int PrintOut(const std::string& text) {
  const Result<void> written = WriteAll(STDOUT_FILENO, text, "standard output");
  if (!written) {
    std::fprintf(stderr, "ddprun: %s\n", written.error().message.c_str());
    return 1;
  }
  return kExitOk;
}

int PrintError(const std::string& verb, const Error& error) {
  std::fprintf(stderr, "ddprun %s: error: %s\n", verb.c_str(), InOneLine(error.message).c_str());
  return error.kind == ErrorKind::kInvalid       ? kExitUsage
         : error.kind == ErrorKind::kUnavailable ? kExitUnavailable
                                                 : 1;
}

}  // namespace ddprun
