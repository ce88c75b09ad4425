#include "core/cli/inspect_base.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/cli/inspect_json.h"

namespace veneer::cli {
namespace {

// Sites and stored bytes by type; what tied sites share is counted once.
OutJson TypesOf(const Base& base) {
  std::map<std::string_view, std::pair<std::uint64_t, std::uint64_t>> types;
  std::set<std::uint32_t> counted;
  for (const Site& site : base.sites().sites()) {
    auto& [sites, bytes] = types[InfoOf(site.weight.dtype).name];
    ++sites;
    if (!site.is_tied || counted.insert(site.storage_group).second) bytes += site.weight.bytes.size();
  }
  OutJson facts = OutJson::array();
  for (const auto& [name, entry] : types) facts.push_back({{"dtype", name}, {"sites", entry.first}, {"bytes", entry.second}});
  return facts;
}

}  // namespace

OutJson BaseFactsJson(const Base& base, const Digest& hash) {
  const ModelConfig& config = base.config();
  const Quantization& quantization = base.quantization();
  OutJson facts{
      {"what", "base"},
      {"format", base.format()},
      {"file_hash", hash.Text()},
      {"file_size", base.file_bytes()},
      {"architecture", config.arch},
      {"layers", config.n_layers},
      {"hidden", config.hidden},
      {"ffn", config.ffn},
      {"heads", config.n_heads},
      {"kv_heads", config.n_kv_heads},
      {"head_dim", config.head_dim},
      {"vocab", config.vocab},
      {"context", config.context_length},
      {"tied_head", config.tied_head},
      {"quantization", {{"dtype", quantization.dtype}, {"scheme", quantization.scheme}, {"block_size", quantization.block_size}}},
      {"tokenizer",
       {{"id", base.tokenizer().id}, {"hash", Sha256::Of(base.tokenizer().bytes).Text()}, {"size", base.tokenizer().bytes.size()}}},
      {"types", TypesOf(base)}};
  facts["sites"] = OutJson::array();
  for (const Site& site : base.sites().sites()) {
    OutJson& one = facts["sites"].emplace_back(SiteFactsJson(site));
    one["bytes"] = site.weight.bytes.size();
    one["tied"] = site.is_tied;
  }
  return facts;
}

}  // namespace veneer::cli
