// A sparse additive edit of a linear layer.
//
//   y[t, o] += c * sum_i S[o, i] * x[t, i]          S [out, in], n stored entries
//
// c = strength * scale, rounded once to f32. The entries come as CSR (row_ptr, col_idx) or as COO (indices: row 0 the lane, row 1 the
// column, in any order), and lie in memory as CSR: values in the type they are stored in, columns in 2 bytes where `in` allows, else in 4.
// Error of a row of k entries, no underflow: |y - exact| <= g(ceil(k / 4) + 3) * |c| * |S||x| + u * |exact|, u = 2^-24,
// g(n) = n u / (1 - n u) (Higham, Accuracy and Stability, 2nd ed., section 3.1; order of the sum: product.h).
// Source: Bhardwaj et al. 2024, arXiv:2406.13175 (SHiRA), section 3.
//
// Where c is zero, or every value, the overlay keeps nothing and leaves y alone: adding a zero would turn -0 into +0.
#ifndef VENEER_PLUGINS_SPARSE_DELTA_OVERLAY_H_
#define VENEER_PLUGINS_SPARSE_DELTA_OVERLAY_H_

#include <cstdint>
#include <string>

#include "plugins/sparse_delta/import.h"
#include "plugins/sparse_delta/product.h"
#include "veneer/overlay.hpp"

namespace veneer_sparse_delta {

struct SparseDeltaOverlay : veneer::overlay {
  static constexpr const char* id = "sparse-delta";
  static constexpr const char* summary = "sparse additive overlay (SHiRA, CSR or COO deltas) on linear layers";
  static constexpr const char* schema = R"({"type":"object","additionalProperties":false,"properties":{)"
                                        R"("scale":{"type":"number","minimum":-100000,"maximum":100000},)"
                                        R"("op":{"type":"string","enum":["add"]},"encoding":{"type":"string","enum":["csr","coo"]}}})";
  static constexpr uint32_t flags = VNR_KIND_ADDITIVE;
  static constexpr uint32_t index_types = VNR_BIT(VNR_I32) | VNR_BIT(VNR_U32) | VNR_BIT(VNR_I64);
  static constexpr vnr_role roles[] = {
      veneer::with(veneer::role("values", veneer::sym('n')), VNR_ROLE_ENTRIES),
      veneer::with(veneer::role("row_ptr", VNR_DIM_OUT_PLUS_1), VNR_ROLE_OPTIONAL, index_types),
      veneer::with(veneer::role("col_idx", veneer::sym('n')), VNR_ROLE_OPTIONAL | VNR_ROLE_ENTRIES, index_types),
      veneer::with(veneer::role("indices", 2, veneer::sym('n')), VNR_ROLE_OPTIONAL | VNR_ROLE_ENTRIES, index_types | VNR_BIT(VNR_F32))};
  static constexpr const vnr_import* import = &kImport;

  void bind(const vnr_site& site, const veneer::source& source);
  uint64_t resident_bytes(const vnr_site& site) const;
  uint64_t transient_bytes(const vnr_site& site) const;
  veneer::program stage(const veneer::stager& stager);
  void prepare(const vnr_site& site, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept;
  void apply(const vnr_site& site, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept;
  void weight_row(const vnr_site& site, uint64_t row, float* w) const;
  std::string describe(const vnr_site& site) const;

 private:
  enum class Form : uint32_t { kCsr, kSortedCoo, kUnsortedCoo };

  void CheckForm(const veneer::source& source);
  void CheckCsr(const vnr_site& site, const veneer::source& source) const;
  void CheckCoo(const vnr_site& site, const veneer::source& source);
  void CheckValues(const vnr_tensor& values);

  [[nodiscard]] bool has_wide_columns(const vnr_site& site) const { return site.in > kMaxNarrow; }
  [[nodiscard]] uint64_t value_width() const { return dtype_ == VNR_F32 ? 4 : 2; }
  [[nodiscard]] uint64_t column_width(const vnr_site& site) const { return has_wide_columns(site) ? 4 : 2; }
  [[nodiscard]] uint64_t ColumnAt(const vnr_site& site, uint64_t entry) const;
  void StageRows(const veneer::stager& stager);
  veneer::buf<uint32_t> Order(const veneer::stager& stager);
  void StageEntries(const veneer::stager& stager);

  Form form_ = Form::kCsr;
  uint32_t dtype_ = VNR_F32;  // of the values
  bool edits_ = false;
  uint64_t n_ = 0;
  float scale_ = 0;                     // c
  veneer::buf<uint32_t> row_ptr_;       // [out + 1]
  veneer::buf<unsigned char> columns_;  // u16 or u32 [n + kPad]
  veneer::buf<unsigned char> values_;   // [n + kPad]
  Kernels kernels_{};
};

}  // namespace veneer_sparse_delta

#endif  // VENEER_PLUGINS_SPARSE_DELTA_OVERLAY_H_
