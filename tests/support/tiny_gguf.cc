#include "tests/support/tiny_gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <type_traits>

namespace {

template <class T>
std::string Raw(T value) {
  static_assert(std::is_arithmetic_v<T>);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string Text(std::string_view text) { return Raw(std::uint64_t{text.size()}) + std::string(text); }

template <class T>
std::string Array(std::uint32_t element_type, const std::vector<T>& values) {
  std::string bytes = Raw(element_type) + Raw(std::uint64_t{values.size()});
  for (const T& value : values) {
    if constexpr (std::is_arithmetic_v<T>)
      bytes += Raw(value);
    else
      bytes += Text(value);
  }
  return bytes;
}

// ggml's numbers of the ABI's types.
std::uint32_t GgmlNumber(std::uint32_t vnr_type) {
  static const std::map<std::uint32_t, std::uint32_t> kNumbers = {
      {VNR_F32, 0},   {VNR_F16, 1},   {VNR_Q4_0, 2},  {VNR_Q4_1, 3},  {VNR_Q5_0, 6},  {VNR_Q5_1, 7},    {VNR_Q8_0, 8},
      {VNR_Q2_K, 10}, {VNR_Q3_K, 11}, {VNR_Q4_K, 12}, {VNR_Q5_K, 13}, {VNR_Q6_K, 14}, {VNR_IQ4_NL, 20}, {VNR_I8, 24},
      {VNR_I16, 25},  {VNR_I32, 26},  {VNR_I64, 27},  {VNR_F64, 28},  {VNR_BF16, 30}};
  return kNumbers.at(vnr_type);
}

std::string Half(float value) { return Raw(std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))); }
float AsHalf(float value) { return static_cast<float>(static_cast<_Float16>(value)); }

std::uint64_t NextRandom(std::uint64_t& state) {  // splitmix64
  state += 0x9E3779B97F4A7C15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Nearest integer to (value - offset) / step within [low, high].
int Grid(float value, float offset, float step, int low, int high) {
  return step == 0 ? std::clamp(0, low, high) : std::clamp(static_cast<int>(std::lround((value - offset) / step)), low, high);
}

struct Range {
  float low, high, absmax;
};
Range RangeOf(std::span<const float> values) {
  const auto [low, high] = std::ranges::minmax(values);
  return {low, high, std::max(std::abs(low), std::abs(high))};
}

// Low four bits of elements j and j + 16 in byte j; fifth bits, if any, in a word before them.
std::string PackNibbles(const int (&q)[32], bool five_bits) {
  std::uint32_t fifth = 0;
  std::string nibbles(16, '\0');
  for (std::size_t j = 0; j < 16; ++j) {
    nibbles[j] = static_cast<char>((q[j] & 15) | ((q[j + 16] & 15) << 4));
    fifth |= static_cast<std::uint32_t>((q[j] >> 4) & 1) << j;
    fifth |= static_cast<std::uint32_t>((q[j + 16] >> 4) & 1) << (j + 16);
  }
  return (five_bits ? Raw(fifth) : "") + nibbles;
}

// Q4_0, Q5_0 (offset = half the range) and Q4_1, Q5_1 (offset = a stored minimum).
std::string NibbleBlock(std::span<const float> values, int bits, bool with_minimum) {
  const int levels = 1 << bits;
  const Range range = RangeOf(values);
  const float step =
      AsHalf(with_minimum ? (range.high - range.low) / static_cast<float>(levels - 1) : range.absmax / static_cast<float>(levels / 2 - 1));
  const float minimum = with_minimum ? AsHalf(range.low) : -step * static_cast<float>(levels / 2);
  int q[32];
  for (std::size_t j = 0; j < 32; ++j) q[j] = Grid(values[j], minimum, step, 0, levels - 1);
  return Half(step) + (with_minimum ? Half(minimum) : "") + PackNibbles(q, bits == 5);
}

std::string ByteBlock(std::span<const float> values) {
  const float step = AsHalf(RangeOf(values).absmax / 127);
  std::string block = Half(step);
  for (const float value : values) block += static_cast<char>(Grid(value, 0, step, -127, 127));
  return block;
}

// 256 elements: 16 groups of 16, each with an int8 scale under one half-precision d; quants of 6 bits around 32.
std::string SixBitBlock(std::span<const float> values) {
  const float d = AsHalf(RangeOf(values).absmax / 31 / 127);
  std::string low(128, '\0'), high(64, '\0'), scales(16, '\0');
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t group = e / 16;
    const int scale = Grid(RangeOf(values.subspan(group * 16, 16)).absmax / 31, 0, d, 1, 127);
    scales[group] = static_cast<char>(scale);
    const int q = Grid(values[e], 0, d * static_cast<float>(scale), -32, 31) + 32;
    // Within a half of 128: element quarter*32 + l; quarters 0 and 1 in the low nibbles of ql[l], ql[l + 32], 2 and 3 in the high.
    const std::size_t half = e / 128, quarter = e % 128 / 32, l = e % 32;
    low[half * 64 + quarter % 2 * 32 + l] |= static_cast<char>((q & 15) << (quarter / 2 * 4));
    high[half * 32 + l] |= static_cast<char>((q >> 4) << (quarter * 2));
  }
  return low + high + scales + Half(d);
}

