// The container (adapter-formats g.1): every rule ggml enforces, and the ones it leaves to its caller. Typed access to the values
// is gguf_values.cc.
#include "core/format/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "core/format/utf8.h"

namespace veneer {
namespace {

constexpr std::uint64_t kMaxTensors = 65'536;
constexpr std::uint64_t kMaxValues = 65'536;
constexpr std::uint64_t kMaxKeyBytes = 65'535;           // GGUF specification
constexpr std::uint64_t kMaxStringBytes = 1ull << 30;    // ggml
constexpr std::uint64_t kMaxArrayElements = 1ull << 30;  // ggml
constexpr std::uint64_t kMaxNameBytes = 63;              // ggml keeps names in char[64]
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kMaxElements = INT64_MAX - 1;
constexpr std::uint64_t kMinValueBytes = 8 + 1 + 4 + 1;       // key length, key, type, smallest value
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;  // name length, name, dimensions, type, offset
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr DType kUnread = UINT32_MAX;

struct GgmlType {
  std::uint32_t id;
  std::string_view name;
  DType dtype;  // kUnread: known by name, not read
};

constexpr std::array kGgmlTypes = {
    GgmlType{0, "f32", VNR_F32},      GgmlType{1, "f16", VNR_F16},     GgmlType{2, "q4_0", VNR_Q4_0},      GgmlType{3, "q4_1", VNR_Q4_1},
    GgmlType{6, "q5_0", VNR_Q5_0},    GgmlType{7, "q5_1", VNR_Q5_1},   GgmlType{8, "q8_0", VNR_Q8_0},      GgmlType{9, "q8_1", kUnread},
    GgmlType{10, "q2_k", VNR_Q2_K},   GgmlType{11, "q3_k", VNR_Q3_K},  GgmlType{12, "q4_k", VNR_Q4_K},     GgmlType{13, "q5_k", VNR_Q5_K},
    GgmlType{14, "q6_k", VNR_Q6_K},   GgmlType{15, "q8_k", kUnread},   GgmlType{16, "iq2_xxs", kUnread},   GgmlType{17, "iq2_xs", kUnread},
    GgmlType{18, "iq3_xxs", kUnread}, GgmlType{19, "iq1_s", kUnread},  GgmlType{20, "iq4_nl", VNR_IQ4_NL}, GgmlType{21, "iq3_s", kUnread},
    GgmlType{22, "iq2_s", kUnread},   GgmlType{23, "iq4_xs", kUnread}, GgmlType{24, "i8", VNR_I8},         GgmlType{25, "i16", VNR_I16},
    GgmlType{26, "i32", VNR_I32},     GgmlType{27, "i64", VNR_I64},    GgmlType{28, "f64", VNR_F64},       GgmlType{29, "iq1_m", kUnread},
    GgmlType{30, "bf16", VNR_BF16},   GgmlType{34, "tq1_0", kUnread},  GgmlType{35, "tq2_0", kUnread},     GgmlType{39, "mxfp4", kUnread},
};

// Bytes of one value; 0 for strings, arrays and numbers that are no type.
constexpr std::uint64_t SizeOf(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::unexpected<Error> Cut(std::string at) {
  return Fail(Code::HEADER_CORRUPT, std::move(at), "the file ends inside this record; it is cut off, fetch it again");
}

// A name is printed in errors and compared with others: text only.
bool IsCleanName(std::string_view name) {
  return FindInvalidUtf8(name) == std::string_view::npos &&
         std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

}  // namespace

std::optional<std::uint32_t> GgmlTypeId(DType dtype) {
  for (const GgmlType& type : kGgmlTypes)
    if (type.dtype == dtype) return type.id;
  return std::nullopt;
}

class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> bytes) : bytes_(bytes), reader_(bytes) {}

  Result<GgufFile> Run() && {
    VENEER_TRY(ReadPreamble());
    for (std::uint64_t i = 0; i < n_values_; ++i) VENEER_TRY(ReadValue(i));
    VENEER_TRY(ReadAlignment());
    for (std::uint64_t i = 0; i < n_tensors_; ++i) VENEER_TRY(ReadTensorInfo(i));
    VENEER_TRY(LocateData());
    return std::move(file_);
  }

