// An OverlaySource in the ABI's structs, and everything those structs point to.
#ifndef VENEER_CORE_PLUGIN_RAW_SOURCE_H_
#define VENEER_CORE_PLUGIN_RAW_SOURCE_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/plugin/overlay.h"

namespace veneer {

class RawSource {
 public:
  // Tensor data are used where they lie when `copies` is false and they are aligned to their element (a file need not align them);
  // otherwise they are copied. copied_bytes() says how much.
  RawSource(OverlaySource source, bool copies);
  RawSource(const RawSource&) = delete;
  RawSource& operator=(const RawSource&) = delete;

  [[nodiscard]] const vnr_source* raw() const { return &raw_; }
  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  const void* Place(const TensorView& tensor, bool copies);

  OverlaySource source_;
  std::vector<vnr_tensor> tensors_;
  std::vector<vnr_param> params_;
  std::vector<const char*> roles_;
  std::vector<const vnr_tensor*> tensor_pointers_;
  std::vector<const vnr_param*> param_pointers_;
  std::vector<std::unique_ptr<void, Free>> copies_;
  std::uint64_t copied_bytes_ = 0;
  vnr_source raw_{};
};

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_RAW_SOURCE_H_
