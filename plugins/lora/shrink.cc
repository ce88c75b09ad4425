#include "plugins/lora/shrink.h"

#include "veneer/abi.h"

#if defined(VENEER_ONEDNN)
#include "kernels/onednn/matmul.h"
#endif

namespace veneer_lora {

#if defined(VENEER_ONEDNN)

struct Shrink::Impl {
  std::unique_ptr<veneer::kernels::onednn::Matmul> product;
};

bool Shrink::IsFaster(std::uint64_t columns, std::uint64_t rank, std::uint32_t dtype) {
  constexpr std::uint64_t kWorthIt = 32768;
  return dtype == VNR_F32 && columns >= (kWorthIt + rank - 1) / rank;
}
std::uint64_t Shrink::OpaqueBytes() { return veneer::kernels::onednn::Matmul::kOpaqueBytes; }

bool Shrink::Create(std::uint64_t columns, std::uint64_t rank) {
  auto impl = std::make_unique<Impl>();
  impl->product = veneer::kernels::onednn::Matmul::Create({columns, rank, true, false});
  if (!impl->product) return false;
  impl_ = std::move(impl);
  return true;
}
std::uint64_t Shrink::scratch_bytes() const { return impl_->product->scratch_bytes(); }
bool Shrink::Run(const float* x, std::uint64_t x_stride, const float* a, float* t, std::uint64_t t_stride, void* scratch) const {
  return impl_->product->Run(kTokens, x, x_stride, a, t, t_stride, scratch);
}

#else

struct Shrink::Impl {};

bool Shrink::IsFaster(std::uint64_t, std::uint64_t, std::uint32_t) { return false; }
std::uint64_t Shrink::OpaqueBytes() { return 0; }
bool Shrink::Create(std::uint64_t, std::uint64_t) { return false; }
std::uint64_t Shrink::scratch_bytes() const { return 0; }
bool Shrink::Run(const float*, std::uint64_t, const float*, float*, std::uint64_t, void*) const { return false; }

#endif

Shrink::Shrink() = default;
Shrink::~Shrink() = default;

}  // namespace veneer_lora
