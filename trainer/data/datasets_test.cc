#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"
#include "trainer/data/entries.h"
#include "trainer/data/idx.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::string_literals::operator""s;

class Datasets : public testing::Test {
 protected:
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
  Result<Dataset> Load(const std::string& name, const std::string& arguments) {
    const DatasetEntry& entry = *FindDataset(name);
    return entry.load(root_, *Arguments::Parse(arguments, entry.arguments));
  }
  // One file of CIFAR-10: record i has label i % 10 and image bytes i % 256.
  static std::string CifarBatch() {
    std::string bytes;
    for (int record = 0; record < 10'000; ++record) {
      bytes += static_cast<char>(record % 10) + std::string(3072, static_cast<char>(record));
    }
    return bytes;
  }
  void WriteCifar(const std::string& under) {
    fs::create_directories(root_ / under);
    for (const std::string name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                                   "data_batch_5", "test_batch"}) {
      Write(under + name + ".bin", CifarBatch());
    }
  }
  void WriteMnist() {
    WriteGz("train-images-idx3-ubyte.gz", Images(3, 28, '\xff'));
    WriteGz("train-labels-idx1-ubyte.gz", Labels("\1\2\3"));
    Write("t10k-images-idx3-ubyte", Images(2, 28, '\0'));
    Write("t10k-labels-idx1-ubyte", Labels("\0\x09"s));
  }

  ScratchDirectory scratch_;
  const fs::path root_ = scratch_.path();
};

TEST_F(Datasets, IdxReadsPlainAndCompressedAlike) {
  const std::string bytes = Images(2, 3, 'x');
  for (const fs::path& path : {Write("plain", bytes), WriteGz("packed.gz", bytes)}) {
    const Result<IdxArray> array = ReadIdx(path, 3);
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->dimensions, (std::vector<std::uint32_t>{2, 3, 3}));
    EXPECT_EQ(std::vector<std::uint8_t>(array->bytes.begin(), array->bytes.end()),
              std::vector<std::uint8_t>(18, 'x'));
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
    EXPECT_TRUE(Fails(array, bad.says)) << bad.says;
    EXPECT_TRUE(Fails(array, path.string())) << bad.says;
  }
}

// No memory is allocated for a size that the compressed bytes cannot hold.
TEST_F(Datasets, IdxRefusesAGzipThatPromisesMoreThanItsBytesCanHold) {
  const Result<IdxArray> claims =
      ReadIdx(WriteGz("claims.gz", "\0\0\x08\x01\x3f\xff\xff\xff"s + "few"), 1);
  EXPECT_TRUE(Fails(claims, "promises 1073741823 bytes"));
  EXPECT_TRUE(Fails(claims, "cannot hold as many"));
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

  EXPECT_TRUE(Fails(ReadIdx(Write("cut.gz", packed.substr(0, packed.size() / 2)), 1), "truncated"));

  // The last eight bytes are the checksum and the length.
  EXPECT_FALSE(ReadIdx(Write("tail.gz", packed.substr(0, packed.size() - 4)), 1));
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;
  EXPECT_FALSE(ReadIdx(Write("damaged.gz", damaged), 1));
}

TEST_F(Datasets, IdxNamesAMissingFile) {
  EXPECT_TRUE(Fails(ReadIdx(root_ / "nowhere", 3), "No such file"));
}

// The samples at `indices` as the model would see them.
struct Gathered {
  std::vector<float> input;
  std::vector<float> second;
  std::vector<float> targets;
  std::vector<std::int64_t> labels;
  bool operator==(const Gathered&) const = default;
};

Gathered Gather(const Task& task, const Samples& samples, const std::vector<std::uint32_t>& indices,
                const std::optional<AugmentKey>& key) {
  const std::size_t count = indices.size();
  const auto room_for = [&](const Shape& shape) {
    return count * static_cast<std::size_t>(NumbersIn(shape));
  };
  Gathered out;
  out.input.resize(room_for(task.inputs[0]));
  out.second.resize(task.inputs.size() > 1 ? room_for(task.inputs[1]) : 0);
  out.targets.resize(task.classifies() ? 0 : room_for(task.target));
  out.labels.resize(task.classifies() ? count : 0);
  EXPECT_TRUE(samples.gather(indices, key,
                             {.inputs = {out.input.data(), out.second.data()},
                              .targets = out.targets.data(),
                              .labels = out.labels.data()}));
  return out;
}

