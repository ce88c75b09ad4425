// One authored manifest in both syntaxes, and edits that are made in both.
#ifndef VENEER_TESTS_CORE_MANIFEST_DOCUMENTS_H_
#define VENEER_TESTS_CORE_MANIFEST_DOCUMENTS_H_

#include <string>
#include <string_view>

// The manifest of the identity vector, with adapters "style" (load_order 10) and "safety" (20). The same in both.
std::string VectorToml();
std::string VectorJson();

// `text` with the first `from`, which must be there, replaced by `to`.
std::string Replaced(std::string text, std::string_view from, std::string_view to);

// The field's first line with literal `from` given the literal `to`: `rank = 16` in TOML, `"rank": 16` in JSON.
std::string EditToml(std::string_view field, std::string_view from, std::string_view to);
std::string EditJson(std::string_view field, std::string_view from, std::string_view to);

#endif  // VENEER_TESTS_CORE_MANIFEST_DOCUMENTS_H_