struct BlockLayout {
  std::uint64_t elements, bytes;
  std::vector<std::uint64_t> scale_offsets;  // of half-precision factors
  float largest;                             // |value| / factor of the largest value
};
const BlockLayout& LayoutOf(std::uint32_t vnr_type) {
  static const std::map<std::uint32_t, BlockLayout> kLayouts = {
      {VNR_Q4_0, {32, 18, {0}, 8}},        {VNR_Q4_1, {32, 20, {0, 2}, 16}},    {VNR_Q5_0, {32, 22, {0}, 16}},
      {VNR_Q5_1, {32, 24, {0, 2}, 32}},    {VNR_Q8_0, {32, 34, {0}, 128}},      {VNR_Q2_K, {256, 84, {80, 82}, 45}},
      {VNR_Q3_K, {256, 110, {108}, 128}},  {VNR_Q4_K, {256, 144, {0, 2}, 945}}, {VNR_Q5_K, {256, 176, {0, 2}, 1953}},
      {VNR_Q6_K, {256, 210, {208}, 4096}}, {VNR_IQ4_NL, {32, 18, {0}, 127}}};
  return kLayouts.at(vnr_type);
}

std::vector<std::string> TinyTokens(std::uint32_t vocab, std::vector<float>& scores, std::vector<std::int32_t>& types) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  types = {2, 3, 3};
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'});
    types.push_back(6);
  }
  scores.assign(tokens.size(), 0);
  for (const char* const text : {"\xE2\x96\x81",
                                 "a",
                                 "b",
                                 "c",
                                 "d",
                                 "e",
                                 "h",
                                 "l",
                                 "o",
                                 "r",
                                 "t",
                                 "w",
                                 "he",
                                 "ll",
                                 "lo",
                                 "hell",
                                 "hello",
                                 "\xE2\x96\x81t",
                                 "\xE2\x96\x81th",
                                 "the",
                                 "\xE2\x96\x81the",
                                 "or",
                                 "wor",
                                 "ld",
                                 "world"}) {
    tokens.emplace_back(text);
    types.push_back(1);
    scores.push_back(-static_cast<float>(tokens.size()));
  }
  while (tokens.size() < vocab) {
    tokens.push_back("filler" + std::to_string(tokens.size()));
    types.push_back(1);
    scores.push_back(-1e6f);
  }
  return tokens;
}

}  // namespace

