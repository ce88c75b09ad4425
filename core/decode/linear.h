// Linear layers with their overlays: the single place where overlays meet the base product.
//
// A group is the sites that read the same input: q, k and v; gate and up; or one alone. It runs in two phases:
//
//   phase P   input -> x (norm, gating); for every site its versions x_k = x, x_{j-1} = T_j x_j, in reverse manifest order;
//             x_0 quantized once per distinct x_0 (fast mode); prepare units of every overlay, each with its own x_j
//   all have arrived
//   phase R   canonical tiles of lanes, one or a run of them: base rows -> y, apply_1 .. apply_k, + composed bias, + what the output had
//
// For one token every worker makes x and its versions for itself in its own row of the buffers (cheaper than a barrier) and takes
// its share of the prepare units; base rows need nothing of the others, so it waits for them only before the first apply, and applies to
// all its tiles in one piece. For more tokens phase P is split by canonical blocks of kTokenBlock tokens; from four tokens on it packs
// quantized activations, and phase R multiplies up to kTileTokens of them with rows that it unpacks once. Tiles depend on the site and
// its overlays alone, never on the number of workers, so results do not either; base products have the same bits in every tile.
#ifndef VENEER_CORE_DECODE_LINEAR_H_
#define VENEER_CORE_DECODE_LINEAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/compose/staged_composition.h"
#include "core/decode/function_ref.h"
#include "core/decode/thread_pool.h"
#include "kernels/kernels.h"

namespace veneer {

// Lanes of a tile, before it is rounded up to the overlays' lane quantum: enough per plugin call that an indirect call costs nothing,
// few enough that rows and output stay in the L2 cache. 13 groups of 8 rows, and a run of tiles has 117: with an odd number the kernels'
// eight streams do not fall on the same cache sets.
inline constexpr std::uint64_t kTileLanes = 104;
// One token's base rows are multiplied over so many tiles at once, where a worker has them: every call starts the kernels' streams anew,
// before anything is prefetched (measured, two threads at 55 GB/s: 104 rows 44, 256 51, 512 52-56 GB/s, more no faster and no slower).
inline constexpr std::uint64_t kRunTiles = 9;
// The same where rows are unpacked for many tokens: what one panel of the kernels holds, and tokens enough to make the unpacking cheap
// while the tile's output, 64 KiB, stays in the L2 cache beside it.
inline constexpr std::uint64_t kPanelLanes = 64;
inline constexpr std::uint32_t kTileTokens = 256;

// Memory that the groups of a decoder share, since they run one after the other. Sized by the largest.
struct LinearNeeds {
  std::uint64_t x_floats = 0;        // per token row: x and all transformed versions
  std::uint64_t q_blocks = 0;        // per token row: activation blocks of all distinct x_0
  std::uint64_t prepared_bytes = 0;  // per token
  std::uint64_t packed_blocks = 0;   // per four token rows: the same blocks packed
  std::uint64_t tile_lanes = 0;      // per worker: the widest tile of output for kTokenBlock tokens
  std::uint64_t panel_lanes = 0;     // per worker: the widest for kTileTokens, beside which the kernels need scratch
  std::uint64_t plugin_bytes = 0;    // per worker: the plugins' scratch

  void Include(const LinearNeeds& other);  // the larger of each
  // Of a group without overlays that reads `in` numbers a token, at most.
  static LinearNeeds OfPlainGroup(std::uint64_t in, ComputeMode mode);
};

class LinearScratch {
 public:
  // `rows`: tokens of a batch, at least the number of workers. Throws std::bad_alloc.
  LinearScratch(const LinearNeeds& needs, std::uint32_t rows, std::uint32_t n_workers);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  static std::uint64_t Bytes(const LinearNeeds& needs, std::uint32_t rows, std::uint32_t n_workers);

 private:
  friend class LinearGroup;
  explicit LinearScratch(const LinearNeeds& needs) : needs_(needs) {}                 // to be measured, without memory
  std::uint64_t Carve(std::byte* data, std::uint32_t rows, std::uint32_t n_workers);  // returns the bytes it takes
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::uint64_t bytes_ = 0;
  LinearNeeds needs_;
  float* x_ = nullptr;                      // [rows][x_floats]
  std::int8_t* q_ = nullptr;                // [rows][q_blocks * 32]
  float* d_ = nullptr;                      // [rows][q_blocks]
  std::int32_t* sum_ = nullptr;             // [rows][q_blocks]
  kernels::PackedBlock* packed_ = nullptr;  // [rows / 4][packed_blocks]
  std::byte* prepared_ = nullptr;           // [rows][prepared_bytes]
  std::byte* plugin_ = nullptr;             // [n_workers][plugin_bytes]
  float* tile_ = nullptr;                   // [n_workers][tile_floats_]
  std::byte* panel_ = nullptr;              // [n_workers][kernels::kTileScratchBytes]
  std::uint64_t tile_floats_ = 0;
};

class LinearGroup {
 public:
  // One site's output: y[t * stride + lane]; `accumulate` adds to what is there (the residual stream).
  struct Output {
    float* y;
    std::uint64_t stride;
    bool accumulate;
  };
  // Writes token t's input into `row` (site.in floats).
  using Input = FunctionRef<void(std::uint32_t t, float* row)>;

