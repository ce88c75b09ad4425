// A tensor as a foreign file stores it, brought into the form that its role declares.
#ifndef VENEER_CORE_ADAPTER_ROLE_TENSOR_H_
#define VENEER_CORE_ADAPTER_ROLE_TENSOR_H_

#include <cstddef>
#include <deque>
#include <vector>

#include "core/base/error.h"
#include "core/format/tensor_file.h"
#include "core/model/site.h"
#include "core/plugin/kind_decl.h"

namespace veneer {

// `stored` with the dimensions and the lane order of `role` at `site`:
//   - dimensions of size 1 that only one of the two has are added or left out in front, as ggml counts them;
//   - of a block type every element becomes f32;
//   - is_transposed: element [i, j] of the role is element [j, i] of the file;
//   - along OUT, lane order instead of the order of the base's stored rows.
// What needs none of that stays where it is, in its own type; a changed copy goes into `converted`, whose total stays under a limit
// (E214). E401 for a block type without a kernel. Sizes that do not fit the site pass through unchanged: CheckSource refuses them.
Result<TensorView> ToRole(const TensorView& stored, const RoleDecl& role, bool is_transposed, const Site& site,
                          std::deque<std::vector<std::byte>>& converted);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_ROLE_TENSOR_H_