 private:
  Status ReadPreamble() {
    const auto magic = reader_.TakeText(4);
    if (!magic) return Cut("magic");
    if (*magic == "FUGG") return Fail(Code::ENDIANNESS, "magic", "a byte-swapped GGUF; only little-endian files are read, convert it");
    if (*magic != "GGUF") return Fail(Code::FORMAT_UNSUPPORTED, "magic", "not a GGUF file: it does not begin with \"GGUF\"");
    const auto version = reader_.Read<std::uint32_t>();
    if (!version) return Cut("version");
    // A swapped small number has its low half empty (the test ggml uses).
    if (*version != 0 && (*version & 0xFFFF) == 0)
      return Fail(Code::ENDIANNESS, "version",
                  fmt::format("found {:#010x}: a big-endian file; only little-endian files are read, convert it", *version));
    if (*version == 1)
      return Fail(Code::FORMAT_UNSUPPORTED, "version", "found 1, versions 2 and 3 are read; convert the file with a current converter");
    if (*version != 2 && *version != 3)
      return Fail(Code::FORMAT_UNSUPPORTED, "version", fmt::format("found {}, versions 2 and 3 are read", *version));
    file_.version_ = *version;
    VENEER_ASSIGN(n_tensors_, ReadCount("n_tensors", kMaxTensors, kMinTensorBytes));
    VENEER_ASSIGN(n_values_, ReadCount("n_kv", kMaxValues, kMinValueBytes));
    return {};
  }

  // A number of records: bounded by a fixed limit and by what the rest of the file could hold, before anything is reserved.
  Result<std::uint64_t> ReadCount(const char* at, std::uint64_t limit, std::uint64_t min_record_bytes) {
    const auto count = reader_.Read<std::uint64_t>();
    if (!count) return Cut(at);
    if (*count > limit) return Fail(Code::HEADER_CORRUPT, at, fmt::format("found {}, at most {} are read", *count, limit));
    if (*count > reader_.remaining() / min_record_bytes)
      return Fail(Code::HEADER_CORRUPT, at,
                  fmt::format("found {}, which the remaining {} bytes of the file cannot hold", *count, reader_.remaining()));
    return *count;
  }

  Result<std::string_view> ReadText(const std::string& at, std::uint64_t limit) {
    const auto size = reader_.Read<std::uint64_t>();
    if (!size) return Cut(at);
    if (*size > limit) return Fail(Code::HEADER_CORRUPT, at, fmt::format("a string of {} bytes, at most {} are allowed", *size, limit));
    const auto text = reader_.TakeText(*size);
    if (!text) return Cut(at);
    return *text;
  }

  Status ReadValue(std::uint64_t number) {
    const std::string at = fmt::format("key-value {}", number);
    const std::uint64_t begin = reader_.position();
    VENEER_ASSIGN(const std::string_view key, ReadText(at, kMaxKeyBytes));
    if (key.empty()) return Fail(Code::HEADER_CORRUPT, at, "the key is empty");
    if (!IsCleanName(key)) return Fail(Code::HEADER_CORRUPT, at, "the key is not clean UTF-8 text");
    GgufValue value;
    value.key = key;
    VENEER_ASSIGN(value.type, ReadType(value.key));
    const std::uint64_t payload = reader_.position() + (value.type == GgufType::kArray ? 4 + 8 : 0);
    if (value.type == GgufType::kString) {
      VENEER_TRY(ReadText(value.key, kMaxStringBytes));
    } else if (value.type == GgufType::kArray) {
      VENEER_TRY(ReadArray(value));
    } else if (!reader_.Take(SizeOf(value.type))) {
      return Cut(value.key);
    }
    value.payload = bytes_.subspan(payload, reader_.position() - payload);
    value.record = bytes_.subspan(begin, reader_.position() - begin);
    if (!file_.value_index_.emplace(key, static_cast<std::uint32_t>(file_.values_.size())).second)
      return Fail(Code::HEADER_CORRUPT, value.key, "the key stands twice in the file");
    file_.values_.push_back(std::move(value));
    return {};
  }

