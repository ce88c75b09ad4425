#include "core/adapter/replacement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace veneer {
namespace {

StoredWeight Plain(const TensorView& tensor) { return {tensor.bytes.data(), tensor.dtype, RowOrder::Identity()}; }

bool IsFloat(DType dtype) { return dtype == VNR_F32 || dtype == VNR_F16 || dtype == VNR_BF16; }

}  // namespace

Status CheckReplacement(const Site& site, const Replacement& replacement) {
  const TensorView& tensor = replacement.tensor;
  if (!IsFloat(tensor.dtype))
    return Fail(Code::FORMAT_UNSUPPORTED, tensor.name,
                fmt::format("replaces {} with {} values; allowed are f32, f16 and bf16", site.id, InfoOf(tensor.dtype).name));
  std::vector<std::uint64_t> wanted = {site.out};
  if (site.shape_class != SiteClass::kVector) wanted.push_back(site.in);
  if (!replacement.rows.empty()) wanted.front() = replacement.rows.size();
  if (tensor.shape != wanted)
    return Fail(Code::SHAPE_MISMATCH, tensor.name,
                fmt::format("has shape {}, to replace {} of this base it must be {}; the adapter was made for another base, or resized its "
                            "vocabulary",
                            ShapeText(tensor.shape), site.id, ShapeText(wanted)));
  const std::uint64_t width = wanted.back(), count = tensor.elements() / width;
  std::vector<float> row(width);
  for (std::uint64_t r = 0; r < count; ++r) {
    ReadStoredRows(Plain(tensor), width, r, 1, row.data(), width);
    for (std::uint64_t i = 0; i < width; ++i)
      if (!std::isfinite(row[i]))
        return Fail(Code::NOT_FINITE, tensor.name, fmt::format("element {} is {}; the adapter is damaged", r * width + i, row[i]));
  }
  return {};
}

Status SortReplacements(std::vector<Replacement>& replacements) {
  std::ranges::sort(replacements, {}, &Replacement::site);
  const auto twice = std::ranges::adjacent_find(replacements, {}, &Replacement::site);
  if (twice == replacements.end()) return {};
  return Fail(Code::REPLACE_CONFLICT, twice->tensor.name,
              fmt::format("{} is replaced twice by one file; keep one of the two", twice->site));
}

bool EqualsBase(const Site& site, const TensorView& tensor) {
  const bool is_vector = site.shape_class == SiteClass::kVector;
  const std::uint64_t width = is_vector ? site.out : site.in, count = is_vector ? 1 : site.out;
  std::vector<float> mine(width), base(width);
  for (std::uint64_t row = 0; row < count; ++row) {
    ReadStoredRows(Plain(tensor), width, row, 1, mine.data(), width);
    ReadRows(site, row, 1, base.data(), width);
    if (std::memcmp(mine.data(), base.data(), width * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace veneer
