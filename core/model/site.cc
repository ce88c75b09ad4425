#include "core/model/site.h"

#include <utility>

#include "core/model/site_names.h"

namespace veneer {

SiteTable::SiteTable(std::vector<Site> sites) : sites_(std::move(sites)) {
  by_id_.reserve(sites_.size());
  for (std::uint32_t i = 0; i < sites_.size(); ++i) {
    sites_[i].index = i;
    by_id_.emplace(sites_[i].id, i);
  }
}

const Site* SiteTable::Find(std::string_view id) const {
  const auto found = by_id_.find(std::string(id));
  return found == by_id_.end() ? nullptr : &sites_[found->second];
}

std::optional<std::string> SiteTable::Canonical(std::string_view name) const {
  if (Find(name) != nullptr) return std::string(name);
  if (const auto translated = HuggingFaceName(name); translated && Find(*translated) != nullptr) return translated;
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight) && Find(name.substr(0, name.size() - kWeight.size())) != nullptr)
    return std::string(name.substr(0, name.size() - kWeight.size()));
  return std::nullopt;
}

}  // namespace veneer