  Result<GgufType> ReadType(const std::string& at) {
    const auto type = reader_.Read<std::uint32_t>();
    if (!type) return Cut(at);
    if (*type > static_cast<std::uint32_t>(GgufType::kF64))
      return Fail(Code::HEADER_CORRUPT, at, fmt::format("value type {} does not exist, types are 0 to 12", *type));
    return static_cast<GgufType>(*type);
  }

  Status ReadArray(GgufValue& value) {
    VENEER_ASSIGN(value.element_type, ReadType(value.key));
    if (value.element_type == GgufType::kArray) return Fail(Code::HEADER_CORRUPT, value.key, "an array of arrays, which no reader takes");
    const auto count = reader_.Read<std::uint64_t>();
    if (!count) return Cut(value.key);
    if (*count > kMaxArrayElements)
      return Fail(Code::HEADER_CORRUPT, value.key,
                  fmt::format("an array of {} elements, at most {} are allowed", *count, kMaxArrayElements));
    value.count = *count;
    if (value.element_type == GgufType::kString) {
      for (std::uint64_t i = 0; i < *count; ++i) VENEER_TRY(ReadText(value.key, kMaxStringBytes));
      return {};
    }
    const auto size = CheckedMul(*count, SizeOf(value.element_type));
    if (!size || !reader_.Take(*size)) return Cut(value.key);
    return {};
  }

  Status ReadAlignment() {
    constexpr std::string_view kKey = "general.alignment";
    const GgufValue* const value = file_.Find(kKey);
    if (value == nullptr) return {};
    if (value->type != GgufType::kU32)
      return Fail(Code::HEADER_CORRUPT, std::string(kKey), fmt::format("found {}, must be u32", NameOf(value->type)));
    VENEER_ASSIGN(alignment_, file_.U64(kKey));
    if (!std::has_single_bit(alignment_) || alignment_ % 8 != 0)
      return Fail(Code::HEADER_CORRUPT, std::string(kKey), fmt::format("found {}, must be a power of two of at least 8", alignment_));
    return {};
  }

  Status ReadTensorInfo(std::uint64_t number) {
    const std::string at = fmt::format("tensor {}", number);
    VENEER_ASSIGN(const std::string_view name, ReadText(at, kMaxNameBytes));
    if (name.empty()) return Fail(Code::HEADER_CORRUPT, at, "the name is empty");
    if (!IsCleanName(name)) return Fail(Code::HEADER_CORRUPT, at, "the name is not clean UTF-8 text");
    TensorView tensor;
    tensor.name = name;
    VENEER_TRY(ReadShape(tensor));
    VENEER_TRY(ReadTensorType(tensor));
    VENEER_ASSIGN(const std::uint64_t size, SizeOfTensor(tensor));
    const auto offset = reader_.Read<std::uint64_t>();
    if (!offset) return Cut(tensor.name);
    if (*offset != data_size_)
      return Fail(
          Code::TENSOR_BOUNDS, tensor.name,
          fmt::format("data offset {}, must be {}: tensors lie one after the other, without holes or overlap", *offset, data_size_));
    data_end_ = *CheckedAdd(*offset, size);  // at most 2 * INT64_MAX: SizeOfTensor and AlignedEnd keep both below INT64_MAX
    VENEER_ASSIGN(data_size_, AlignedEnd(tensor.name));
    spans_.push_back({*offset, size});
    if (!file_.tensor_index_.emplace(name, static_cast<std::uint32_t>(file_.tensors_.size())).second)
      return Fail(Code::HEADER_CORRUPT, tensor.name, "the tensor stands twice in the file");
    file_.tensors_.push_back(std::move(tensor));
    return {};
  }

  Status ReadShape(TensorView& tensor) {
    const auto n_dims = reader_.Read<std::uint32_t>();
    if (!n_dims) return Cut(tensor.name);
    if (*n_dims > kMaxDims)
      return Fail(Code::HEADER_CORRUPT, tensor.name, fmt::format("{} dimensions, at most {} are allowed", *n_dims, kMaxDims));
    for (std::uint32_t i = 0; i < *n_dims; ++i) {
      const auto dim = reader_.Read<std::int64_t>();
      if (!dim) return Cut(tensor.name);
      if (*dim < 0) return Fail(Code::HEADER_CORRUPT, tensor.name, fmt::format("dimension {} is {}", i, *dim));
      tensor.shape.push_back(static_cast<std::uint64_t>(*dim));
    }
    std::ranges::reverse(tensor.shape);  // the file lists the fastest-varying dimension first
    return {};
  }

