// What the files of the identity vector are, for sealing without files.
#ifndef VENEER_TESTS_CORE_MANIFEST_FACTS_H_
#define VENEER_TESTS_CORE_MANIFEST_FACTS_H_

#include <string_view>
#include <vector>

#include "core/manifest/manifest.h"

veneer::BaseFacts VectorBase();
// Those of the adapters "style" and "safety", in the order in which the manifest loads them.
std::vector<veneer::AdapterFacts> VectorAdapters(const veneer::Manifest& manifest);
// Parses and seals against them.
veneer::Result<veneer::Composition> SealText(std::string_view text, veneer::ManifestSyntax syntax);

#endif  // VENEER_TESTS_CORE_MANIFEST_FACTS_H_
