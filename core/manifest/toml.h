// TOML 1.0 into the tree that JSON documents are read into. Numbers and dates keep their source text, so nothing is rounded behind the
// author's back. The only file that sees toml++ is toml.cc.
#ifndef VENEER_CORE_MANIFEST_TOML_H_
#define VENEER_CORE_MANIFEST_TOML_H_

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/format/json.h"

namespace veneer {

// Dates and times become strings as written; tables are objects. Codes as for ParseJson: E101 size, E102 bytes, E103 syntax (line and
// column in the detail), E104 depth, E105 duplicate key, E106 items.
Result<Json> ParseToml(std::string_view document, const JsonLimits& limits);

// The document with every number and date that the library could not hold (integers beyond 64 bits, 1e400, 30 February) replaced by a
// short one and blanks, so that it fails by our rules and not as a syntax error. Positions stay as they are. What the library must not
// see is refused: E102 an escaped surrogate; E103 a character other than ASCII outside strings and comments, or as the first one after
// a line-ending backslash (legal TOML, but toml++ 3.3 is undefined there); E104 nesting, of brackets and dotted keys alike; E106 more
// tables and keys than items are allowed.
Result<std::string> PrepareToml(std::string_view document, const JsonLimits& limits);

// Length of the number or date that starts a text: a run of letters, digits and _ + - . : and, for a date, a space and a time.
std::size_t TomlTokenSize(std::string_view text);

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_TOML_H_
