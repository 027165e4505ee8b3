// The models that the trainer knows, each from a file of its own.
//
// To add one: a file beside mlp.cc that defines its entry, and a line in the table in entries.cc.
#pragma once

#include <span>
#include <string_view>

#include "trainer/models/model.h"

namespace ddprun {

// mlp: members fc1 = nn.Linear(784, 50) and fc2 = nn.Linear(50, 10), called fc2(relu(fc1(x))) on
// flattened images; linear has one member fc. toy: net1 = nn.Linear(10, 10), net2 =
// nn.Linear(10, 5), called net2(relu(net1(x))). (mlp.cc)
extern const ModelEntry kMlp;
extern const ModelEntry kLinear;
extern const ModelEntry kToy;

// Two convolutions with pooling and one linear layer: nn.Sequential's names. (cnn.cc)
extern const ModelEntry kCnn;

// torchvision's vgg11_bn features for 32x32 images (features.0.weight ... features.26.bias), then
// one linear layer `classifier` on the 512 numbers that five poolings leave. (vgg11.cc)
extern const ModelEntry kVgg11;

// nn.Transformer(batch_first=True), its own names (encoder.layers.0.self_attn.in_proj_weight ...).
// No masks. (transformer.cc)
extern const ModelEntry kTransformer;

std::span<const ModelEntry* const> KnownModels();
const ModelEntry* FindModel(std::string_view name);

}  // namespace ddprun