TEST_F(Datasets, MnistIsNormalisedWhileABatchIsGathered) {
  WriteMnist();
  const Result<Dataset> mnist = Load("mnist", "");
  ASSERT_TRUE(mnist) << mnist.error().message;
  EXPECT_EQ(mnist->train.count, 3u);
  EXPECT_EQ(mnist->test.count, 2u);
  EXPECT_EQ(mnist->task, FindDataset("mnist")->task({}));
  const Gathered train = Gather(mnist->task, mnist->train, {2, 0}, AugmentKey{1, 2});
  EXPECT_EQ(train.labels, (std::vector<std::int64_t>{3, 1}));
  EXPECT_FLOAT_EQ(train.input[0], static_cast<float>((1.0 - 0.1307) / 0.3081));
  const Gathered test = Gather(mnist->task, mnist->test, {1}, std::nullopt);
  EXPECT_FLOAT_EQ(test.input[783], static_cast<float>(-0.1307 / 0.3081));
}

TEST_F(Datasets, Mnist32HasABorderOfTwoAndThreeEqualChannels) {
  WriteMnist();
  const Result<Dataset> padded = Load("mnist32", "");
  ASSERT_TRUE(padded) << padded.error().message;
  const std::vector<float> image =
      Gather(padded->task, padded->train, {0}, std::nullopt).input;  // White all over.
  const float white = static_cast<float>((1.0 - 0.1307) / 0.3081);
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::size_t row = i / 32 % 32;
    const std::size_t column = i % 32;
    const bool inside = row >= 2 && row < 30 && column >= 2 && column < 30;
    ASSERT_FLOAT_EQ(image[i], inside ? white : static_cast<float>(-0.1307 / 0.3081)) << i;
  }
}

// mnist computes its numbers, several at a time; image sets with a border look them up.
TEST_F(Datasets, ANumberIsTheSameComputedAndLookedUp) {
  WriteMnist();
  std::string image = Images(1, 28, '\0');
  for (std::size_t i = 0; i < 784; ++i) {
    image[16 + i] = static_cast<char>(i);
  }
  Write("t10k-images-idx3-ubyte", image);
  Write("t10k-labels-idx1-ubyte", Labels("\1"));
  const Result<Dataset> plain = Load("mnist", "");
  const Result<Dataset> padded = Load("mnist32", "");
  ASSERT_TRUE(plain && padded);
  const Gathered computed = Gather(plain->task, plain->test, {0}, std::nullopt);
  const Gathered looked_up = Gather(padded->task, padded->test, {0}, std::nullopt);
  for (std::size_t i = 0; i < 784; ++i) {
    const double exact = (static_cast<double>(i % 256) / 255 - 0.1307) / 0.3081;
    ASSERT_NEAR(computed.input[i], exact, 3e-7) << i;
    ASSERT_EQ(computed.input[i], looked_up.input[(i / 28 + 2) * 32 + i % 28 + 2]) << i;
  }
}

TEST_F(Datasets, Cifar10IsReadFromTheFolderOfItsArchiveToo) {
  for (const std::string under : {"", "cifar-10-batches-bin/"}) {
    WriteCifar(under);
    const Result<Dataset> cifar = Load("cifar10", "");
    ASSERT_TRUE(cifar) << cifar.error().message;
    EXPECT_EQ(cifar->train.count, 50'000u);
    EXPECT_EQ(cifar->test.count, 10'000u);
    const Gathered batch = Gather(cifar->task, cifar->train, {49'999, 3}, std::nullopt);
    EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{9, 3}));
    EXPECT_FLOAT_EQ(batch.input[3072 + 1024],
                    static_cast<float>((3.0 / 255 - 0.4822) / 0.2435));  // Green of the second.
    fs::remove_all(root_ / "data_batch_1.bin");
  }
}

TEST_F(Datasets, Cifar10SaysWhatIsWrongWithWhichFile) {
  const auto says = [&](const char* words) { return Fails(Load("cifar10", ""), words); };
  EXPECT_TRUE(says("data_batch_1.bin': No such file"));
  WriteCifar("");
  Write("data_batch_4.bin", CifarBatch().substr(1));
  EXPECT_TRUE(says("data_batch_4.bin': 30729999 bytes instead of the 30730000"));
  std::string bytes = CifarBatch();
  bytes[3073 * 17] = 10;
  Write("data_batch_4.bin", bytes);
  EXPECT_TRUE(says("label 10 in record 17"));
  Write("data_batch_4.bin", "");
  EXPECT_TRUE(says("0 bytes instead"));
  fs::remove(root_ / "data_batch_4.bin");
  fs::create_directory(root_ / "data_batch_4.bin");
  EXPECT_TRUE(says("not a regular file"));
}

// torchvision's steps on an image: cut at an offset out of a frame of zeros, then mirrored.
TEST_F(Datasets, AugmentationIsACropAndAFlip) {
  const Result<Dataset> drawn = Load("synthetic", "train=40,test=1");
  ASSERT_TRUE(drawn) << drawn.error().message;
  const float black = static_cast<float>((0.0 - 0.5) / 0.25);
  int moved = 0;
  int flipped_images = 0;
  for (std::uint32_t index = 0; index < 40; ++index) {
    const std::vector<float> plain = Gather(drawn->task, drawn->train, {index}, std::nullopt).input;
    const std::vector<float> changed =
        Gather(drawn->task, drawn->train, {index}, AugmentKey{1, 0}).input;
    int matches = 0;
    for (int way = 0; way < 9 * 9 * 2; ++way) {
      const int down = way / 9 % 9 - 4;
      const int right = way % 9 - 4;
      const bool flip = way >= 81;
      bool same = true;
      for (int i = 0; same && i < 3 * 32 * 32; ++i) {
        const int row = i / 32 % 32 + down;
        const int column = (flip ? 31 - i % 32 : i % 32) + right;
        const bool inside = row >= 0 && row < 32 && column >= 0 && column < 32;
        same = changed[i] == (inside ? plain[i / 1024 * 1024 + row * 32 + column] : black);
      }
      matches += same;
      moved += same && (down != 0 || right != 0);
      flipped_images += same && flip;
    }
    EXPECT_EQ(matches, 1) << index;
  }
  EXPECT_GT(moved, 30);
  EXPECT_GT(flipped_images, 8);
  EXPECT_LT(flipped_images, 32);
}

TEST_F(Datasets, AugmentationDependsOnSeedEpochAndSampleAlone) {
  const Result<Dataset> drawn = Load("synthetic", "train=20,test=1");
  const auto gather = [&](const std::vector<std::uint32_t>& indices, AugmentKey key) {
    return Gather(drawn->task, drawn->train, indices, key).input;
  };
  const std::vector<float> alone = gather({7}, {1, 3});
  const std::vector<float> among = gather({2, 7, 9}, {1, 3});
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), among.begin() + 3072));
  EXPECT_NE(alone, gather({7}, {1, 4}));
  EXPECT_NE(alone, gather({7}, {2, 3}));
}

