// Writes an authoring manifest as TOML that teaches: what `veneer compose` gives to its user to read and change.
#ifndef VENEER_CORE_MANIFEST_WRITE_TOML_H_
#define VENEER_CORE_MANIFEST_WRITE_TOML_H_

#include <string>

#include "core/manifest/manifest.h"

namespace veneer {

// Reading the text back gives a manifest that seals to the same composition.
std::string WriteManifestToml(const Manifest& manifest);

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_WRITE_TOML_H_
