#include "core/compose/replace_conflicts.h"

#include <fmt/format.h>

#include <algorithm>

namespace veneer {
namespace {

constexpr std::string_view kBias = ".bias";

// Whether both replace the same row; whole tensors overlap with everything.
bool Overlap(const Replacement& a, const Replacement& b) {
  if (a.rows.empty() || b.rows.empty()) return true;
  return std::ranges::any_of(
      a.rows, [&b](const Replacement::Row& row) { return std::ranges::binary_search(b.rows, row.lane, {}, &Replacement::Row::lane); });
}

Status CheckPair(const StageAdapter& earlier, const StageAdapter& later) {
  for (const Replacement& mine : later.adapter->replacements) {
    if (std::ranges::find(earlier.adapter->sites, mine.site, &AdapterSite::site) != earlier.adapter->sites.end())
      return Fail(
          Code::REPLACE_CONFLICT, later.name,
          fmt::format("replaces {}, which {} before it edits: the edit would be lost; put {} first", mine.site, earlier.name, later.name));
    // A kind may edit the bias of its module, which the declarations do not tell.
    const std::string_view module =
        std::string_view(mine.site).substr(0, mine.site.size() - (mine.site.ends_with(kBias) ? kBias.size() : 0));
    if (module != mine.site && std::ranges::find(earlier.adapter->sites, module, &AdapterSite::site) != earlier.adapter->sites.end())
      return Fail(Code::REPLACE_CONFLICT, later.name,
                  fmt::format("replaces {}, and {} before it edits its module and may edit the bias too; put {} first", mine.site,
                              earlier.name, later.name));
    for (const Replacement& other : earlier.adapter->replacements)
      if (other.site == mine.site && Overlap(other, mine))
        return Fail(Code::REPLACE_CONFLICT, later.name,
                    fmt::format("replaces {}, and so does {} before it; only one of them can be active", mine.site, earlier.name));
  }
  return {};
}

}  // namespace

std::vector<std::string> EditedSites(const Adapter& adapter) {
  std::vector<std::string> ids;
  for (const AdapterSite& part : adapter.sites) ids.push_back(part.site);
  for (const Replacement& one : adapter.replacements) ids.push_back(one.site);
  std::ranges::sort(ids);
  const auto twice = std::ranges::unique(ids);
  ids.erase(twice.begin(), twice.end());
  return ids;
}

Status CheckReplacements(std::span<const StageAdapter> stack) {
  for (std::size_t later = 0; later < stack.size(); ++later)
    for (std::size_t earlier = 0; earlier < later; ++earlier)
      if (stack[earlier].strength != 0 && stack[later].strength != 0) VENEER_TRY(CheckPair(stack[earlier], stack[later]));
  return {};
}

}  // namespace veneer
