#include "core/adapter/peft_replacements.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/adapter/names.h"

namespace veneer {
namespace {

constexpr std::string_view kTokensKey = "trainable_token_indices";
constexpr std::string_view kSavedKey = "modules_to_save";
constexpr std::string_view kEmbedding = "model.embed_tokens", kHead = "lm_head";

bool RemoveSuffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// PEFT saves a module, and all that is in it, when its path ends with an entry of modules_to_save.
bool IsSavedBy(std::string_view entry, std::string_view site) {
  return AnyModuleAround(site, [entry](std::string_view module) -> Result<bool> { return module.ends_with(entry); }).value_or(false);
}

// Of trainable_token_indices.
bool NamesModule(std::string_view entry, std::string_view module) { return module == entry || module.ends_with(fmt::format(".{}", entry)); }

}  // namespace

Result<PeftReplacements> PeftReplacements::Parse(const PeftConfig& config, const Base& base) {
  PeftReplacements replacements(config, base);
  if (const Json* saved = config.Find(kSavedKey); saved != nullptr && !saved->is_inert()) {
    if (!saved->is_array()) return Fail(Code::FIELD_TYPE, saved->at, "write a list of module names");
    VENEER_ASSIGN(replacements.saved_, ModuleList::Parse(*saved, ModuleList::Suffix::kPlain));
  }
  if (const Json* bias = config.Find("bias"); bias != nullptr) {
    VENEER_ASSIGN(const std::string mode, bias->String());
    if (mode != "none" && mode != "all" && mode != "lora_only")
      return Fail(Code::FORMAT_UNSUPPORTED, bias->at, fmt::format("{}, known are \"none\", \"all\" and \"lora_only\"", bias->Dump()));
    replacements.has_biases_ = mode != "none";
  }
  return replacements;
}

// Whether the configuration accounts for a whole tensor of this site.
Status PeftReplacements::CheckExpected(const Site& site, std::string_view module, std::string_view name, bool is_copy) const {
  if (saved_) {
    VENEER_ASSIGN(const bool is_saved, AnyModuleAround(module, [this](std::string_view around) { return saved_->Matches(around); }));
    if (is_saved) return {};
  }
  // PEFT saves these two by itself when they are targets or when the vocabulary was resized.
  if (site.id == kEmbedding || site.id == kHead) return {};
  if (site.shape_class == SiteClass::kVector && site.id.ends_with(".bias") && has_biases_) return {};
  return Fail(Code::TENSOR_UNMATCHED, std::string(name),
              fmt::format("is a {} of the base, but the configuration has it neither in modules_to_save nor by its bias mode; file and "
                          "configuration belong to different adapters",
                          is_copy ? "copy of a tensor" : "whole tensor"));
}

Result<bool> PeftReplacements::Take(std::string_view name, const TensorView& tensor) {
  std::string_view module = name;
  if (RemoveSuffix(module, ".token_adapter.trainable_tokens_delta")) {
    const Site* site = base_->sites().Find(module);
    if (site == nullptr) return false;
    VENEER_TRY(TakeRows(*site, tensor));
    return true;
  }
  const bool is_bias = RemoveSuffix(module, ".bias");
  if (!is_bias && !RemoveSuffix(module, ".weight")) return false;
  const bool is_copy = RemoveSuffix(module, ".base_layer");
  if (!is_copy) RemoveSuffix(module, ".modules_to_save");
  const Site* site = base_->sites().Find(is_bias ? fmt::format("{}.bias", module) : module);
  if (site == nullptr && is_bias && base_->sites().Find(module) != nullptr)
    return Fail(Code::TARGET_UNKNOWN, tensor.name,
                "is a trained bias, but this module of the base has none; use the base it was trained on");
  if (site == nullptr) return false;
  VENEER_TRY(CheckExpected(*site, module, tensor.name, is_copy));
  Replacement& replacement = taken_.emplace_back(Replacement{site->id, tensor, {}});
  VENEER_TRY(CheckReplacement(*site, replacement));
  return true;
}

// The key is a list (of the input embedding) or an object embedding -> list.
const Json* PeftReplacements::TokenListOf(std::string_view site) const {
  const Json* key = config_->Find(kTokensKey);
  if (key == nullptr) return nullptr;
  if (key->is_array() && site == kEmbedding) return key;
  if (key->is_object())
    for (const auto& [entry, value] : key->members)
      if (NamesModule(entry, site)) return &value;
  return nullptr;
}

Result<std::vector<std::uint64_t>> PeftReplacements::TokensOf(const Site& site) const {
  const Json* list = TokenListOf(site.id);
  if (list == nullptr || !list->is_array())
    return Fail(Code::FIELD_MISSING, "/trainable_token_indices",
                fmt::format("the file replaces rows of {}, but no list here says which; it is incomplete", site.id));
  std::vector<std::uint64_t> tokens;
  for (const Json& token : list->elements) {
    VENEER_ASSIGN(tokens.emplace_back(), token.U64());
    if (tokens.back() >= site.out)
      return Fail(Code::TARGET_UNKNOWN, token.at, fmt::format("token {}, {} has rows 0 to {}", tokens.back(), site.id, site.out - 1));
  }
  return tokens;
}

// Despite their name the tensor's rows are the new rows themselves, in the order of the list.
Status PeftReplacements::TakeRows(const Site& site, const TensorView& tensor) {
  VENEER_ASSIGN(const std::vector<std::uint64_t> tokens, TokensOf(site));
  Replacement& replacement = taken_.emplace_back(Replacement{site.id, tensor, {}});
  for (std::uint64_t index = 0; index < tokens.size(); ++index) replacement.rows.push_back({tokens[index], index});
  std::ranges::sort(replacement.rows, {}, &Replacement::Row::lane);
  const auto twice = std::ranges::adjacent_find(replacement.rows, {}, &Replacement::Row::lane);
  if (twice != replacement.rows.end())
    return Fail(Code::REPLACE_CONFLICT, "/trainable_token_indices", fmt::format("token {} is listed twice; list it once", twice->lane));
  if (replacement.rows.empty())
    return Fail(Code::FIELD_MISSING, "/trainable_token_indices", "lists no token; remove the key or name the tokens");
  return CheckReplacement(site, replacement);
}

// Over a tied base PEFT trains one set of rows for embedding and head, and saves it under the embedding's name alone.
void PeftReplacements::TieRows() {
  const Site* head = base_->sites().Find(kHead);
  if (head == nullptr || !head->is_tied) return;
  const auto has_rows_of = [](std::string_view id) { return [id](const Replacement& one) { return one.site == id && !one.rows.empty(); }; };
  const auto rows = std::ranges::find_if(taken_, has_rows_of(kEmbedding));
  if (rows == taken_.end() || std::ranges::any_of(taken_, has_rows_of(kHead))) return;
  const Json *mine = TokenListOf(kEmbedding), *other = TokenListOf(kHead);
  if (other != nullptr && other->Dump() != mine->Dump()) return;
  Replacement tied = *rows;
  tied.site = kHead;
  taken_.push_back(std::move(tied));
}

// Each list of tokens has its rows in the file.
Status PeftReplacements::CheckTokenLists() const {
  const Json* key = config_->Find(kTokensKey);
  if (key == nullptr || key->is_inert()) return {};
  const auto check = [this](std::string_view entry, const Json& list) -> Status {
    if (list.is_inert() ||
        std::ranges::any_of(taken_, [&](const Replacement& one) { return !one.rows.empty() && NamesModule(entry, one.site); }))
      return {};
    return Fail(Code::TARGET_UNKNOWN, list.at,
                fmt::format("lists tokens of {}, but the file has no rows for them; the file is incomplete", entry));
  };
  if (!key->is_object()) return check(kEmbedding, *key);
  for (const auto& [entry, list] : key->members) VENEER_TRY(check(entry, list));
  return {};
}

Result<std::vector<Replacement>> PeftReplacements::Finish(std::vector<IgnoredTensor>& ignored, std::vector<std::string>& notes) && {
  TieRows();
  if (const Json* saved = config_->Find(kSavedKey); saved_)
    for (const Json& entry : saved->elements)
      if (std::ranges::none_of(taken_, [&](const Replacement& one) { return IsSavedBy(entry.text, one.site); }))
        return Fail(Code::TARGET_UNKNOWN, entry.at,
                    fmt::format("{} is in modules_to_save, but the file has no tensor for it in this base; the file is incomplete, or the "
                                "adapter was made for another base",
                                entry.Dump()));
  VENEER_TRY(CheckTokenLists());
  std::vector<Replacement> kept;
  for (Replacement& one : taken_) {
    const Site& site = *base_->sites().Find(one.site);
    if (one.rows.empty() && EqualsBase(site, one.tensor)) {
      ignored.push_back({one.tensor.name, "is a copy that equals the base's tensor bit for bit: left out"});
      continue;
    }
    notes.push_back(one.rows.empty() ? fmt::format("{} differs from the base's tensor and replaces it", one.tensor.name)
                                     : fmt::format("{} replaces {} rows of {}", one.tensor.name, one.rows.size(), one.site));
    kept.push_back(std::move(one));
  }
  VENEER_TRY(SortReplacements(kept));
  return kept;
}

}  // namespace veneer
