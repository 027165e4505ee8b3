#include "launcher/verbs/publish.h"

#include <cstdio>

#include "common/exit_code.h"
#include "launcher/command_line/problems.h"
#include "trainer/checkpoint/fenced_publish.h"

namespace ddprun {
namespace {

int Fail(const Error& error) {
  std::fprintf(stderr, "ddprun publish: %s\n", InOneLine(error.message).c_str());
  switch (error.kind) {
    case ErrorKind::kRefused:
      std::fputs("ddprun publish: this world was replaced; nothing was published\n", stderr);
      return kExitDoNotRestart;
    case ErrorKind::kInvalid:
      return kExitUsage;
    default:
      return 1;
  }
}

}  // namespace

int PublishAs(const PublishWish& wish, const GetEnv& get_env) {
  const Result<WorkerEnv> env = FromEnvironment(get_env);
  if (!env) {
    return Fail(env.error());
  }
  const Result<Published> published =
      PublishFenced(RealFileSystem(),
                    {.source = wish.source,
                     .target = wish.target,
                     .writer = MakeWriter(env->run_id, env->term, env->generation, env->world_id),
                     .before = {}});
  if (!published) {
    return Fail(published.error());
  }
  std::printf("published '%s' (%s, record %llu)%s\n", InOneLine(wish.target.native()).c_str(),
              InOneLine(published->version.native()).c_str(),
              static_cast<unsigned long long>(published->record),
              published->replaced ? "; a newer one has replaced it already" : "");
  return kExitOk;
}

}  // namespace ddprun
