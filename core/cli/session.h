// What a command works with: options, catalogue, store and the composition to run, each opened when first asked for.
#ifndef VENEER_CORE_CLI_SESSION_H_
#define VENEER_CORE_CLI_SESSION_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cli/options.h"
#include "core/compose/path_source.h"
#include "core/compose/store_source.h"
#include "core/compose/validate.h"
#include "core/decode/decoder.h"
#include "core/decode/plan.h"
#include "core/plugin/catalog.h"
#include "core/store/posix_sys.h"
#include "core/store/store.h"

namespace veneer::cli {

// "adapter/bard": what it must be, and its name; without a prefix it may be anything.
std::pair<std::optional<RefKind>, std::string> SplitName(const std::string& what);

// What can only be the path of a manifest, never a name in the store.
bool IsManifestName(const std::filesystem::path& path);

class Session {
 public:
  explicit Session(Options options) : options_(std::move(options)) {}

  [[nodiscard]] const Options& options() const { return options_; }
  // Word after the verb; the command's word count has been checked.
  [[nodiscard]] const std::string& word(std::size_t i) const { return options_.words[i + 1]; }
  [[nodiscard]] std::size_t words() const { return options_.words.size() - 1; }

  Result<Catalog*> catalog();
  PosixSys& sys() { return sys_; }
  Result<Store*> store();  // E607 with the remedy when there is none

  // The base alone of what Selected() gives, without its adapters.
  Result<std::shared_ptr<const Base>> SelectedBase();
  // The composition that --base, --manifest or the active generation names, all its files checked.
  Result<ValidatedComposition> Selected();
  // A composition named by a manifest file, an id "sha256:…" or a name in the store, all its files checked; with its statement
  // when a manifest was sealed.
  struct Named {
    ValidatedComposition validated;
    std::optional<Statement> statement;
  };
  Result<Named> Resolve(const std::string& what);
  Result<ValidatedComposition> FromId(const Digest& id);
  // Composition and statement, ready to be put into the store.
  struct Sealed {
    Digest composition;
    std::optional<Digest> statement;
    std::vector<StagedBlob> blobs;
  };
  Result<Sealed> Seal(const Named& named);
  // Puts them there, in one transaction, under `name` when one is given.
  Status Keep(const Sealed& sealed, const std::optional<std::string>& name);
  // --expect, --verbose, and the checks that every switch runs: all files against the composition, staged once within the memory budget.
  Result<SwitchOptions> switch_options();
  Result<ValidatedComposition> ActiveComposition();  // E605 when there is none

  [[nodiscard]] ComputeMode mode() const { return options_.compute == "exact" ? ComputeMode::kExact : ComputeMode::kFast; }
  [[nodiscard]] DecoderOptions decoder_options(std::uint32_t max_batch) const;
  [[nodiscard]] StageOptions stage_options() const;
  Result<StagedPlan> Stage(const ValidatedComposition& validated, const DecoderOptions& decoder, std::uint64_t budget);
  // Stages within the budget, then makes a decoder over it.
  Result<std::unique_ptr<Decoder>> MakeDecoder(const ValidatedComposition& validated, std::uint32_t max_batch);
  // On standard error: what the checks found worth saying, the warnings among it.
  static void PrintNotes(const ValidatedComposition& validated);
  // Prints the memory plan of the composition, as a table or JSON.
  Result<int> PrintPlan(const ValidatedComposition& validated);

 private:
  Result<PathSource> OpenPaths(bool with_adapters) const;

  Options options_;
  std::optional<Catalog> catalog_;
  PosixSys sys_;
  std::optional<Store> store_;
};

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_SESSION_H_
