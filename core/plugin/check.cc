// The generic checks before any plugin code runs: classes, roles, types, shapes, symbols, finite values, parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "core/base/checked.h"
#include "core/plugin/overlay.h"
#include "core/plugin/schema.h"

namespace veneer {
namespace {

constexpr std::uint64_t kMaxSymbol = 65536;

constexpr std::uint32_t kClassFlags = VNR_ROLE_ON_LINEAR | VNR_ROLE_ON_EMBEDDING | VNR_ROLE_ON_VECTOR;

bool ServesClass(const RoleDecl& role, std::uint32_t shape_class) {
  const std::uint32_t classes = role.flags & kClassFlags;
  constexpr std::uint32_t kFlagOf[] = {VNR_ROLE_ON_LINEAR, VNR_ROLE_ON_EMBEDDING, VNR_ROLE_ON_VECTOR};
  return classes == 0 || (classes & kFlagOf[shape_class]) != 0;
}

std::string DimText(std::uint32_t dim) {
  switch (dim) {
    case VNR_DIM_IN:
      return "in";
    case VNR_DIM_OUT:
      return "out";
    case VNR_DIM_IN_PLUS_1:
      return "in+1";
    case VNR_DIM_OUT_PLUS_1:
      return "out+1";
    default:
      return (dim & VNR_DIM_SYMBOL) != 0 ? std::string(1, static_cast<char>(dim & 0xFF)) : fmt::format("{}", dim);
  }
}

std::string DeclaredShape(const RoleDecl& role) {
  std::string text;
  for (const std::uint32_t dim : role.dims) text += (text.empty() ? "" : ", ") + DimText(dim);
  return "[" + text + "]";
}

// True when every element is finite. Exponent bits all ones mean infinity or NaN, whatever the type.
template <class Word>
bool AllFinite(std::span<const std::byte> bytes, Word exponent) {
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    if ((word & exponent) == exponent) return false;
  }
  return true;
}

bool IsFinite(const TensorView& tensor) {
  switch (tensor.dtype) {
    case VNR_F32:
      return AllFinite<std::uint32_t>(tensor.bytes, 0x7F800000U);
    case VNR_F16:
      return AllFinite<std::uint16_t>(tensor.bytes, std::uint16_t{0x7C00});
    case VNR_BF16:
      return AllFinite<std::uint16_t>(tensor.bytes, std::uint16_t{0x7F80});
    case VNR_F64:
      return AllFinite<std::uint64_t>(tensor.bytes, 0x7FF0000000000000ULL);
    default:
      return true;
  }
}

// Type accepted, size in bytes as the shape says, values finite.
Status CheckTypeAndBytes(const KindDecl& kind, const RoleDecl& role, const TensorView& tensor, const std::string& place) {
  if (tensor.dtype >= 32 || (role.dtype_mask & VNR_BIT(tensor.dtype)) == 0)
    return Fail(Code::FORMAT_UNSUPPORTED, place, fmt::format("type {} is not accepted by kind {}", InfoOf(tensor.dtype).name, kind.id));
  const auto elements = CheckedProduct(tensor.shape);
  const DTypeInfo& type = InfoOf(tensor.dtype);
  const auto bytes = elements ? CheckedMul(*elements / type.block_elements, type.block_bytes) : std::nullopt;
  if (!bytes || *bytes != tensor.bytes.size())
    return Fail(Code::TENSOR_BOUNDS, place, fmt::format("{} bytes do not make {}", tensor.bytes.size(), ShapeText(tensor.shape)));
  if (!IsFinite(tensor)) return Fail(Code::NOT_FINITE, place, "holds an infinity or NaN; the adapter is damaged or its training diverged");
  return {};
}

class Checker {
 public:
  Checker(const KindDecl& kind, const SiteFacts& site, std::string_view at) : kind_(kind), site_(site), at_(at) {}

  Status CheckTensor(const RoleTensor& given, bool is_shared) {
    const RoleDecl* role = kind_.FindRole(given.role);
    const std::string place = fmt::format("{}: {}", at_, given.role);
    if (role == nullptr || ((role->flags & VNR_ROLE_SHARED) != 0) != is_shared)
      return Fail(Code::TENSOR_UNMATCHED, place, fmt::format("kind {} has no such {}tensor", kind_.id, is_shared ? "shared " : ""));
    if (!is_shared && !ServesClass(*role, site_.shape_class))
      return Fail(Code::SHAPE_MISMATCH, place, "this tensor does not belong to a site of this class");
    const TensorView& tensor = given.tensor;
    if (tensor.shape.size() != role->dims.size()) return Mismatch(place, tensor, *role);
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) VENEER_TRY(CheckDim(place, tensor, *role, i));
    return CheckTypeAndBytes(kind_, *role, tensor, place);
  }

