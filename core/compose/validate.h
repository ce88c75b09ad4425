// Sealing and validating: a manifest or a stored composition against the real files. Runs no plugin code and changes nothing.
#ifndef VENEER_CORE_COMPOSE_VALIDATE_H_
#define VENEER_CORE_COMPOSE_VALIDATE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/compose/artifact_source.h"
#include "core/compose/stage.h"
#include "core/manifest/composition.h"
#include "core/manifest/manifest.h"
#include "core/plugin/catalog.h"

namespace veneer {

// A composition all of whose files were opened, hashed, read and found to agree with it. Only the functions below make one, and
// only one can be staged.
class ValidatedComposition {
 public:
  [[nodiscard]] const Composition& composition() const { return composition_; }
  [[nodiscard]] const std::shared_ptr<const Base>& base() const { return base_; }
  [[nodiscard]] const std::vector<StageAdapter>& adapters() const { return adapters_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }  // warnings, what was ignored and why

 private:
  friend class CompositionValidator;
  ValidatedComposition() = default;
  Composition composition_;
  std::shared_ptr<const Base> base_;
  std::vector<StageAdapter> adapters_;
  std::vector<std::string> notes_;
};

// Reads the files a manifest names, fills absent claims, checks the given ones. The composition in the result is sealed. E504 when the
// system refuses memory.
Result<ValidatedComposition> SealAndValidate(const Manifest& manifest, ArtifactSource& source, const Catalog& catalog);

// The same for a stored composition: everything in it is a claim, and sealing it again must give the same bytes (E306).
Result<ValidatedComposition> ValidateComposition(const Composition& composition, ArtifactSource& source, const Catalog& catalog);

// A manifest that claims everything a composition says; without a statement of its own.
Manifest ManifestOf(const Composition& composition);

// What identifies a base in a manifest. `hash` is the digest its bytes were proven to have.
BaseFacts FactsOf(const Base& base, const Digest& hash);

// The first half of staging a validated composition; give the result to its Stage(). The catalogue outlives both.
Result<BoundComposition> Bind(const ValidatedComposition& validated, const Catalog& catalog, const StageOptions& options);

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_VALIDATE_H_
