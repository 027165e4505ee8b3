// A c10d store for tests that start ranks by hand: prints its port, lives until stdin ends.
#include <unistd.h>

#include <cstdio>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

int main() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  std::printf("%d\n", store->getPort());
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
