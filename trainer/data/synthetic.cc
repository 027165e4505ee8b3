#include <cmath>
#include <numbers>
#include <vector>

#include "trainer/data/entries.h"
#include "trainer/data/generated_samples.h"
#include "trainer/data/images.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSide = 32;
constexpr std::uint32_t kClasses = 10;
constexpr std::uint32_t kImageBytes = 3 * kSide * kSide;
constexpr ArgumentEntry kImageArguments[] = {
    {"train", 5000, 1, 1 << 20}, {"test", 1000, 1, 1 << 20}, {"seed", 1, 0, kMostSeed}};
constexpr ImageFormat kImageFormat = {.planes = 3,
                                      .stored_side = kSide,
                                      .channels = 3,
                                      .side = kSide,
                                      .mean = {0.5, 0.5, 0.5},
                                      .deviation = {0.25, 0.25, 0.25},
                                      .crop_padding = 4,
                                      .flip = true};

// Waves whose direction and length are the class's, at a random phase, under noise.
void DrawImage(std::uint64_t draw, std::uint32_t label, std::uint8_t* out) {
  const double angle = std::numbers::pi * label / kClasses;
  const double phase = 2 * std::numbers::pi * UniformFloat(draw);
  for (std::uint32_t i = 0; i < kImageBytes; ++i) {
    const double row = i / kSide % kSide;
    const double column = i % kSide;
    const double along = std::cos(angle) * column + std::sin(angle) * row;
    const auto plane = i / (kSide * kSide);
    const double wave = std::sin(along * (0.4 + 0.05 * label) + phase + plane);
    const double noise = UniformFloat(Mix(draw ^ (i + 1))) - 0.5;
    out[i] = static_cast<std::uint8_t>(127.5 + 60 * wave + 130 * noise);
  }
}

Samples DrawImages(std::uint32_t count, std::uint64_t key) {
  struct Drawn {
    std::vector<std::uint8_t> images;
    std::vector<std::uint8_t> labels;
  };
  auto drawn = std::make_shared<Drawn>();
  drawn->images.resize(std::size_t{count} * kImageBytes);
  drawn->labels.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t draw = Mix(key ^ i);
    drawn->labels[i] = static_cast<std::uint8_t>(draw % kClasses);
    DrawImage(Mix(draw), drawn->labels[i], drawn->images.data() + std::size_t{i} * kImageBytes);
  }
  return MakeImageSamples(kImageFormat, {.count = count,
                                         .per_piece = count,
                                         .image_stride = kImageBytes,
                                         .label_stride = 1,
                                         .pieces = {{drawn->images.data(), drawn->labels.data()}},
                                         .owner = drawn});
}

Result<Dataset> DrawImageSet(const fs::path&, const Arguments& arguments) {
  return Dataset{
      ImageTask(kImageFormat, kClasses),
      DrawImages(static_cast<std::uint32_t>(arguments.Whole("train")), GeneratedKey(arguments, 0)),
      DrawImages(static_cast<std::uint32_t>(arguments.Whole("test")), GeneratedKey(arguments, 1))};
}

}  // namespace

constinit const DatasetEntry kSynthetic = {
    .name = "synthetic",
    .arguments = kImageArguments,
    .task = [](const Arguments&) { return ImageTask(kImageFormat, kClasses); },
    .load = DrawImageSet};

}  // namespace ddprun
