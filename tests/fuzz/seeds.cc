// Makes the first inputs of the fuzz targets with the project's own writers: fuzz_seeds DIRECTORY.
// scripts/fuzz.sh --merge then keeps those that count.
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "agent/watch/error_file.h"
#include "proto/step_page.h"
#include "rendezvous/failover/claim_directory.h"
#include "rendezvous/messages/answer_records.h"
#include "rendezvous/store/store_request_testing.h"
#include "rendezvous/testing/full_report.h"
#include "rendezvous/wire/convert.h"
#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/safetensors.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

fs::path root;

void Seed(const std::string& target, const std::string& name, const std::string& bytes) {
  fs::create_directories(root / target);
  std::ofstream(root / target / name, std::ios::binary) << bytes;
}

std::string Kind(int kind) {
  return std::string(1, static_cast<char>(kind));
}

template <class Wire, class Value>
std::string Bytes(const Value& value) {
  Wire wire;
  ToProto(value, &wire);
  return wire.SerializeAsString();
}

void Convert() {
  Seed("convert", "report", Kind(0) + Bytes<v1::SyncRequest>(FullReport()));
  NodeReport idle;
  idle.run_id = idle.node = idle.host = "n0";
  idle.spec = {1, 2};
  idle.workers = 1;
  Seed("convert", "idle", Kind(0) + Bytes<v1::SyncRequest>(idle));
  const WaitReason reason{.what = WaitFor::kNodes,
                          .have = 1,
                          .need = 2,
                          .want = 3,
                          .missing = {"n1", "n2"},
                          .remaining = 3s,
                          .unfit = {"n3 (GPU 3 is gone)"}};
  const Finish finish{Ending::kFailed, 3, "the run failed", SomeFailure(Exited{3})};
  int number = 0;
  for (const Directive& directive :
       {Directive(Wait{reason}), Directive(Run{SomePlacement()}),
        Directive(Stop{{4}, {5}, StopCause::kFailure}), Directive(finish)}) {
    const SyncReply reply{directive, 17, 3s, 1s, {5}};
    Seed("convert", "reply" + std::to_string(number++), Kind(1) + Bytes<v1::SyncReply>(reply));
  }
  RunStatus status;
  status.run_id = "run";
  status.nodes.resize(2);
  status.events.resize(1);
  status.events[0].number = 1;
  status.events[0].kind = kEventLost;
  Seed("convert", "status", Kind(2) + Bytes<v1::DescribeReply>(std::vector<RunStatus>{status}));
  const ControlRequest drain{"run", ControlVerb::kDrain, "n1", std::string(32, 't')};
  Seed("convert", "control", Kind(3) + Bytes<v1::ControlRequest>(drain));
}

void Stores() {
  using namespace wire;
  const std::string all = Set("k", "v") + CompareSet("k", "v", "w") + Get("k") + Add("n", 3) +
                          Check({"k", "x"}) + wire::Wait({"k"}) + GetNumKeys() + DeleteKey("k") +
                          wire::Append("a", "b") + MultiGet({"a", "n"}) +
                          MultiSet({"p", "1", "q", "2"}) + CancelWait() + Ping(77) +
                          QueuePush("q1", "v") + QueuePop("q1") + QueueLen("q1") + ListKeys() +
                          Barrier("b", 2) + Barrier("b", 2);
  Seed("store", "all", Kind(5) + Kind(1) + Validate() + all);
  Seed("store", "waits",
       Kind(0) + Kind(2) + Validate() + wire::Wait({"x"}) + QueuePop("q") + Set("x", "1") +
           QueuePush("q", "2") + QueuePop("q"));
  Seed("first_bytes", "store", Validate());
  const std::string http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  Seed("first_bytes", "http2", http2);
  Seed("first_bytes", "call", http2 + std::string("\0\0\0\4\0\0\0\0\0\0\0\1\1\4\0\0\0\1x", 19));
  Seed("first_bytes", "tls", "\x16\x03\x01");
  Seed("first_bytes", "health", "GET /healthz HTTP/1.1\r\nHost: n0\r\n\r\n");
  Seed("first_bytes", "head", "HEAD /x?y HTTP/1.0\n\n");
}