void GgufWriter::SetRaw(std::string_view key, std::uint32_t type, std::string payload) {
  const auto found = std::ranges::find(values_, key, &Value::key);
  if (found != values_.end())
    *found = {std::string(key), type, std::move(payload)};
  else
    values_.push_back({std::string(key), type, std::move(payload)});
}

void GgufWriter::Set(std::string_view key, bool value) { SetRaw(key, 7, Raw(static_cast<std::uint8_t>(value))); }
void GgufWriter::Set(std::string_view key, std::uint32_t value) { SetRaw(key, 4, Raw(value)); }
void GgufWriter::Set(std::string_view key, std::int32_t value) { SetRaw(key, 5, Raw(value)); }
void GgufWriter::Set(std::string_view key, std::uint64_t value) { SetRaw(key, 10, Raw(value)); }
void GgufWriter::Set(std::string_view key, float value) { SetRaw(key, 6, Raw(value)); }
void GgufWriter::Set(std::string_view key, std::string_view value) { SetRaw(key, 8, Text(value)); }
void GgufWriter::Set(std::string_view key, const std::vector<std::string>& values) { SetRaw(key, 9, Array(8, values)); }
void GgufWriter::Set(std::string_view key, const std::vector<float>& values) { SetRaw(key, 9, Array(6, values)); }
void GgufWriter::Set(std::string_view key, const std::vector<std::int32_t>& values) { SetRaw(key, 9, Array(5, values)); }
void GgufWriter::Remove(std::string_view key) {
  std::erase_if(values_, [key](const Value& value) { return value.key == key; });
}

void GgufWriter::SetTensorRaw(std::string_view name, std::uint32_t ggml_type, std::vector<std::uint64_t> shape, std::string bytes) {
  Tensor tensor{std::string(name), ggml_type, std::move(shape), std::move(bytes)};
  const auto found = std::ranges::find(tensors_, name, &Tensor::name);
  if (found != tensors_.end())
    *found = std::move(tensor);
  else
    tensors_.push_back(std::move(tensor));
}

void GgufWriter::SetTensor(std::string_view name, std::uint32_t vnr_type, std::vector<std::uint64_t> shape, std::string bytes) {
  SetTensorRaw(name, GgmlNumber(vnr_type), std::move(shape), std::move(bytes));
}

void GgufWriter::SetOffset(std::string_view name, std::uint64_t offset) {
  std::ranges::find(tensors_, name, &Tensor::name)->offset = offset;
}

void GgufWriter::RemoveTensor(std::string_view name) {
  std::erase_if(tensors_, [name](const Tensor& tensor) { return tensor.name == name; });
}

std::string GgufWriter::Bytes() const {
  const auto pad = [this](std::string& bytes) { bytes.append((alignment - bytes.size() % alignment) % alignment, '\0'); };
  std::string head = "GGUF" + Raw(version) + Raw(std::uint64_t{tensors_.size()}) + Raw(std::uint64_t{values_.size()});
  for (const Value& value : values_) head += Text(value.key) + Raw(value.type) + value.payload;
  std::string data;
  for (const Tensor& tensor : tensors_) {
    head += Text(tensor.name) + Raw(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) head += Raw(*dim);
    head += Raw(tensor.type) + Raw(tensor.offset == UINT64_MAX ? std::uint64_t{data.size()} : tensor.offset);
    data += tensor.bytes;
    pad(data);
  }
  pad(head);
  return head + data;
}

