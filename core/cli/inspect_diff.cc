// Differences of two compositions; declared in inspect_composition.h.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cli/inspect_composition.h"

namespace veneer::cli {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;  // positions in a and b of what belongs together, ascending in a

OutJson Both(OutJson a, OutJson b) { return a == b ? OutJson() : OutJson{{"a", std::move(a)}, {"b", std::move(b)}}; }

bool IsSameArtifact(const AdapterEntry& a, const AdapterEntry& b) {
  return a.file_hash == b.file_hash && a.config_hash == b.config_hash && a.kind == b.kind;
}

Pairs Match(const std::vector<AdapterEntry>& a, const std::vector<AdapterEntry>& b) {
  std::vector<std::optional<std::size_t>> partner(a.size());
  std::vector<bool> taken(b.size());
  const auto pair_up = [&](auto&& belongs) {
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < b.size() && !partner[i]; ++j) {
        if (taken[j] || !belongs(a[i], b[j])) continue;
        partner[i] = j;
        taken[j] = true;
      }
  };
  pair_up([](const AdapterEntry& one, const AdapterEntry& other) { return one.name == other.name; });
  pair_up(IsSameArtifact);
  Pairs pairs;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (partner[i]) pairs.emplace_back(i, *partner[i]);
  return pairs;
}

// What only one of two sorted lists has.
OutJson OnlyIn(const std::vector<std::string>& list, const std::vector<std::string>& other) {
  std::vector<std::string> only;
  std::ranges::set_difference(list, other, std::back_inserter(only));
  return only;
}

// {"name", "differs": {field: {"a", "b"}}}; nothing when only positions differ.
std::optional<OutJson> Change(const AdapterEntry& a, const AdapterEntry& b) {
  const OutJson one = EntryJson(a), other = EntryJson(b);
  OutJson differs = OutJson::object();
  for (const auto& [field, value] : one.items()) {
    const OutJson& counterpart = other.at(field);
    if (value == counterpart) continue;
    differs[field] = field == "targets"
                         ? OutJson{{"a", OnlyIn(a.target_layers, b.target_layers)}, {"b", OnlyIn(b.target_layers, a.target_layers)}}
                         : Both(value, counterpart);
  }
  if (differs.empty()) return std::nullopt;
  return OutJson{{"name", a.name}, {"differs", std::move(differs)}};
}

// The names in either order, when that differs for what both have.
OutJson OrderOf(const std::vector<AdapterEntry>& a, const std::vector<AdapterEntry>& b, const Pairs& pairs) {
  if (std::ranges::is_sorted(pairs, {}, &Pairs::value_type::second)) return nullptr;
  Pairs by_b = pairs;
  std::ranges::sort(by_b, {}, &Pairs::value_type::second);
  OutJson order{{"a", OutJson::array()}, {"b", OutJson::array()}};
  for (const auto& [i, j] : pairs) order["a"].push_back(a[i].name);
  for (const auto& [i, j] : by_b) order["b"].push_back(b[j].name);
  return order;
}

// Those that have no partner, with their place in the order.
OutJson Lonely(const std::vector<AdapterEntry>& entries, const Pairs& pairs, std::size_t Pairs::value_type::* side) {
  OutJson lonely = OutJson::array();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::ranges::find(pairs, i, side) != pairs.end()) continue;
    OutJson one{{"load_order", i}};
    one.update(EntryJson(entries[i]));
    lonely.push_back(std::move(one));
  }
  return lonely;
}

}  // namespace

OutJson DiffJson(const Composition& a, const Composition& b) {
  OutJson facts{{"what", "diff"}, {"equal", a.Id() == b.Id()}, {"a", a.Id().Text()}, {"b", b.Id().Text()}};
  const OutJson contract = ContractJson(a), other = ContractJson(b);
  for (const auto& [name, value] : contract.items()) facts[name] = Both(value, other.at(name));
  const Pairs pairs = Match(a.adapters, b.adapters);
  OutJson& adapters = facts["adapters"];
  adapters["removed"] = Lonely(a.adapters, pairs, &Pairs::value_type::first);
  adapters["added"] = Lonely(b.adapters, pairs, &Pairs::value_type::second);
  adapters["changed"] = OutJson::array();
  for (const auto& [i, j] : pairs)
    if (auto change = Change(a.adapters[i], b.adapters[j])) adapters["changed"].push_back(*std::move(change));
  adapters["order"] = OrderOf(a.adapters, b.adapters, pairs);
  return facts;
}

}  // namespace veneer::cli
