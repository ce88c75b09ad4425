#include "core/plugin/raw_source.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace veneer {
namespace {

constexpr std::uint64_t kAlign = 64;

}  // namespace

RawSource::RawSource(OverlaySource source, bool copies) : source_(std::move(source)) {
  for (const RoleTensor& given : source_.tensors) {
    vnr_tensor& tensor = tensors_.emplace_back();
    tensor.struct_size = sizeof tensor;
    tensor.dtype = given.tensor.dtype;
    tensor.rank = static_cast<std::uint32_t>(given.tensor.shape.size());  // at most 4: CheckSource saw it
    std::ranges::copy(given.tensor.shape, tensor.dims);
    tensor.data = Place(given.tensor, copies);
    tensor.nbytes = given.tensor.bytes.size();
    roles_.push_back(given.role.c_str());
  }
  for (const ParamValue& given : source_.params) {
    vnr_param& param = params_.emplace_back();
    param.struct_size = sizeof param;
    param.type = given.type;
    param.path = given.path.c_str();
    param.i = given.i;
    param.d = given.d;
    param.s = {given.s.data(), given.s.size()};
  }
  for (const vnr_tensor& tensor : tensors_) tensor_pointers_.push_back(&tensor);
  for (const vnr_param& param : params_) param_pointers_.push_back(&param);
  raw_.struct_size = sizeof raw_;
  raw_.n_tensors = static_cast<std::uint32_t>(tensors_.size());
  raw_.n_params = static_cast<std::uint32_t>(params_.size());
  raw_.roles = roles_.data();
  raw_.tensors = tensor_pointers_.data();
  raw_.params = param_pointers_.data();
}

const void* RawSource::Place(const TensorView& tensor, bool copies) {
  const std::uint64_t element = InfoOf(tensor.dtype).block_bytes;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % element == 0;
  if (is_aligned && !copies) return tensor.bytes.data();
  const std::uint64_t size = std::max<std::uint64_t>((tensor.bytes.size() + kAlign - 1) / kAlign * kAlign, kAlign);
  void* const data = std::aligned_alloc(kAlign, size);
  if (data == nullptr) throw std::bad_alloc();
  copies_.emplace_back(data);
  if (!tensor.bytes.empty()) std::memcpy(data, tensor.bytes.data(), tensor.bytes.size());
  copied_bytes_ += tensor.bytes.size();
  return data;
}

}  // namespace veneer
