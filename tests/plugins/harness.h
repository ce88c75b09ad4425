// A host for one plugin under test: a counting, failing allocator, artifacts and bindings with their lifetimes, and an f64 oracle that
// knows nothing of any kind but its definition in weight space.
#ifndef VENEER_TESTS_PLUGINS_HARNESS_H_
#define VENEER_TESTS_PLUGINS_HARNESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "veneer/abi.h"

namespace plugin_test {

const vnr_kind& StaticKind(const std::string& id);  // from vnr_static_entries; throws std::out_of_range
std::vector<const vnr_entry*> StaticEntries();

// What a host permits on this machine: VNR_CPU_*.
std::uint64_t AllCpuFeatures();

class TestHost {
 public:
  TestHost();
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;
  [[nodiscard]] const vnr_host* raw() const { return &raw_; }
  [[nodiscard]] std::uint64_t live_bytes() const { return live_bytes_; }
  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_bytes_; }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }

  std::uint64_t fail_at = UINT64_MAX;    // the n-th allocation (from 0) returns NULL
  std::uint64_t cancel_at = UINT64_MAX;  // the n-th poll (from 0) and all later say cancelled
  std::uint64_t polls = 0;
  void set_cpu_features(std::uint64_t features) { raw_.cpu_features = features; }

 private:
  vnr_host raw_{};
  std::map<void*, std::uint64_t> live_;
  std::uint64_t live_bytes_ = 0, peak_bytes_ = 0, calls_ = 0;
};

// A tensor stored as `dtype`; values are rounded to it and `values` holds what is stored.
struct Stored {
  std::uint32_t dtype = VNR_F32;
  std::vector<std::uint64_t> dims;
  std::vector<double> values;
  std::vector<unsigned char> bytes;
};
Stored Store(std::uint32_t dtype, std::vector<std::uint64_t> dims, const std::vector<double>& values);
Stored Random(std::mt19937& rng, std::uint32_t dtype, std::vector<std::uint64_t> dims, double magnitude = 1.0);
std::vector<float> RandomFloats(std::mt19937& rng, std::uint64_t n, double magnitude = 1.0);

struct Site {
  std::uint32_t shape_class = VNR_SITE_LINEAR;
  std::uint64_t out = 0, in = 0;
  std::uint32_t flags = 0;
};
using Tensors = std::map<std::string, Stored>;
using Params = std::map<std::string, double>;

struct Failure {
  std::int32_t code = VNR_OK;
  std::string text;
};

// open, bind, and on demand estimate and stage. Everything is undone by the destructor in the legal order.
class Binding {
 public:
  Binding(TestHost& host, const vnr_kind& kind, const Site& site, const Tensors& tensors, const Params& params);
  ~Binding();
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  Failure failure;  // of the first call that failed
  vnr_limits limits{};
  vnr_cost cost{};
  vnr_program program{};

  bool Estimate();
  bool Stage(const std::vector<float>* base = nullptr);  // base [out][in], for kinds that read it
  bool Ready(const std::vector<float>* base = nullptr) { return failure.code == VNR_OK && Estimate() && Stage(base); }

  [[nodiscard]] const vnr_kind& kind() const { return *kind_; }
  [[nodiscard]] const vnr_binding* raw() const { return binding_; }
  [[nodiscard]] vnr_binding* raw() { return binding_; }
  // W_{j-1} -> W_j; [out][in], VECTOR one row.
  [[nodiscard]] std::vector<float> Weights(std::vector<float> w) const;
  [[nodiscard]] std::vector<float> Bias(std::vector<float> b) const;

 private:
  bool Note(std::int32_t code);
  const vnr_kind* kind_;
  Site site_;
  Tensors tensors_;  // gone after Stage: a touch of a dead view is a read of freed memory
  vnr_artifact* artifact_ = nullptr;
  vnr_binding* binding_ = nullptr;
  char text_[256] = {};
  vnr_err err_{};
};

// How one product is cut: results must not depend on any of it.
struct Cut {
  std::uint64_t tile = 64;  // lanes, rounded up to the lane quantum
  std::uint32_t tokens_at_once = 32;
  std::uint32_t units_at_once = UINT32_MAX;
  bool units_backwards = false;
  std::uint64_t x_offset = 0, y_offset = 0;  // floats off a 64-byte boundary
  std::uint64_t padding = 0;                 // floats beside each token's x and y
  std::uint32_t threads = 1;
};

// y [tokens][out] = W_0 x_0 (given as y0, made by the caller from x0 = TransformX) with one overlay applied. x [tokens][in].
std::vector<float> TransformX(const Binding& binding, const std::vector<float>& x, std::uint32_t tokens, const Cut& cut = {});
std::vector<float> Apply(const Binding& binding, const std::vector<float>& x, const std::vector<float>& y0, std::uint32_t tokens,
                         const Cut& cut = {});
std::vector<float> ApplyEmbedding(const Binding& binding, const std::vector<std::int32_t>& ids, const std::vector<float>& rows,
                                  const Cut& cut = {});

// f32 row products, every sum in f64 and rounded once: the base of the tests.
std::vector<float> BaseProduct(const std::vector<float>& w, const std::vector<float>& x, std::uint64_t out, std::uint64_t in,
                               std::uint32_t tokens);

// num-oracle (plugin-abi 4.3): the largest |y - W' x| / (u (sum |W||x| + a sum |W' - W||x|)), u = 2^-24. Allowed: 16.
double OracleUnits(const std::vector<float>& y, const std::vector<float>& w, const std::vector<double>& edited, const std::vector<float>& x,
                   std::uint64_t out, std::uint64_t in, std::uint32_t tokens, double amplification);

}  // namespace plugin_test

#endif  // VENEER_TESTS_PLUGINS_HARNESS_H_
