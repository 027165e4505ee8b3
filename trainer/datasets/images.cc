#include "trainer/datasets/images.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "trainer/random.h"

namespace ddprun {
namespace {

using Table = std::array<float, 256>;

Table NormalisationTable(double mean, double deviation) {
  Table table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = static_cast<float>((static_cast<double>(byte) / 255.0 - mean) / deviation);
  }
  return table;
}

// Where the model's image begins in the stored one: row and column, negative in the border.
struct Placement {
  std::int64_t row = 0;
  std::int64_t column = 0;
  bool flip = false;
};

class ImageSamples {
 public:
  ImageSamples(const ImageFormat& format, ImageBytes bytes)
      : format_(format), bytes_(std::move(bytes)) {
    CHECK(format.side >= format.stored_side && format.channels >= format.planes &&
          format.channels <= tables_.size());
    for (std::size_t channel = 0; channel < format.channels; ++channel) {
      tables_[channel] = NormalisationTable(format.mean[channel], format.deviation[channel]);
    }
  }

  void Gather(std::span<const std::uint32_t> indices, const std::optional<AugmentKey>& key,
              const BatchRoom& room) const {
    const std::size_t numbers = std::size_t{format_.channels} * format_.side * format_.side;
    const bool as_stored = format_.side == format_.stored_side &&
                           format_.channels == format_.planes && format_.channels == 1;
    float* out = room.inputs[0];
    std::int64_t* label = room.labels;
    for (const std::uint32_t index : indices) {
      CHECK(index < bytes_.count);
      const ImageBytes::Piece& piece = bytes_.pieces[index / bytes_.per_piece];
      const std::size_t place = index % bytes_.per_piece;
      const std::uint8_t* const image = piece.images + place * bytes_.image_stride;
      if (as_stored && !(key && Augments())) {
        CopyAll(image, numbers, out);
      } else {
        Place(image, PlacementFor(index, key), out);
      }
      *label++ = piece.labels[place * bytes_.label_stride];
      out += numbers;
    }
  }

 private:
  bool Augments() const { return format_.crop_padding > 0 || format_.flip; }

  Placement PlacementFor(std::uint32_t index, const std::optional<AugmentKey>& key) const {
    const std::int64_t border = (format_.side - format_.stored_side) / 2;
    Placement placement{-border, -border, false};
    if (!key || !Augments()) {
      return placement;
    }
    const std::uint64_t draw = Mix(Mix(Mix(key->seed) ^ key->epoch) ^ index);
    const std::uint64_t places = 2 * std::uint64_t{format_.crop_padding} + 1;
    const auto padding = static_cast<std::int64_t>(format_.crop_padding);
    placement.row += static_cast<std::int64_t>((draw & 0xffffff) % places) - padding;
    placement.column += static_cast<std::int64_t>((draw >> 24 & 0xffffff) % places) - padding;
    placement.flip = format_.flip && (draw >> 63) != 0;
    return placement;
  }

  void CopyAll(const std::uint8_t* image, std::size_t numbers, float* out) const {
    const float* const table = tables_[0].data();
    for (std::size_t i = 0; i < numbers; ++i) {
      out[i] = table[image[i]];
    }
  }

  void Place(const std::uint8_t* image, const Placement& placement, float* out) const {
    const auto side = static_cast<std::int64_t>(format_.side);
    const auto stored = static_cast<std::int64_t>(format_.stored_side);
    const std::int64_t first = std::clamp<std::int64_t>(-placement.column, 0, side);
    const std::int64_t last = std::clamp<std::int64_t>(stored - placement.column, first, side);
    for (std::uint32_t channel = 0; channel < format_.channels; ++channel) {
      const std::uint32_t plane = std::min(channel, format_.planes - 1);
      const float* const table = tables_[channel].data();
      for (std::int64_t row = 0; row < side; ++row, out += side) {
        const std::int64_t from = row + placement.row;
        if (from < 0 || from >= stored) {
          std::fill_n(out, side, table[0]);
          continue;
        }
        const std::uint8_t* const line =
            image + (plane * stored + from) * stored + placement.column;
        std::fill_n(out, first, table[0]);
        for (std::int64_t column = first; column < last; ++column) {
          out[column] = table[line[column]];
        }
        std::fill_n(out + last, side - last, table[0]);
        if (placement.flip) {
          std::reverse(out, out + side);
        }
      }
    }
  }

  ImageFormat format_;
  ImageBytes bytes_;
  std::array<Table, 3> tables_{};
};

}  // namespace

Samples MakeImageSamples(const ImageFormat& format, ImageBytes bytes) {
  const std::uint32_t count = bytes.count;
  auto images = std::make_shared<const ImageSamples>(format, std::move(bytes));
  return {count,
          [images](std::span<const std::uint32_t> indices, const std::optional<AugmentKey>& key,
                   const BatchRoom& room) { images->Gather(indices, key, room); }};
}

Task ImageTask(const ImageFormat& format, std::int64_t classes) {
  return {
      .inputs = {{format.channels, format.side, format.side}}, .classes = classes, .target = {}};
}

}  // namespace ddprun