  Status CheckPresence(const OverlaySource& source, const OverlaySource& shared) {
    for (const RoleDecl& role : kind_.roles) {
      if (!ServesClass(role, site_.shape_class)) continue;
      const auto& tensors = (role.flags & VNR_ROLE_SHARED) != 0 ? shared.tensors : source.tensors;
      const auto count = std::ranges::count(tensors, role.name, &RoleTensor::role);
      if (count > 1) return Fail(Code::TENSOR_UNMATCHED, fmt::format("{}: {}", at_, role.name), "is given twice");
      if (count == 0 && (role.flags & VNR_ROLE_OPTIONAL) == 0)
        return Fail(Code::TENSOR_UNMATCHED, fmt::format("{}: {}", at_, role.name),
                    fmt::format("is missing; kind {} needs it with shape {}", kind_.id, DeclaredShape(role)));
    }
    return {};
  }

 private:
  [[nodiscard]] std::unexpected<Error> Mismatch(const std::string& place, const TensorView& tensor, const RoleDecl& role) const {
    std::string symbols;
    for (const auto& [symbol, value] : symbols_) symbols += fmt::format(", {} = {}", symbol, value);
    return Fail(Code::SHAPE_MISMATCH, place,
                fmt::format("has shape {}, the site wants {} with out = {}, in = {}{}; the adapter was made for another base",
                            ShapeText(tensor.shape), DeclaredShape(role), site_.out, site_.in, symbols));
  }

  [[nodiscard]] bool IsSymbolSize(const RoleDecl& role, std::uint64_t size) const {
    if ((role.flags & VNR_ROLE_ENTRIES) == 0) return size > 0 && size <= kMaxSymbol;
    const auto elements = CheckedMul(site_.out, site_.in);
    return elements && size <= *elements;
  }

  Status CheckDim(const std::string& place, const TensorView& tensor, const RoleDecl& role, std::size_t i) {
    const std::uint32_t dim = role.dims[i];
    const std::uint64_t size = tensor.shape[i];
    std::uint64_t expected = dim;
    switch (dim) {
      case VNR_DIM_IN:
        expected = site_.in;
        break;
      case VNR_DIM_OUT:
        expected = site_.out;
        break;
      case VNR_DIM_IN_PLUS_1:
        expected = site_.in + 1;
        break;
      case VNR_DIM_OUT_PLUS_1:
        expected = site_.out + 1;
        break;
      default:
        if ((dim & VNR_DIM_SYMBOL) != 0) {
          if (!IsSymbolSize(role, size)) return Mismatch(place, tensor, role);
          expected = symbols_.try_emplace(static_cast<char>(dim & 0xFF), size).first->second;
        }
    }
    if (size != expected) return Mismatch(place, tensor, role);
    return {};
  }

  const KindDecl& kind_;
  const SiteFacts& site_;
  std::string at_;
  std::map<char, std::uint64_t> symbols_;
};

}  // namespace

Status CheckSource(const KindDecl& kind, const SiteFacts& site, const OverlaySource& source, const OverlaySource& shared,
                   std::string_view at) {
  if (site.shape_class > VNR_SITE_VECTOR || (kind.site_mask & VNR_BIT(site.shape_class)) == 0)
    return Fail(Code::SHAPE_MISMATCH, std::string(at), fmt::format("kind {} does not serve sites of this class", kind.id));
  Checker checker(kind, site, at);
  for (const RoleTensor& tensor : shared.tensors) VENEER_TRY(checker.CheckTensor(tensor, true));
  for (const RoleTensor& tensor : source.tensors) VENEER_TRY(checker.CheckTensor(tensor, false));
  VENEER_TRY(checker.CheckPresence(source, shared));
  return CheckParams(kind.config_schema, source.params, at);
}

Status CheckShared(const KindDecl& kind, const OverlaySource& shared, std::string_view at) {
  for (const RoleTensor& given : shared.tensors) {
    const std::string place = fmt::format("{}: {}", at, given.role);
    const RoleDecl* role = kind.FindRole(given.role);
    if (role == nullptr || (role->flags & VNR_ROLE_SHARED) == 0)
      return Fail(Code::TENSOR_UNMATCHED, place, fmt::format("kind {} has no such shared tensor", kind.id));
    if (std::ranges::count(shared.tensors, given.role, &RoleTensor::role) > 1) return Fail(Code::TENSOR_UNMATCHED, place, "is given twice");
    VENEER_TRY(CheckTypeAndBytes(kind, *role, given.tensor, place));
    if (given.tensor.shape.size() != role->dims.size())
      return Fail(Code::SHAPE_MISMATCH, place,
                  fmt::format("has shape {}, the kind wants {}", ShapeText(given.tensor.shape), DeclaredShape(*role)));
  }
  return {};
}

std::uint64_t SymbolValue(const KindDecl& kind, const OverlaySource& source, char symbol) {
  for (const RoleTensor& given : source.tensors) {
    const RoleDecl* role = kind.FindRole(given.role);
    for (std::size_t i = 0; role != nullptr && i < role->dims.size() && i < given.tensor.shape.size(); ++i)
      if (role->dims[i] == VNR_DIM(static_cast<unsigned char>(symbol))) return given.tensor.shape[i];
  }
  return 0;
}

}  // namespace veneer
