#include "core/model/hf_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "core/base/bytes.h"
#include "core/format/json.h"
#include "core/format/safetensors.h"

namespace veneer {
namespace {

constexpr JsonLimits kIndexLimits{.bytes = 16 << 20, .depth = 4, .items = 200'000};

using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor -> shard

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\\") == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

Result<WeightMap> ParseIndex(std::string_view text) {
  VENEER_ASSIGN(const Json index, ParseJson(text, kIndexLimits));
  VENEER_ASSIGN(const Json* const map, index.Get("weight_map"));
  if (!map->is_object()) return Fail(Code::FIELD_TYPE, map->at, "must be an object of shards by tensor");
  WeightMap weights;
  for (const auto& [tensor, shard] : map->members) {
    VENEER_ASSIGN(std::string name, shard.String());
    if (!IsPlainFileName(name) || !name.ends_with(".safetensors"))
      return Fail(Code::NAME_INVALID, shard.at,
                  fmt::format("found {}, must be the name of a .safetensors file in the same directory", JsonQuote(name)));
    weights.emplace(tensor, std::move(name));
  }
  return weights;
}

struct Placed {
  TensorView tensor;
  std::string_view shard;
};

Result<std::vector<Placed>> ReadShards(std::span<const BaseFile> files) {
  std::vector<Placed> placed;
  for (const BaseFile& file : files) {
    if (file.name == kHfConfigName || file.name == kHfIndexName) continue;
    auto shard = SafetensorsFile::Parse(file.bytes.bytes());
    if (!shard) return Fail(std::move(shard).error().Within(file.name));
    for (TensorView& tensor : shard->tensors) placed.push_back({std::move(tensor), file.name});
  }
  const auto by_name = [](const Placed& one) -> const std::string& { return one.tensor.name; };
  std::ranges::sort(placed, {}, by_name);
  if (const auto twice = std::ranges::adjacent_find(placed, {}, by_name); twice != placed.end())
    return Fail(Code::HEADER_CORRUPT, fmt::format("{}: {}", twice->shard, twice->tensor.name),
                fmt::format("the tensor lies in {} too; download the model again", std::next(twice)->shard));
  return placed;
}

Status CheckIndex(const WeightMap& index, std::span<const Placed> placed) {
  for (const Placed& one : placed) {
    const auto entry = index.find(one.tensor.name);
    if (entry == index.end())
      return Fail(Code::HEADER_CORRUPT, fmt::format("{}: {}", one.shard, one.tensor.name),
                  fmt::format("the tensor is not in {}; download the model again", kHfIndexName));
    if (entry->second != one.shard)
      return Fail(Code::HEADER_CORRUPT, fmt::format("{}: /weight_map/{}", kHfIndexName, one.tensor.name),
                  fmt::format("found {}, the tensor lies in {}; download the model again", entry->second, one.shard));
  }
  for (const auto& [tensor, shard] : index)
    if (!std::ranges::binary_search(placed, tensor, {}, [](const Placed& one) -> const std::string& { return one.tensor.name; }))
      return Fail(Code::HEADER_CORRUPT, fmt::format("{}: /weight_map/{}", kHfIndexName, tensor),
                  fmt::format("{} does not hold the tensor; download the model again", shard));
  return {};
}

}  // namespace

Result<std::vector<std::string>> ShardsOfIndex(std::string_view index) {
  VENEER_ASSIGN(const WeightMap weights, ParseIndex(index));
  std::vector<std::string> shards;
  for (const auto& [tensor, shard] : weights) shards.push_back(shard);
  std::ranges::sort(shards);
  shards.erase(std::ranges::unique(shards).begin(), shards.end());
  return shards;
}

Result<std::vector<TensorView>> ReadHfTensors(std::span<const BaseFile> files) {
  VENEER_ASSIGN(std::vector<Placed> placed, ReadShards(files));
  if (const auto file = std::ranges::find(files, kHfIndexName, &BaseFile::name); file != files.end()) {
    const auto index = ParseIndex(AsText(file->bytes.bytes()));
    if (!index) return Fail(Error(index.error()).Within(file->name));
    VENEER_TRY(CheckIndex(*index, placed));
  }
  std::vector<TensorView> tensors;
  tensors.reserve(placed.size());
  for (Placed& one : placed) tensors.push_back(std::move(one.tensor));
  return tensors;
}

}  // namespace veneer