TEST_F(Datasets, MadeUpSetsAreTheSameForAllRanksAndDifferBySeed) {
  for (const std::string name : {"synthetic", "toy", "seq2seq"}) {
    const std::string arguments = "train=9,test=5";
    const Result<Dataset> one = Load(name, arguments);
    const Result<Dataset> two = Load(name, arguments);
    const Result<Dataset> other = Load(name, arguments + ",seed=2");
    ASSERT_TRUE(one && two && other);
    EXPECT_EQ(one->train.count, 9u);
    EXPECT_EQ(one->test.count, 5u);
    const Gathered numbers = Gather(one->task, one->train, {0, 4}, std::nullopt);
    EXPECT_EQ(numbers, Gather(two->task, two->train, {0, 4}, std::nullopt)) << name;
    EXPECT_NE(numbers, Gather(other->task, other->train, {0, 4}, std::nullopt)) << name;
    EXPECT_NE(numbers, Gather(one->task, one->test, {0, 4}, std::nullopt)) << name;
  }
}

TEST_F(Datasets, ArgumentsShapeTheSequences) {
  const Result<Dataset> drawn = Load("seq2seq", "source=2,target=3,d_model=8");
  ASSERT_TRUE(drawn);
  EXPECT_EQ(drawn->task.inputs, (std::vector<Shape>{{2, 8}, {3, 8}}));
  const Gathered batch = Gather(drawn->task, drawn->train, {5}, std::nullopt);
  EXPECT_EQ(batch.targets, batch.second);
}

TEST_F(Datasets, MnistSaysWhatIsWrongWithWhichFile) {
  const auto says = [&](const char* words) { return Fails(Load("mnist", ""), words); };
  EXPECT_TRUE(says("neither train-images-idx3-ubyte nor"));
  WriteMnist();
  WriteGz("train-labels-idx1-ubyte.gz", Labels("\1\2"));
  EXPECT_TRUE(says("has 3 images, but"));
  WriteGz("train-labels-idx1-ubyte.gz", Labels("\1\x0a\2"));
  EXPECT_TRUE(says("label 10 at place 1"));
  WriteMnist();
  Write("t10k-images-idx3-ubyte", Images(2, 27, '\0'));
  EXPECT_TRUE(says("27x27 instead of 28x28"));
}

// Pages come when they are touched: a large file costs nothing at the start, and less with a limit.
TEST_F(Datasets, APlainMnistFileIsMappedAndAPackedOneIsNot) {
  WriteMnist();
  const Result<Dataset> mnist = Load("mnist", "");
  ASSERT_TRUE(mnist);
  std::ifstream file("/proc/self/maps");
  const std::string maps((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(maps.find((root_ / "t10k-images-idx3-ubyte").string()), std::string::npos);
  EXPECT_EQ(maps.find((root_ / "train-images-idx3-ubyte.gz").string()), std::string::npos);
  fs::remove(root_ / "t10k-images-idx3-ubyte");  // A mapped file stays.
  EXPECT_EQ(Gather(mnist->task, mnist->test, {1}, std::nullopt).labels,
            (std::vector<std::int64_t>{9}));
}

}  // namespace
}  // namespace ddprun
