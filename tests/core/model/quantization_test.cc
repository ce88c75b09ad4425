#include "core/model/quantization.h"

#include "core/model/gguf_sites.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {
namespace {

Quantization Of(const GgufWriter& writer) {
  const std::string bytes = writer.Bytes();
  const auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)));
  if (!file) FAIL(file.error().Text());
  return QuantizationOf(TensorsOf(*file));
}

TEST_CASE("quantization: the type of most elements of the matrices decides, whatever the number of tensors and vectors") {
  GgufWriter writer;
  writer.SetTensor("large", VNR_Q4_0, {4, 64}, std::string(4 * 36, 'q'));
  writer.SetTensor("small", VNR_Q8_0, {1, 64}, std::string(68, 'q'));
  writer.SetTensor("small2", VNR_Q8_0, {2, 64}, std::string(136, 'q'));
  writer.SetTensor("vector", VNR_F32, {4096}, std::string(16384, 'q'));
  CHECK(Of(writer) == Quantization{.dtype = "q4_0", .scheme = "symmetric", .block_size = 32});
}

TEST_CASE("quantization: of two types with equally many elements the lower ggml number wins") {
  GgufWriter writer;
  writer.SetTensor("a", VNR_BF16, {4, 64}, std::string(512, 'q'));     // ggml 30, but a lower VNR number
  writer.SetTensor("b", VNR_Q8_0, {4, 64}, std::string(4 * 68, 'q'));  // ggml 8
  CHECK(Of(writer).dtype == "q8_0");
}

TEST_CASE("quantization: scheme and block size belong to the type") {
  const std::tuple<std::uint32_t, const char*, const char*, std::uint64_t> types[] = {
      {VNR_F32, "f32", "none", 1},         {VNR_F16, "f16", "none", 1},           {VNR_BF16, "bf16", "none", 1},
      {VNR_Q4_0, "q4_0", "symmetric", 32}, {VNR_Q4_1, "q4_1", "affine", 32},      {VNR_Q5_0, "q5_0", "symmetric", 32},
      {VNR_Q5_1, "q5_1", "affine", 32},    {VNR_Q8_0, "q8_0", "symmetric", 32},   {VNR_Q4_K, "q4_k", "k", 256},
      {VNR_Q6_K, "q6_k", "k", 256},        {VNR_IQ4_NL, "iq4_nl", "codebook", 32}};
  for (const auto& [type, dtype, scheme, block] : types) {
    GgufWriter writer;
    writer.SetTensor("w", type, {1, 256},
                     type == VNR_F32 || type == VNR_F16 || type == VNR_BF16 ? std::string(type == VNR_F32 ? 1024 : 512, 'q')
                                                                            : RandomBlocks(type, 256, 1, 1));
    CHECK(Of(writer) == Quantization{.dtype = dtype, .scheme = scheme, .block_size = block});
  }
}

}  // namespace
}  // namespace veneer
