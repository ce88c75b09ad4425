// The tensors of a Hugging Face directory: one safetensors file, or shards and an index that says what lies where.
#ifndef VENEER_CORE_MODEL_HF_TENSORS_H_
#define VENEER_CORE_MODEL_HF_TENSORS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/format/tensor_file.h"
#include "core/model/base.h"

namespace veneer {

inline constexpr std::string_view kHfConfigName = "config.json", kHfIndexName = "model.safetensors.index.json",
                                  kHfWeightsName = "model.safetensors";

// The shards an index names, sorted. E205 for one that is no plain file name, E203/E204 for an index of another form.
Result<std::vector<std::string>> ShardsOfIndex(std::string_view index);

// Views into the files, sorted by name. E402 for a tensor that lies in two shards, that the index places where it is not, or that the index
// does not name; E40x for a damaged shard. `at` begins with the file's name.
Result<std::vector<TensorView>> ReadHfTensors(std::span<const BaseFile> files);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_HF_TENSORS_H_
