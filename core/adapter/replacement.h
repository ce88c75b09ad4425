// Replacement tensors: the host's own kind `replace`, which needs no plugin. A tensor, or rows of one, stands in for the base's.
#ifndef VENEER_CORE_ADAPTER_REPLACEMENT_H_
#define VENEER_CORE_ADAPTER_REPLACEMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/format/tensor_file.h"
#include "core/model/site.h"

namespace veneer {

inline constexpr std::string_view kReplaceKind = "replace";

struct Replacement {
  struct Row {
    std::uint64_t lane;   // row of the site that is replaced
    std::uint64_t index;  // row of `tensor` that takes its place
  };
  std::string site;       // Hugging Face id; a bias is the VECTOR site `<module>.bias`
  TensorView tensor;      // F32, F16 or BF16 in Hugging Face row order: [out, in] ([out] for VECTOR), or [n, in] of `rows`
  std::vector<Row> rows;  // ascending lanes, each once; empty: the whole tensor
};

// Whether a whole tensor can stand in for the site's: type E401, shape E404 with both shapes, finite values E411.
Status CheckReplacement(const Site& site, const Replacement& replacement);

// Sorts by site; E216 when one file replaces a site twice.
Status SortReplacements(std::vector<Replacement>& replacements);

// Whether a whole replacement holds what the base holds, bit for bit once both are f32: then it replaces nothing.
bool EqualsBase(const Site& site, const TensorView& tensor);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_REPLACEMENT_H_
