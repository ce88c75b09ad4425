// Integer indices out of a tensor of any index type, each checked as it is read.
#ifndef VENEER_PLUGINS_SPARSE_DELTA_INDICES_H_
#define VENEER_PLUGINS_SPARSE_DELTA_INDICES_H_

#include <cstdint>
#include <string>

#include "veneer/overlay.hpp"

namespace veneer_sparse_delta {

// A view of a tensor [n], or of row `row` of a tensor [rows, n].
class Indices {
 public:
  Indices(const vnr_tensor& tensor, const char* role, uint64_t row = 0);
  // Element i, which must be a whole number in [0, limit); else VNR_E_INVALID with place, value and limit. `what` says what the limit is.
  // f32 (from Windows, where PEFT stores indices so) holds whole numbers exactly only below 2^24, so larger ones are refused.
  [[nodiscard]] uint64_t at(uint64_t i, uint64_t limit, const char* what) const;
  [[nodiscard]] std::string Name(uint64_t i) const;  // "indices[1][17]"

 private:
  [[nodiscard]] int64_t Whole(uint64_t i) const;
  [[nodiscard]] double Real(uint64_t i) const;

  const unsigned char* data_;
  uint32_t dtype_;
  std::string prefix_;
};

}  // namespace veneer_sparse_delta

#endif  // VENEER_PLUGINS_SPARSE_DELTA_INDICES_H_
