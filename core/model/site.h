// Sites: the places of a base that an overlay can edit, under their Hugging Face names and in Hugging Face lane order.
#ifndef VENEER_CORE_MODEL_SITE_H_
#define VENEER_CORE_MODEL_SITE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/format/tensor_file.h"
#include "kernels/scaled_rows.h"

namespace veneer {

enum class SiteClass : std::uint32_t {
  kLinear = VNR_SITE_LINEAR,
  kEmbedding = VNR_SITE_EMBEDDING,
  kVector = VNR_SITE_VECTOR,
};

inline constexpr std::uint32_t kNoLayer = UINT32_MAX;

// How the lanes of a site (Hugging Face order) lie in the stored tensor. A GGUF of architecture `llama` stores the rows of
// q_proj and k_proj with the two halves of each head interleaved; everything else is stored as it is.
// This type is the only place that knows (core/model/row_order.cc holds the formula and its test vectors).
class RowOrder {
 public:
  static RowOrder Identity() { return RowOrder(0); }
  static RowOrder InterleavedHeads(std::uint32_t head_dim) { return RowOrder(head_dim); }
  [[nodiscard]] bool is_identity() const { return head_dim_ == 0; }
  [[nodiscard]] std::uint64_t StoredRow(std::uint64_t lane) const;  // HF lane -> stored row
  // Of the lanes [lane, lane + n), into rows: a division in all, where decoding would do some for every lane.
  void StoredRows(std::uint64_t lane, std::uint64_t n, std::uint64_t* rows) const;
  [[nodiscard]] std::uint64_t LaneOf(std::uint64_t stored_row) const;  // its inverse

 private:
  explicit RowOrder(std::uint32_t head_dim) : head_dim_(head_dim) {}
  std::uint32_t head_dim_;
};

// A weight as its rows lie in memory.
struct StoredWeight {
  const std::byte* data;
  DType dtype;
  RowOrder order;
  const kernels::WeightScales* scales = nullptr;  // of a type whose scales lie in other tensors
};
std::uint64_t RowBytes(DType dtype, std::uint64_t width);
// What the kernels take for the rows of lanes [lane, lane + n), of a weight with rows of `width` elements in `row_bytes`: their bytes, or
// `slots`, filled.
void RowPointers(const StoredWeight& weight, std::uint64_t width, std::uint64_t row_bytes, std::uint64_t lane, std::uint64_t n,
                 const void** rows, kernels::ScaledRow* slots);
// Dequantizes rows [row, row + n) of `width` elements, in lane order, into dst (row stride ld floats).
void ReadStoredRows(const StoredWeight& weight, std::uint64_t width, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld);

struct Site {
  std::string id;           // "model.layers.3.self_attn.q_proj"
  std::uint32_t index = 0;  // position in SiteTable::sites()
  SiteClass shape_class = SiteClass::kLinear;
  std::uint64_t out = 0, in = 0;  // LINEAR [out, in]; EMBEDDING [vocab, width]; VECTOR [out], in = 1
  std::uint32_t layer = kNoLayer;
  std::uint32_t storage_group = 0;  // equal for sites over one stored tensor (tied embeddings)
  bool is_tied = false;
  TensorView weight;  // stored tensor; VECTOR: shape [out]
  RowOrder row_order = RowOrder::Identity();
  std::shared_ptr<const kernels::WeightScales> scales;  // of a type whose scales lie in other tensors
  std::optional<TensorView> bias;                       // LINEAR with a bias: stored [out] in stored row order

  [[nodiscard]] StoredWeight stored() const { return {weight.bytes.data(), weight.dtype, row_order, scales.get()}; }
};

// All sites of a base, immutable, findable by Hugging Face id and by GGUF name ("blk.3.attn_q", with or without ".weight").
class SiteTable {
 public:
  explicit SiteTable(std::vector<Site> sites);
  [[nodiscard]] const std::vector<Site>& sites() const { return sites_; }
  [[nodiscard]] const Site* Find(std::string_view id) const;  // Hugging Face id only
  // Hugging Face id for a Hugging Face or GGUF name ("blk.3.attn_q" -> "model.layers.3.self_attn.q_proj"), if the site exists.
  [[nodiscard]] std::optional<std::string> Canonical(std::string_view name) const;

 private:
  std::vector<Site> sites_;
  std::unordered_map<std::string, std::uint32_t> by_id_;
};

// Dequantizes rows [row, row + n) of the site's weight, in Hugging Face row order, into dst (row stride ld floats).
// LINEAR and EMBEDDING: rows of [out, in]. VECTOR: one row of `out` elements (row = 0, n = 1).
void ReadRows(const Site& site, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_SITE_H_