std::string Quantize(std::uint32_t vnr_type, std::span<const float> values) {
  std::string bytes;
  if (vnr_type == VNR_F32 || vnr_type == VNR_F16 || vnr_type == VNR_BF16) {
    for (const float value : values) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      if (vnr_type == VNR_F32) bytes += Raw(bits);
      if (vnr_type == VNR_F16) bytes += Half(value);
      if (vnr_type == VNR_BF16) bytes += Raw(static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16));  // nearest even
    }
    return bytes;
  }
  const std::uint64_t block = LayoutOf(vnr_type).elements;
  if (values.size() % block != 0) throw std::invalid_argument("Quantize: not a multiple of the block");
  for (std::size_t i = 0; i < values.size(); i += block) {
    const auto part = values.subspan(i, block);
    switch (vnr_type) {
      case VNR_Q4_0:
        bytes += NibbleBlock(part, 4, false);
        break;
      case VNR_Q4_1:
        bytes += NibbleBlock(part, 4, true);
        break;
      case VNR_Q5_0:
        bytes += NibbleBlock(part, 5, false);
        break;
      case VNR_Q5_1:
        bytes += NibbleBlock(part, 5, true);
        break;
      case VNR_Q8_0:
        bytes += ByteBlock(part);
        break;
      case VNR_Q6_K:
        bytes += SixBitBlock(part);
        break;
      default:
        throw std::invalid_argument("Quantize: no quantizer for this type; use RandomBlocks");
    }
  }
  return bytes;
}

std::string RandomBlocks(std::uint32_t vnr_type, std::uint64_t elements, float scale, std::uint64_t seed) {
  const BlockLayout& layout = LayoutOf(vnr_type);
  std::string bytes;
  for (std::uint64_t block = 0; block < elements / layout.elements; ++block) {
    std::string part(layout.bytes, '\0');
    for (char& c : part) c = static_cast<char>(NextRandom(seed) & 0xFF);
    for (const std::uint64_t offset : layout.scale_offsets) part.replace(offset, 2, Half(2 * scale / layout.largest));
    bytes += part;
  }
  return bytes;
}

std::vector<float> Uniform(std::uint64_t n, float scale, std::uint64_t seed) {
  std::vector<float> values(n);
  for (float& value : values) value = scale * (static_cast<float>(NextRandom(seed) >> 40) / static_cast<float>(1 << 23) - 1);
  return values;
}

namespace {

// The n rows of `rows` as a converter stores q and k for adjacent-pair RoPE: within each head the rows of its first half alternate with
// those of its second, W.reshape(heads, 2, d/2, in).swapaxes(1, 2).
std::string Interleaved(const std::string& rows, std::uint64_t n, std::uint64_t head_dim) {
  const std::uint64_t width = rows.size() / n;
  std::string out;
  for (std::uint64_t head = 0; head < n; head += head_dim)
    for (std::uint64_t i = 0; i < head_dim / 2; ++i)
      for (const std::uint64_t row : {head + i, head + head_dim / 2 + i}) out += rows.substr(row * width, width);
  return out;
}

}  // namespace

