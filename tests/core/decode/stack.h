// Stacks of overlays made of plain numbers: staged for the decoder on one side, as edits for the oracle on the other.
#ifndef VENEER_TESTS_CORE_DECODE_STACK_H_
#define VENEER_TESTS_CORE_DECODE_STACK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/compose/stage.h"
#include "core/decode/decoder.h"
#include "tests/support/reference.h"

namespace veneer {

enum class Scales { kInput, kOutput };

class Stack {
 public:
  explicit Stack(std::shared_ptr<const Base> base) : base_(std::move(base)) {}

  // One adapter each, on one site, random numbers. Later calls come later in the manifest.
  Stack& LowRank(const std::string& site, std::uint64_t rank, double scale, bool bias = false);
  Stack& Rescale(const std::string& site, Scales what);
  // `entries` numbers at random places of a linear site; all of them, as bf16 or f32.
  Stack& Sparse(const std::string& site, std::uint64_t entries, double scale);
  Stack& Dense(const std::string& site, DType dtype);
  // The adapter that was added last takes effect at this strength: W_{j-1} + w (W_j - W_{j-1}).
  Stack& AtStrength(double w);
  // Another tensor in the place of the base's, f32, or with `rows` only those rows of it.
  Stack& Replace(const std::string& site, std::vector<std::uint64_t> rows = {});
  // One adapter of the test kind (probe_plugin.cc) on several sites, with a value for each: y += value * x[0] on every lane.
  struct Probe {
    std::string site;
    double value;
  };
  Stack& Probes(const std::vector<Probe>& probes, std::int64_t share_key, bool fails = false);
  // The test kind at a determinism level: y += 1 on the first lane of every call that the host makes.
  Stack& CallMarks(const std::string& site, std::int64_t level);

  // Throws with the error's text when staging fails. Kinds and sites in their order give the composition its id.
  [[nodiscard]] std::shared_ptr<const StagedComposition> Stage(ComputeMode mode) const;
  [[nodiscard]] const reference::Edits& edits() const { return edits_; }
  [[nodiscard]] const Base& base() const { return *base_; }

 private:
  const Site& SiteOf(const std::string& id) const;
  // n numbers in [low, high), kept for the views of the adapters.
  const std::vector<float>& Numbers(std::uint64_t n, float low, float high);
  void AddAdapter(const std::string& kind, std::vector<AdapterSite> sites, std::vector<Replacement> replacements = {});
  void Add(const std::string& kind, const std::string& site, std::vector<RoleTensor> tensors, std::vector<ParamValue> params);
  reference::Edit& AddEdit(const std::string& site);

  std::shared_ptr<const Base> base_;
  std::deque<std::vector<float>> numbers_;
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<StageAdapter> adapters_;
  reference::Edits edits_;
  std::string last_site_;
};

// Throws with the error's text.
std::unique_ptr<Decoder> MakeDecoder(std::shared_ptr<const StagedComposition> composition, const DecoderOptions& options = {});

// Logits of all tokens [n * vocab], fed in pieces of the given sizes (the rest at once). Throws with the error's text.
std::vector<float> LogitsOf(Decoder& decoder, const std::vector<TokenId>& tokens, const std::vector<std::size_t>& pieces = {});

// n token ids below vocab, the same everywhere.
std::vector<TokenId> SomeTokens(std::size_t n, std::uint32_t vocab);

}  // namespace veneer

#endif  // VENEER_TESTS_CORE_DECODE_STACK_H_
