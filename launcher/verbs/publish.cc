#include "launcher/verbs/publish.h"

#include <cstdio>

#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/print_out.h"
#include "trainer/checkpoint/fenced_publish.h"

namespace ddprun {
namespace {

int Fail(const Error& error) {
  const int code = PrintError("publish", error);
  if (error.kind == ErrorKind::kRefused) {
    std::fputs("ddprun publish: nothing was published: a newer world has replaced this one\n",
               stderr);
    return kExitDoNotRestart;
  }
  return code == kExitUsage ? kExitUsage : 1;
}

}  // namespace

int PublishAs(const PublishCommand& command, const GetEnv& get_env) {
  const Result<WorkerEnv> env = FromEnvironment(get_env);
  if (!env) {
    return Fail(env.error());
  }
  const Result<Published> published =
      PublishFenced(RealFileSystem(),
                    {.source = command.source,
                     .target = command.target,
                     .writer = MakeWriter(env->run_id, env->term, env->generation, env->world_id),
                     .before = {}});
  if (!published) {
    return Fail(published.error());
  }
  (void)PrintOut("published '" + InOneLine(command.target.native()) + "' (" +
                 InOneLine(published->version.native()) + ", record " +
                 std::to_string(published->record) + ")" +
                 (published->replaced ? "; a newer one has replaced it already" : "") + "\n");
  return kExitOk;  // It is published, whether or not the message can be printed.
}

}  // namespace ddprun