GgufWriter TinyLlama(const TinyModel& model) {
  const std::uint64_t hidden = model.hidden, ffn = model.ffn;
  const std::uint64_t head_dim = model.head_dim == 0 ? hidden / model.n_heads : model.head_dim;
  const std::uint64_t q_out = model.n_heads * head_dim, kv_out = model.n_kv_heads * head_dim;
  GgufWriter file;
  const auto key = [&](const char* name) { return model.arch + "." + name; };
  file.Set("general.architecture", model.arch);
  file.Set("general.name", "tiny");
  file.Set(key("block_count"), model.n_layers);
  file.Set(key("context_length"), model.context_length);
  file.Set(key("embedding_length"), model.hidden);
  file.Set(key("feed_forward_length"), model.ffn);
  file.Set(key("attention.head_count"), model.n_heads);
  file.Set(key("attention.head_count_kv"), model.n_kv_heads);
  file.Set(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  file.Set(key("rope.dimension_count"), static_cast<std::uint32_t>(head_dim));
  file.Set(key("rope.freq_base"), model.rope_base);
  if (model.head_dim != 0) {
    file.Set(key("attention.key_length"), model.head_dim);
    file.Set(key("attention.value_length"), model.head_dim);
  }
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  const auto tokens = TinyTokens(model.vocab, scores, types);
  file.Set("tokenizer.ggml.model", "llama");
  file.Set("tokenizer.ggml.tokens", tokens);
  file.Set("tokenizer.ggml.scores", scores);
  file.Set("tokenizer.ggml.token_type", types);
  file.Set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  file.Set("tokenizer.ggml.eos_token_id", std::uint32_t{2});

  std::uint64_t seed = model.seed * 1000;
  const bool is_interleaved = model.arch == "llama", has_biases = model.biases || model.arch == "qwen2";
  const auto stored = [&](const std::string& name, const std::string& rows, std::uint64_t n) {
    const bool is_q_or_k = name.find("attn_q.") != std::string::npos || name.find("attn_k.") != std::string::npos;
    return is_interleaved && is_q_or_k ? Interleaved(rows, n, head_dim) : rows;
  };
  const auto matrix = [&](const std::string& name, std::uint32_t type, std::uint64_t out, std::uint64_t in, float scale) {
    const bool has_quantizer = type != VNR_Q2_K && type != VNR_Q3_K && type != VNR_Q4_K && type != VNR_Q5_K && type != VNR_IQ4_NL;
    const std::string rows = has_quantizer ? Quantize(type, Uniform(out * in, scale, ++seed)) : RandomBlocks(type, out * in, scale, ++seed);
    file.SetTensor(name, type, {out, in}, stored(name, rows, out));
  };
  const auto projection = [&](const std::string& name, std::uint64_t out, std::uint64_t in) {
    matrix(name, model.matrix_type, out, in, std::sqrt(3.0f / static_cast<float>(in)));
  };
  const auto vector = [&](const std::string& name, std::uint64_t n, float centre, float scale) {
    std::vector<float> values = Uniform(n, scale, ++seed);
    for (float& value : values) value += centre;
    file.SetTensor(name, VNR_F32, {n}, stored(name, Quantize(VNR_F32, values), n));
  };
  matrix("token_embd.weight", model.embedding_type, model.vocab, hidden, 1);
  if (model.rope_factors) {
    std::vector<float> factors(head_dim / 2, 1);
    std::fill(factors.begin() + static_cast<std::ptrdiff_t>(factors.size() / 2), factors.end(), 4.0f);
    file.SetTensor("rope_freqs.weight", VNR_F32, {factors.size()}, Quantize(VNR_F32, factors));
  }
  for (std::uint32_t layer = 0; layer < model.n_layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    vector(block + "attn_norm.weight", hidden, 1, 0.1f);
    projection(block + "attn_q.weight", q_out, hidden);
    projection(block + "attn_k.weight", kv_out, hidden);
    projection(block + "attn_v.weight", kv_out, hidden);
    if (has_biases) {
      vector(block + "attn_q.bias", q_out, 0, 0.1f);
      vector(block + "attn_k.bias", kv_out, 0, 0.1f);
      vector(block + "attn_v.bias", kv_out, 0, 0.1f);
    }
    projection(block + "attn_output.weight", hidden, q_out);
    if (model.arch == "qwen3") {
      vector(block + "attn_q_norm.weight", head_dim, 1, 0.5f);
      vector(block + "attn_k_norm.weight", head_dim, 1, 0.5f);
    }
    vector(block + "ffn_norm.weight", hidden, 1, 0.1f);
    projection(block + "ffn_gate.weight", ffn, hidden);
    projection(block + "ffn_up.weight", ffn, hidden);
    projection(block + "ffn_down.weight", hidden, ffn);
  }
  vector("output_norm.weight", hidden, 1, 0.1f);
  if (!model.tied) matrix("output.weight", model.embedding_type, model.vocab, hidden, 1);
  return file;
}

veneer::FileBytes InMemory(std::string_view bytes, std::string name) {
  auto file = veneer::FileBytes::Of(std::as_bytes(std::span(bytes)), std::move(name));
  if (!file) throw std::runtime_error(file.error().Text());
  return *std::move(file);
}
