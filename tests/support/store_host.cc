// store_host --listen=ADDRESS:PORT: a store server alone, for tests. Prints "listening PORT" and
// serves until its standard input closes.
#include <unistd.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <functional>
#include <string_view>

#include "common/endpoint.h"
#include "common/log.h"
#include "rendezvous/listener/listen_socket.h"
#include "rendezvous/store/store_server.h"

namespace ddprun {
namespace {

int Fail(const std::string& message) {
  std::fprintf(stderr, "store_host: %s\n", message.c_str());
  return 2;
}

int Main(int argc, char** argv) {
  constexpr std::string_view kListen = "--listen=";
  const std::string_view argument = argc == 2 ? argv[1] : "";
  if (!argument.starts_with(kListen)) {
    return Fail("usage: store_host --listen=ADDRESS:PORT");
  }
  const auto endpoint = ParseEndpoint(argument.substr(kListen.size()), std::nullopt);
  if (!endpoint) {
    return Fail(endpoint.error().message);
  }
  StartLog("store_host", LogLevel::kInfo);
  AsioLoop loop;
  StoreServer server(loop, {});
  auto listener = ListenOn(*endpoint);
  if (!listener) {
    return Fail(listener.error().message);
  }
  server.Serve(std::move(listener->fd));
  std::printf("listening %d\n", listener->endpoint.port);
  std::fflush(stdout);

  boost::asio::posix::stream_descriptor input(loop.io(), ::dup(STDIN_FILENO));
  std::array<char, 256> ignored;
  std::function<void()> read = [&] {
    input.async_read_some(boost::asio::buffer(ignored),
                          [&](boost::system::error_code error, std::size_t) {
                            if (error) {
                              loop.Stop();
                            } else {
                              read();
                            }
                          });
  };
  read();
  loop.Run();
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  return ddprun::Main(argc, argv);
}
