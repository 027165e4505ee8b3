#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "trainer/datasets/dataset.h"
#include "trainer/datasets/idx.h"
#include "trainer/datasets/mnist.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::string_literals::operator""s;

class Datasets : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "ddprun_datasets_XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path Write(const std::string& name, const std::string& bytes) {
    std::ofstream(root_ / name, std::ios::binary) << bytes;
    return root_ / name;
  }
  fs::path WriteGz(const std::string& name, const std::string& bytes) {
    const fs::path path = root_ / name;
    gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, bytes.data(), bytes.size()), static_cast<int>(bytes.size()));
    gzclose(file);
    return path;
  }
  // `count` images of side x side, all of them `pixel`.
  static std::string Images(char count, char side, char pixel) {
    return "\0\0\x08\x03\0\0\0"s + count + "\0\0\0"s + side + "\0\0\0"s + side +
           std::string(static_cast<std::size_t>(count) * side * side, pixel);
  }
  static std::string Labels(const std::string& labels) {
    return "\0\0\x08\x01\0\0\0"s + static_cast<char>(labels.size()) + labels;
  }
  void WriteMnist() {
    WriteGz("train-images-idx3-ubyte.gz", Images(3, 28, '\xff'));
    WriteGz("train-labels-idx1-ubyte.gz", Labels("\1\2\3"));
    Write("t10k-images-idx3-ubyte", Images(2, 28, '\0'));
    Write("t10k-labels-idx1-ubyte", Labels("\0\x09"s));
  }

  fs::path root_;
};

TEST_F(Datasets, IdxReadsPlainAndCompressedAlike) {
  const std::string bytes = Images(2, 3, 'x');
  for (const fs::path& path : {Write("plain", bytes), WriteGz("packed.gz", bytes)}) {
    const Result<IdxArray> array = ReadIdx(path, 3);
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->dimensions, (std::vector<std::uint32_t>{2, 3, 3}));
    EXPECT_EQ(array->bytes, std::vector<std::uint8_t>(18, 'x'));
  }
}

struct BadIdx {
  std::string bytes;
  std::string says;
};

TEST_F(Datasets, IdxRefusesWhatIsNotWhole) {
  const std::string good = Images(2, 3, 'x');
  const BadIdx cases[] = {
      {"", "truncated"},
      {good.substr(0, 9), "truncated: the header has 16 bytes, the file only 9"},
      {good.substr(0, 20), "promises 18 bytes of data, there are 4"},
      {good + "y", "longer than the 18 bytes"},
      {Labels("\1"), "magic number 0x00000801 instead of 0x00000803"},
      {"\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s, "dimension 0"},
      {"\0\0\x08\x03\0\0\0\0\0\0\0\x1c\0\0\0\x1c"s, "claims no data"},
  };
  int number = 0;
  for (const BadIdx& bad : cases) {
    const fs::path path = Write("bad" + std::to_string(number++), bad.bytes);
    const Result<IdxArray> array = ReadIdx(path, 3);
    ASSERT_FALSE(array) << bad.says;
    EXPECT_NE(array.error().message.find(bad.says), std::string::npos) << array.error().message;
    EXPECT_NE(array.error().message.find(path.string()), std::string::npos);
  }
}

TEST_F(Datasets, IdxRefusesACutOrDamagedGzip) {
  std::string bytes;
  for (int i = 0; i < 4000; ++i) {
    bytes += static_cast<char>(i * 7919 >> 3);
  }
  const fs::path whole = WriteGz("whole.gz", "\0\0\x08\x01\0\0\x0f\xa0"s + bytes);
  ASSERT_TRUE(ReadIdx(whole, 1));
  std::ifstream in(whole, std::ios::binary);
  const std::string packed((std::istreambuf_iterator<char>(in)), {});

  const Result<IdxArray> cut = ReadIdx(Write("cut.gz", packed.substr(0, packed.size() / 2)), 1);
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("truncated"), std::string::npos) << cut.error().message;

  // The last eight bytes are the checksum and the length.
  EXPECT_FALSE(ReadIdx(Write("tail.gz", packed.substr(0, packed.size() - 4)), 1));
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;
  EXPECT_FALSE(ReadIdx(Write("damaged.gz", damaged), 1));
}

TEST_F(Datasets, IdxNamesAMissingFile) {
  const Result<IdxArray> array = ReadIdx(root_ / "nowhere", 3);
  ASSERT_FALSE(array);
  EXPECT_NE(array.error().message.find("No such file"), std::string::npos);
}

TEST_F(Datasets, MnistIsNormalisedWhileABatchIsGathered) {
  WriteMnist();
  const Result<Dataset> mnist = LoadMnist(root_);
  ASSERT_TRUE(mnist) << mnist.error().message;
  EXPECT_EQ(mnist->train.count, 3u);
  EXPECT_EQ(mnist->test.count, 2u);
  std::vector<float> images(2 * 784);
  std::vector<std::int64_t> labels(2);
  const std::vector<std::uint32_t> indices = {2, 0};
  GatherBatch(*mnist, mnist->train, indices, images.data(), labels.data());
  EXPECT_EQ(labels, (std::vector<std::int64_t>{3, 1}));
  EXPECT_FLOAT_EQ(images[0], static_cast<float>((1.0 - 0.1307) / 0.3081));
  EXPECT_FLOAT_EQ(mnist->normalised[0], static_cast<float>(-0.1307 / 0.3081));
}

TEST_F(Datasets, MnistSaysWhatIsWrongWithWhichFile) {
  const auto message = [&] {
    const Result<Dataset> mnist = LoadMnist(root_);
    return mnist ? "loaded" : mnist.error().message;
  };
  EXPECT_NE(message().find("neither train-images-idx3-ubyte nor"), std::string::npos) << message();
  WriteMnist();
  WriteGz("train-labels-idx1-ubyte.gz", Labels("\1\2"));
  EXPECT_NE(message().find("has 3 images, but"), std::string::npos) << message();
  WriteGz("train-labels-idx1-ubyte.gz", Labels("\1\x0a\2"));
  EXPECT_NE(message().find("label 10 at place 1"), std::string::npos) << message();
  WriteMnist();
  Write("t10k-images-idx3-ubyte", Images(2, 27, '\0'));
  EXPECT_NE(message().find("27x27 instead of 28x28"), std::string::npos) << message();
}

TEST_F(Datasets, TableKnowsMnist) {
  ASSERT_NE(FindDataset("mnist"), nullptr);
  EXPECT_EQ(FindDataset("cifar"), nullptr);
}

}  // namespace
}  // namespace ddprun
