#include "core/cli/inspect_composition.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cli/inspect_adapter.h"
#include "core/cli/inspect_json.h"

namespace veneer::cli {
namespace {

// By site, in load order; within one adapter its replacement comes before its edit.
Result<std::map<std::string, OutJson>> StacksOf(const ValidatedComposition& validated) {
  std::map<std::string, OutJson> stacks;
  const SiteTable& sites = validated.base()->sites();
  for (std::size_t i = 0; i < validated.adapters().size(); ++i) {
    const StageAdapter& entry = validated.adapters()[i];
    const OutJson member{{"adapter", entry.name},
                         {"load_order", i},
                         {"kind", entry.adapter->kind},
                         {"strength", validated.composition().adapters[i].merge_weight.text()}};
    VENEER_ASSIGN(const std::vector<TensorView> stored, StoredTensors(entry.adapter->weights));
    for (const Replacement& one : entry.adapter->replacements) {
      OutJson& added = stacks[one.site].emplace_back(member);
      added["replaces"] = ReplacementJson(one, *sites.Find(one.site));
    }
    for (const AdapterSite& part : entry.adapter->sites) {
      OutJson& added = stacks[part.site].emplace_back(member);
      added.update(EditJson(part, stored));
      added["effective_scale"] = entry.strength * part.scale.value_or(1);
    }
  }
  return stacks;
}

}  // namespace

OutJson EntryJson(const AdapterEntry& entry) {
  OutJson facts{{"name", entry.name},
                {"kind", entry.kind},
                {"format", entry.format},
                {"strength", entry.merge_weight.text()},
                {"rank", entry.rank},
                {"sparsity", entry.sparsity.text()},
                {"params", ParamsJson(entry.params)},
                {"file_hash", entry.file_hash.Text()},
                {"file_size", entry.file_size},
                {"config_hash", entry.config_hash ? OutJson(entry.config_hash->Text()) : OutJson()},
                {"config_size", entry.config_size},
                {"plugin", nullptr},
                {"targets", entry.target_layers}};
  if (entry.plugin)
    facts["plugin"] = {{"name", entry.plugin->name},
                       {"version", entry.plugin->version},
                       {"sha256", entry.plugin->sha256 ? OutJson(entry.plugin->sha256->Text()) : OutJson()}};
  return facts;
}

OutJson ContractJson(const Composition& composition) {
  const QuantizationClaim& quantization = composition.quantization;
  return {
      {"base", {{"hash", composition.base_model_hash.Text()}, {"size", composition.base_model_size}, {"format", composition.base_format}}},
      {"tokenizer", {{"id", composition.tokenizer_id}, {"hash", composition.tokenizer_hash.Text()}, {"size", composition.tokenizer_size}}},
      {"quantization", {{"dtype", quantization.dtype}, {"scheme", quantization.scheme}, {"block_size", quantization.block_size}}},
      {"runtime", {{"name", composition.runtime_name}, {"version", composition.runtime_version}}},
      {"tied_weights", composition.tied_weights}};
}

Result<OutJson> CompositionJson(const ValidatedComposition& validated) {
  const Composition& composition = validated.composition();
  OutJson facts{{"what", "composition"}, {"composition", composition.Id().Text()}};
  facts.update(ContractJson(composition));
  facts["adapters"] = OutJson::array();
  for (const AdapterEntry& entry : composition.adapters) facts["adapters"].push_back(EntryJson(entry));
  facts["sites"] = OutJson::array();
  VENEER_ASSIGN(auto stacks, StacksOf(validated));
  for (auto& [id, stack] : stacks)
    facts["sites"].emplace_back(SiteFactsJson(*validated.base()->sites().Find(id)))["stack"] = std::move(stack);
  facts["notes"] = validated.notes();
  return facts;
}

}  // namespace veneer::cli