  // The composition outlives the group. All sites have the same `in`.
  LinearGroup(const StagedComposition& composition, const std::vector<const Site*>& sites, const kernels::Table& kernels);

  [[nodiscard]] const LinearNeeds& needs() const { return needs_; }

  // Called by every worker of the pool inside its Run, after a barrier; none lies after the second phase. What `input` reads is no output.
  void Run(ThreadPool& pool, std::uint32_t worker, std::uint32_t tokens, Input input, LinearScratch& scratch,
           std::span<const Output> outputs) const;

 private:
  // All that the hot path needs of an overlay or a site lies in these two.
  struct OverlayPlan {
    HotCalls calls;
    const OverlayBinding* binding;
    std::uint32_t transform_units = 0;  // 0: x passes through
    std::uint32_t prepare_units = 0;    // 0 also where an earlier overlay of the group prepares the same bytes from the same x
    std::uint32_t det_level = 0;
    std::uint64_t x_offset = 0;            // its version x_j inside a token's row; 0 is the input itself
    std::uint64_t transformed_offset = 0;  // where x_{j-1} = T_j x_j goes; only for transforming overlays
    std::uint64_t prepared_offset = 0;     // inside a token's prepared bytes
  };
  struct SitePlan {
    std::uint64_t out = 0;
    StoredWeight weight;
    std::span<const StoredRow> rows;  // as StagedSite
    std::span<const float> bias;
    std::vector<OverlayPlan> overlays = {};  // manifest order
    std::uint64_t x0_offset = 0;             // the version that the base multiplies
    std::uint64_t q_offset = 0;              // first activation block of x_0 in a token's row; unused when the base multiplies f32
    std::uint64_t tile = 0, panel_tile = 0;  // lanes of a tile for few tokens, and where rows are unpacked for many
    std::uint32_t packed_from = UINT32_MAX;  // tokens from which they are, and packed activations multiplied; UINT32_MAX: never
    std::uint64_t row_bytes = 0;             // of a stored weight row
    bool is_quantized = false;               // the base multiplies quantized activations
    bool quantizes = false;                  // is the first site with this x_0, so it quantizes for all
  };

  // Tokens [t0, t0 + tokens) of the lanes [lane0, lane1) of a site: some tiles of it.
  struct Part {
    const SitePlan* plan;
    const Output* output;
    std::uint64_t lane0, lane1;
    std::uint32_t t0, tokens;
    std::uint32_t x_row;   // of the buffers: where the first token's x lies
    float* y;              // of lane0 and t0: in the output, or beside it when that has something already
    std::uint64_t stride;  // floats from token to token
  };

  void PlanSite(const StagedComposition& composition, const Site& site);
  void PlanVersions(SitePlan& plan);
  void PlanPrepared(SitePlan& plan);
  void PlanQuantized(SitePlan& plan);
  [[nodiscard]] vnr_io IoAt(const OverlayPlan& plan, std::uint32_t x_row, std::uint32_t prepared_row, std::uint32_t tokens,
                            std::uint32_t worker, LinearScratch& scratch) const;
  void MakeVersions(std::uint32_t row, std::uint32_t tokens, std::uint32_t worker, LinearScratch& scratch) const;
  void Quantize(std::uint32_t row, std::uint32_t tokens, LinearScratch& scratch) const;
  void Pack(std::uint32_t row, std::uint32_t tokens, LinearScratch& scratch) const;
  static kernels::QuantizedActivations QuantizedAt(const SitePlan& plan, std::uint64_t row, const LinearScratch& scratch);
  void PrepareOne(ThreadPool& pool, std::uint32_t worker, Input input, LinearScratch& scratch) const;
  void PrepareBlocks(ThreadPool& pool, std::uint32_t worker, std::uint32_t tokens, Input input, LinearScratch& scratch) const;
  void RunOne(ThreadPool& pool, std::uint32_t worker, Input input, LinearScratch& scratch, std::span<const Output> outputs) const;
  void RunBlocks(ThreadPool& pool, std::uint32_t worker, std::uint32_t tokens, Input input, LinearScratch& scratch,
                 std::span<const Output> outputs) const;
  template <class Body>
  void ClaimTiles(ThreadPool& pool, std::uint32_t worker, std::uint32_t tokens, std::uint64_t at_once, const Body& body) const;
  void Multiply(const Part& part, const LinearScratch& scratch, std::byte* panel) const;
  void Finish(const Part& part, std::uint64_t tile, std::uint32_t worker, LinearScratch& scratch) const;
  // Whether a run over so many tokens multiplies packed activations; the lanes of its tiles; how many tiles that makes.
  static bool IsPacked(const SitePlan& plan, std::uint32_t tokens) { return tokens >= plan.packed_from; }
  static std::uint64_t TileOf(const SitePlan& plan, std::uint32_t tokens);
  static std::uint64_t TilesOf(const SitePlan& plan, std::uint32_t tokens);

  const kernels::Table* kernels_;
  bool is_fast_;
  std::uint32_t packed_from_ = UINT32_MAX;  // the least of the sites'
  std::uint64_t in_;
  std::uint64_t prepare_units_ = 0;  // of all overlays
  std::vector<SitePlan> plans_;
  LinearNeeds needs_;
};

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_LINEAR_H_
