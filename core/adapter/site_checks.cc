#include "core/adapter/site_checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace veneer {

Status CheckRank(const Site& site, std::uint64_t rank) {
  const std::uint64_t smaller = std::min(site.in, site.out);
  if (rank <= smaller) return {};
  return Fail(Code::RANK_MISMATCH, site.id,
              fmt::format("rank {} is above the smaller dimension {} of the site; the adapter was made for another base", rank, smaller));
}

bool HasEffect(const OverlaySource& source) {
  return std::ranges::none_of(source.tensors, [](const RoleTensor& one) {
    return std::ranges::all_of(one.tensor.bytes, [](std::byte byte) { return byte == std::byte{0}; });
  });
}

}  // namespace veneer
