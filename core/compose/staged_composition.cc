#include "core/compose/staged_composition.h"

#include <fmt/format.h>

#include <algorithm>

namespace veneer {

void StagedComposition::ReadBaseRows(const Site& site, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld) const {
  const StagedSite& staged = at(site);
  if (staged.weight.data == site.weight.bytes.data()) {
    ReadRows(site, row, n, dst, ld);
  } else {
    ReadStoredRows(staged.weight, site.shape_class == SiteClass::kVector ? site.out : site.in, row, n, dst, ld);
  }
  for (auto one = std::ranges::lower_bound(staged.rows, row, {}, &StoredRow::lane); one != staged.rows.end() && one->lane < row + n; ++one)
    ReadStoredRows({one->data, one->dtype, RowOrder::Identity()}, site.in, 0, 1, dst + (one->lane - row) * ld, site.in);
}

std::uint64_t StagedComposition::constant_bytes() const {
  std::uint64_t numbers = 0;
  for (const StagedSite& site : sites_) numbers += site.bias.size() + site.vector.size();
  return numbers * sizeof(float);
}

Status StagedComposition::CheckHealthy() const {
  for (const auto& binding : bindings_)
    if (binding->faulted())
      return Fail(Code::PLUGIN_FAULT, binding->site().id,
                  "an overlay failed while decoding; the composition is marked as faulted, activate another one");
  return {};
}

Status StagedComposition::CheckIntact() const {
  VENEER_TRY(CheckHealthy());
  return base_->CheckUnchanged(composition_.base_model_hash);  // adapters are sealed copies
}

}  // namespace veneer
