// c[t, n] = sum_k a[t, k] * b[k, n], or += : dense f32 products of several tokens by oneDNN.
//
// Bits depend on the number of tokens and on how the product is cut (det_level 1), not on threads or alignment. A call allocates inside
// oneDNN (memory objects, packing): a program that uses it says VNR_ALLOCATES_FOR_TOKENS and counts kOpaqueBytes for each product.
#ifndef VENEER_KERNELS_ONEDNN_MATMUL_H_
#define VENEER_KERNELS_ONEDNN_MATMUL_H_

#include <cstdint>
#include <memory>

namespace veneer::kernels::onednn {

class Matmul {
 public:
  struct Shape {
    std::uint64_t k, n;
    bool b_is_transposed;  // b lies as [n][k]
    bool accumulate;       // c += instead of c =
  };
  // Memory of one primitive that does not come from the host: 14 KiB measured for the first, 2 KiB for more of one shape. Apart from
  // that oneDNN keeps about 0.3 MiB of generated code once per process.
  static constexpr std::uint64_t kOpaqueBytes = 16 << 10;

  // Creates the primitive; call it while staging. nullptr when oneDNN refuses the shape.
  static std::unique_ptr<Matmul> Create(const Shape& shape);
  ~Matmul();

  // a [tokens][k] with a_stride floats between tokens, c [tokens][n] with c_stride; any number of tokens. Any thread, several at once.
  // `scratch`: scratch_bytes() at a multiple of 64. False when oneDNN fails.
  [[nodiscard]] bool Run(std::uint32_t tokens, const float* a, std::uint64_t a_stride, const float* b, float* c, std::uint64_t c_stride,
                         void* scratch) const;
  [[nodiscard]] std::uint64_t scratch_bytes() const;

 private:
  struct State;
  explicit Matmul(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace veneer::kernels::onednn

#endif  // VENEER_KERNELS_ONEDNN_MATMUL_H_
