#include "launcher/print_out.h"

#include <unistd.h>

#include <cstdio>

#include "common/exit_code.h"
#include "common/files.h"

namespace ddprun {

int PrintOut(const std::string& text) {
  const Result<void> written = WriteAll(STDOUT_FILENO, text, "standard output");
  if (!written) {
    std::fprintf(stderr, "ddprun: %s\n", written.error().message.c_str());
    return 1;
  }
  return kExitOk;
}

}  // namespace ddprun