  Status ReadTensorType(TensorView& tensor) {
    const auto id = reader_.Read<std::uint32_t>();
    if (!id) return Cut(tensor.name);
    const auto* const type = std::ranges::find(kGgmlTypes, *id, &GgmlType::id);
    if (type == kGgmlTypes.end())
      return Fail(Code::FORMAT_UNSUPPORTED, tensor.name, fmt::format("ggml type {} is unknown to this version", *id));
    if (type->dtype == kUnread)
      return Fail(Code::FORMAT_UNSUPPORTED, tensor.name,
                  fmt::format("type {} is not read; requantize the model, for example to q4_0, q8_0 or q6_k", type->name));
    tensor.dtype = type->dtype;
    return {};
  }

  // Bytes of the tensor. The product is checked over the dimensions that are not zero first: a zero must not hide an overflow.
  static Result<std::uint64_t> SizeOfTensor(const TensorView& tensor) {
    std::vector<std::uint64_t> nonzero = tensor.shape;
    std::erase(nonzero, 0);
    const DTypeInfo& info = InfoOf(tensor.dtype);
    const auto bound = CheckedProduct(nonzero);
    const auto size_bound = bound ? CheckedMul(*bound / info.block_elements + 1, info.block_bytes) : std::nullopt;
    if (!bound || *bound > kMaxElements || !size_bound || *size_bound > kMaxElements)
      return Fail(Code::TENSOR_BOUNDS, tensor.name, fmt::format("the shape {} overflows", ShapeText(tensor.shape)));
    const std::uint64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % info.block_elements != 0)
      return Fail(Code::HEADER_CORRUPT, tensor.name,
                  fmt::format("rows of {} elements, {} needs a multiple of {}", row, info.name, info.block_elements));
    return nonzero.size() < tensor.shape.size() ? 0 : *bound / info.block_elements * info.block_bytes;
  }

  Result<std::uint64_t> AlignedEnd(const std::string& at) const {
    const auto end = CheckedAlignUp(data_end_, alignment_);
    if (!end || *end > kMaxElements) return Fail(Code::TENSOR_BOUNDS, at, "the sum of all tensor sizes overflows");
    return *end;
  }

  // Views, once the header's end and with it the data's beginning is known. The format pads every tensor, the last one too: without
  // its padding the file has been cut.
  Status LocateData() {
    const auto begin = CheckedAlignUp(reader_.position(), alignment_);
    const std::uint64_t available = begin && *begin <= bytes_.size() ? bytes_.size() - *begin : 0;
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const auto [offset, size] = spans_[i];
      const auto end = CheckedAdd(offset, size);
      if (!end || *end > available)
        return Fail(
            Code::TENSOR_BOUNDS, file_.tensors_[i].name,
            fmt::format("bytes {} to {} of the data, the file has {}; it is cut off, fetch it again", offset, offset + size, available));
      if (size != 0) file_.tensors_[i].bytes = bytes_.subspan(*begin + offset, size);
    }
    if (available < data_size_)
      return Fail(Code::TENSOR_BOUNDS, file_.tensors_.back().name,
                  fmt::format("the padding to byte {} of the data is missing, the file has {}; it is cut off, fetch it again", data_size_,
                              available));
    return {};
  }

  struct Span {
    std::uint64_t offset, size;
  };

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  GgufFile file_;
  std::uint64_t n_tensors_ = 0, n_values_ = 0, alignment_ = kDefaultAlignment;
  std::uint64_t data_size_ = 0;  // padded sum of the tensors so far: where the next one must begin
  std::uint64_t data_end_ = 0;   // the same without the padding of the last
  std::vector<Span> spans_;      // of each tensor, relative to the data
};

Result<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes) { return GgufParser(bytes).Run(); }

}  // namespace veneer
