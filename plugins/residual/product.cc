#include "plugins/residual/product.h"

#include <algorithm>

#if defined(VENEER_ONEDNN)
#include "kernels/onednn/matmul.h"
#endif

namespace veneer_residual {

#if defined(VENEER_ONEDNN)
namespace {

using veneer::kernels::onednn::Matmul;

constexpr std::uint64_t kMinColumns = 256;  // nothing smaller was measured
constexpr std::uint64_t kMaxChunk = 768;    // columns; the tile is at most 325 KiB, in the L2 cache

std::uint64_t AlignUp(std::uint64_t n) { return (n + 63) / 64 * 64; }

// Chunks of about equal size, multiples of a block of the matrix; the last one is the rest.
std::uint64_t ChunkOf(std::uint64_t columns) {
  const std::uint64_t chunks = (columns + kMaxChunk - 1) / kMaxChunk, even = (columns + chunks - 1) / chunks;
  std::uint64_t chunk = (even + Matrix::kBlock - 1) / Matrix::kBlock * Matrix::kBlock;
  if (chunk % 128 == 0) chunk += Matrix::kBlock;  // rows 512 bytes apart fall on the same cache sets
  return chunks == 1 ? columns : chunk;
}

}  // namespace

struct Product::Impl {
  std::uint64_t chunk = 0;
  std::unique_ptr<Matmul> of_chunk, of_rest;  // of_rest: nullptr when the chunks come out even
};

bool Product::IsFaster(std::uint64_t columns, std::uint32_t max_tokens) { return columns >= kMinColumns && max_tokens >= kTokens; }

std::uint64_t Product::OpaqueBytes(std::uint64_t columns) { return (columns % ChunkOf(columns) == 0 ? 1 : 2) * Matmul::kOpaqueBytes; }

bool Product::Create(std::uint64_t columns) {
  auto impl = std::make_unique<Impl>();
  impl->chunk = ChunkOf(columns);
  impl->of_chunk = Matmul::Create({impl->chunk, kRows, true, true});
  if (!impl->of_chunk) return false;
  if (const std::uint64_t rest = columns % impl->chunk; rest != 0) {
    impl->of_rest = Matmul::Create({rest, kRows, true, true});
    if (!impl->of_rest) return false;
  }
  impl_ = std::move(impl);
  return true;
}

std::uint64_t Product::scratch_bytes() const {
  const std::uint64_t library = std::max(impl_->of_chunk->scratch_bytes(), impl_->of_rest ? impl_->of_rest->scratch_bytes() : 0);
  return AlignUp(kRows * impl_->chunk * sizeof(float)) + AlignUp(library);
}

bool Product::Run(const Matrix& matrix, std::uint64_t first_row, veneer::kernels::Table::Dequantize dequantize, const float* x,
                  std::uint64_t x_stride, std::uint32_t tokens, float* sums, std::uint64_t sums_stride, void* scratch) const {
  auto* tile = static_cast<float*>(scratch);
  void* library = static_cast<unsigned char*>(scratch) + AlignUp(kRows * impl_->chunk * sizeof(float));
  for (std::uint32_t t = 0; t < tokens; t++) std::fill_n(sums + t * sums_stride, kRows, 0.0F);
  for (std::uint64_t first = 0; first < matrix.columns(); first += impl_->chunk) {
    const std::uint64_t n = std::min(impl_->chunk, matrix.columns() - first);
    for (std::uint64_t r = 0; r < kRows; r++) dequantize(matrix.at(first_row + r, first), tile + r * n, n);
    const Matmul& product = n == impl_->chunk ? *impl_->of_chunk : *impl_->of_rest;
    if (!product.Run(tokens, x + first, x_stride, tile, sums, sums_stride, library)) return false;
  }
  return true;
}

#else

struct Product::Impl {};

bool Product::IsFaster(std::uint64_t, std::uint32_t) { return false; }
std::uint64_t Product::OpaqueBytes(std::uint64_t) { return 0; }
bool Product::Create(std::uint64_t) { return false; }
std::uint64_t Product::scratch_bytes() const { return 0; }
bool Product::Run(const Matrix&, std::uint64_t, veneer::kernels::Table::Dequantize, const float*, std::uint64_t, std::uint32_t, float*,
                  std::uint64_t, void*) const {
  return false;
}

#endif

Product::Product() = default;
Product::~Product() = default;

}  // namespace veneer_residual