void Pages() {
  const std::string all(sizeof(std::uint64_t), '\xff');
  StepPage page;
  const auto written = [&page](std::uint64_t steps, std::uint64_t work) {
    for (std::uint64_t i = 0; i < steps; ++i) {
      page.entries[page.count % kStepEntries] = {page.count + 1, 50'000'000 * page.count, work};
      ++page.count;
    }
    return std::string(reinterpret_cast<const char*>(&page), sizeof page);
  };
  const std::string few = written(3, 0);
  Seed("step_page", "few", all + few + all + written(2, 41'000));
  Seed("step_page", "many", all + written(500, 0));
  Seed("step_page", "back", all + written(1, 7) + all + few);
  const std::uint64_t two = 2;
  Seed("step_page", "as_far_as",
       std::string(reinterpret_cast<const char*>(&two), sizeof two) + few);
}

void Texts() {
  Seed("notify", "all",
       "READY=1\nSTEP=1200\nSTEPS=2000\nLOSS=0.41\nPHASE=checkpoint\nEXTEND_TIMEOUT_USEC="
       "60000000\n");
  Seed("claim", "open", Encode(Claim{4, {1'795'263'336'042}, {"n0", 29400}, 17, false}));
  Seed("claim", "closed", Encode(Claim{4, {8}, {"::1", 1}, 0, true}));
  Claim ended{4, {8}, {"::1", 1}, 0, false};
  ended.ended = {
      {"run", {4}, {Ending::kFailed, 3, "the run failed", SomeFailure(Killed{9, true})}}};
  Seed("claim", "ended", Encode(ended));
  const FailureDetails details{1'795'263'336'042, "", "ValueError: boom", "File x, line 3"};
  Seed("error_file", "record", MakeErrorFile(details, 3).value());
  Seed("error_file", "flat", R"({"message": "boom", "timestamp": 1795263336})");
  Seed("error_file", "deep", "{\"message\":~1~}");
  Seed("error_file", "timer",
       R"({"version": 1, "pid": 42, "scope_id": "s", "expiration_time": 17.5, "signal": 9})");
  Seed("config", "file",
       Kind(0) + "nnodes = 2\nnproc-per-node = \"4\" # four\nstandalone = true\n");
  Seed("config", "line",
       Kind(1) +
           "DDPRUN_TOKEN=0123456789abcdef\nPET_NNODES=1:4\n--\n"
           "--nproc_per_node=2\n--rdzv-endpoint=n0:29400\n"
           "--rdzv-conf=join_timeout=60,last_call_timeout=0.5\n"
           "--redirects=0:3,1:1\n--store-allow=10.0.0.0/8,fd00::/8\n"
           "--hang-timeout=5m\ntrain.py\n--lr=1\n");
  Seed("config", "serve",
       Kind(1) + "rendezvous\n--listen=0.0.0.0:29400\n--state-dir=d\n--insecure\n");
  Seed("config", "publish", Kind(1) + "publish\nNEW\nFINAL");
  Seed("config", "verb", Kind(1) + "drain\n--endpoint=n0:29400\nn1\n");
  Seed("config", "torchrun", Kind(2) + "--standalone\n--nproc-per-node=auto\n-m\nmodule\n");
  Seed("trainer_config", "line",
       "--model=mlp\n--model-arg=hidden=64,dropout=0.5\n--steps=200\n"
       "--checkpoint-every=30s\n--resume=auto\n--optimizer=adamw\n"
       "--device=cpu\n--skew=1:250\n--profile-schedule=1,1,3");
}

void Checkpoints() {
  FenceRecord claim{1, RecordKind::kClaim, MakeWriter("run", {3}, {3}, {4}), {}};
  const CheckpointRef ref{"step-00000100-0000000000000004", 17};
  FenceRecord commit{2, RecordKind::kCommit, claim.writer, {ref}};
  FenceRecord other{3, RecordKind::kClose, MakeWriter("other", {9}, {9}, {10}), {ref}};
  std::string log = Kind(2);
  for (const FenceRecord& record : {claim, commit, other}) {
    const std::string text = ToText(record);
    const std::string line = text.substr(0, text.find('\n'));
    Seed("fence", "whole" + std::to_string(record.number), Kind(0) + text);
    Seed("fence", "line" + std::to_string(record.number), Kind(1) + line);
    log += (log.size() > 1 ? "\n" : "") + line;
    Seed("fence", "log" + std::to_string(record.number), log + "\n!torn");
  }
  const std::vector<Tensor> tensors = {{"weight", DType::kF32, {2, 3}, std::string(24, 'w')},
                                       {"bias", DType::kBF16, {2}, std::string(4, 'b')},
                                       {"steps", DType::kU8, {}, std::string(1, 's')}};
  const std::string header = SafetensorsHeader(tensors, {{"format", "pt"}});
  std::string file = header;
  for (const Tensor& tensor : tensors) {
    file += std::string_view(tensor.bytes);
  }
  Seed("safetensors", "file", Kind(0) + file);
  Seed("safetensors", "header", Kind(30) + header.substr(8));
  Seed("safetensors", "deep", Kind(1) + "[~~]");

  StateFile state;
  state.state.model = "mlp";
  state.state.dataset = "mnist";
  state.state.buckets = {{0, 1}, {2}};
  state.state.hyperparameters = {{"lr", "0.1"}};
  state.state.loss = 0.25;
  state.files = {{"model.safetensors", 29, 17}};
  Seed("state", "state", Kind(0) + ToJson(state));
  Seed("state", "best",
       Kind(1) + R"({"directory":")" + ref.directory + R"(","digest":"0000000000000011"})");
}

void Data() {
  const std::string plain(
      "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02"
      "12345678",
      24);
  Seed("idx", "plain", Kind(2) + plain);
  const fs::path path = root / "packed.tmp";
  gzFile file = gzopen(path.c_str(), "wb");
  CHECK(file != nullptr && gzwrite(file, plain.data(), static_cast<unsigned>(plain.size())) > 0);
  gzclose(file);
  Seed("idx", "packed", Kind(2) + ReadFile(path, 1 << 20).value());
  fs::remove(path);
}

// Steps of the plays of request_fuzz.cc, and what its reader reads.
void Requests() {
  std::string records;
  AppendRecord({1'795'566'552'358, 3, 2, AnswerKind::kOut, "step 1\nstep"}, records);
  AppendRecord({1'795'566'552'359, 3, 2, AnswerKind::kErr, " 2\r 3\n"}, records);
  AppendRecord({0, 7, 2, AnswerKind::kNote, "rank 7 printed more than is kept"}, records);
  std::string stacks;
  AppendRecord({0, 7, 2, AnswerKind::kStack,
                "-- process 12:\nThread 12 (idle): \"MainThread\"\n    wait (x.py:1)\n"},
               stacks);
  Seed("request", "logs", Kind(2) + Kind(0) + records + "~~" + records);
  Seed("request", "stacks", Kind(2) + Kind(1) + stacks + "~~" + stacks + "~~x");
  // Operator 0 asks two nodes; the honest one makes a piece for each command.
  std::string server = Kind(0) + Kind(7) + Kind(0) + Kind(0) + Kind(2) + Kind(0) + Kind(1);
  for (int i = 0; i < 12; ++i) {
    server +=
        Kind(0) + Kind(3) + Kind(0) + Kind(0) + Kind(4) + Kind(i) + Kind(i) + Kind(5) + Kind(20);
  }
  Seed("request", "server", server);
  std::string node = Kind(1) + Kind(0) + Kind(5);
  for (int i = 0; i < 8; ++i) {
    node += Kind(1) + Kind(i % 3) + Kind(1) + Kind(3) + Kind(1) + Kind(i % 3) + Kind(1) +
            Kind(227) + Kind(1) + Kind(i % 3) + Kind(i % 2 * 4);
  }
  Seed("request", "node", node);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  CHECK(argc == 2);
  ddprun::root = argv[1];
  std::filesystem::create_directories(ddprun::root);
  ddprun::Convert();
  ddprun::Stores();
  ddprun::Texts();
  ddprun::Pages();
  ddprun::Checkpoints();
  ddprun::Data();
  ddprun::Requests();
  return 0;
}
