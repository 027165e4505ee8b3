#include "trainer/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/result_testing.h"
#include "trainer/checkpoint/checkpoint_testing.h"

namespace ddprun {
namespace {

using testing::HasSubstr;

std::string FileOf(const std::string& header, std::size_t data_bytes) {
  std::string out(8, '\0');
  out[0] = static_cast<char>(header.size() & 0xff);
  out[1] = static_cast<char>(header.size() >> 8);
  out[2] = static_cast<char>(header.size() >> 16);
  return out + header + std::string(data_bytes, 'x');
}

std::string Join(const std::vector<std::string_view>& parts) {
  std::string out;
  for (const std::string_view part : parts) {
    out += part;
  }
  return out;
}

TEST(Safetensors, GivesBackWhatWasWritten) {
  const std::vector<Tensor> tensors = {
      {"f64", DType::kF64, {1, 2}, std::string(16, '\1')},
      {"i64", DType::kI64, {}, std::string(8, '\2')},
      {"f32", DType::kF32, {3}, std::string(12, '\3')},
      {"i32", DType::kI32, {1}, std::string(4, '\4')},
      {"bf16", DType::kBF16, {2}, std::string(4, '\5')},
      {"f16", DType::kF16, {1}, std::string(2, '\6')},
      {"u8", DType::kU8, {3}, std::string("\0\n\xff", 3)},
      {"bool", DType::kBool, {1}, std::string(1, '\1')},
      {"name \"with\" \xC3\xBC", DType::kU8, {1}, "u"},
  };
  const SafetensorsMetadata metadata = {{"format", "pt"}};
  const std::string header = SafetensorsHeader(tensors, metadata);
  EXPECT_EQ(header.size() % 8, 0u);
  for (const std::string name : {"F64", "I64", "F32", "I32", "BF16", "F16", "U8", "BOOL"}) {
    EXPECT_THAT(header, HasSubstr("\"dtype\":\"" + name + "\""));
  }
  const Result<SafetensorsFile> read =
      ParseSafetensors(Join(SafetensorsParts(header, tensors)), "file");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tensors, tensors);
  EXPECT_EQ(read->metadata, metadata);
}

TEST(Safetensors, HoldsEmptyTensorsAndNoTensors) {
  const std::vector<Tensor> tensors = {{"none", DType::kF32, {0, 4}, ""},
                                       {"one", DType::kU8, {1}, "x"}};
  const std::string header = SafetensorsHeader(tensors, {});
  const auto read = ParseSafetensors(Join(SafetensorsParts(header, tensors)), "file");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->tensors, tensors);
  const auto nothing = ParseSafetensors(SafetensorsHeader({}, {}), "file");
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->tensors.empty());
}

struct Bad {
  const char* why;
  std::string file;
};

TEST(Safetensors, RefusesEveryKindOfCorruptFile) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const Bad cases[] = {
      {"too short", "\x10"},
      {"claims 100000001 bytes", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}"},
      {"claims 18446744073709551615 bytes", std::string(8, '\xff')},
      {"claims 16 bytes", std::string("\x10\0\0\0\0\0\0\0{}", 10)},
      {"not a JSON object", FileOf("[]", 0)},
      {"not a JSON object", FileOf("{\"a\":", 0)},
      {"not a JSON object", FileOf(std::string(10'000, '['), 0)},
      {"64 deep", FileOf(R"({"a":{"shape":[],"data_offsets":[],"dtype":)" +
                             std::string(100'000, '[') + std::string(100'000, ']') + "}}",
                         0)},
      {"follows a hole",
       FileOf("{" + a + R"(,"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8)},
      {"lacks dtype", FileOf(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1)},
      {"lacks dtype", FileOf(R"({"a":5})", 0)},
      {"dtype", FileOf(R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8)},
      {"dtype", FileOf(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,8]}})", 8)},
      {"bad shape", FileOf(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1)},
      {"bad shape", FileOf(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1)},
      {"bad shape", FileOf(R"({"a":{"dtype":"U8","shape":4,"data_offsets":[0,4]}})", 4)},
      {"bad data_offsets", FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1)},
      {"bad data_offsets", FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1)},
      {"outside", FileOf("{" + a + "}", 3)},
      {"outside", FileOf(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[3,1]}})", 4)},
      {"do not fit its shape",
       FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)},
      // 2^62 * 2^3 bytes wraps to 0 in 64 bits.
      {"do not fit its shape",
       FileOf(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0)},
      {"overlaps", FileOf("{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", 5)},
      {"hole", FileOf("{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", 6)},
      {"1 bytes belong to no tensor", FileOf("{" + a + "}", 5)},
      {"__metadata__", FileOf(R"({"__metadata__":5})", 0)},
      {"__metadata__", FileOf(R"({"__metadata__":{"a":5}})", 0)},
  };
  for (const Bad& bad : cases) {
    const Result<SafetensorsFile> read = ParseSafetensors(bad.file, "/ckpt/model.safetensors");
    EXPECT_TRUE(Fails(read, ErrorKind::kInvalid, bad.why)) << bad.why;
    EXPECT_TRUE(Fails(read, "/ckpt/model.safetensors")) << bad.why;
  }
}

TEST(StateFile, GoesThroughJsonWhole) {
  StateFile file{SnapshotAt(12).state, {{"model.safetensors", 77, 0xfedcba9876543210}}};
  file.state.finished = true;
  file.state.run_id = "run";
  file.state.term = Term{9};
  file.state.generation = Generation{3};
  file.state.world_id = WorldId{~0ull};
  file.state.parent = "step-1";
  const Result<StateFile> read = StateFileFromJson(ToJson(file), "state.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(ToJson(*read), ToJson(file));
  EXPECT_EQ(read->state.seed, file.state.seed);
  EXPECT_EQ(read->state.loss, 0.1);
  EXPECT_EQ(read->state.world_id, file.state.world_id);
  EXPECT_EQ(read->files, file.files);
}

TEST(StateFile, NamesWhatIsWrong) {
  const std::string good = ToJson({SnapshotAt(1).state, {}});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const Result<StateFile> read = StateFileFromJson(text, "/ckpt/state.json");
    return read ? std::string("accepted") : read.error().message;
  };
  EXPECT_THAT(with("\"schema\": 1", "\"schema\": 2"), HasSubstr("schema 2"));
  EXPECT_THAT(with("\"step\": 1", "\"step\": -1"), HasSubstr("'step'"));
  EXPECT_THAT(with("\"step\": 1", "\"stop\": 1"), HasSubstr("'step'"));
  EXPECT_THAT(with("\"world_size\": 2", "\"world_size\": 4294967296"), HasSubstr("'world_size'"));
  EXPECT_THAT(with("\"finished\": false", "\"finished\": 0"), HasSubstr("'finished'"));
  EXPECT_THAT(with("{", "[{"), HasSubstr("/ckpt/state.json"));
}

}  // namespace
}  // namespace ddprun
