// The canonical list of the files of a Hugging Face base: config.json, index and shards. Its SHA-256 is the base's identity, and a store
// keeps it as a blob that names the blobs of the files.
#ifndef VENEER_CORE_MANIFEST_BASE_LIST_H_
#define VENEER_CORE_MANIFEST_BASE_LIST_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"

namespace veneer {

inline constexpr std::string_view kListedBaseFormat = "hf";  // base_format of a composition over such a base
inline constexpr std::uint64_t kMaxBaseListBytes = 1 << 20;

struct ListedFile {
  std::string name;
  Digest digest;
  std::uint64_t size = 0;
};

// {"files":[{"name":"config.json","sha256":"sha256:…","size":917},…]}, by name.
std::string PrintBaseList(std::vector<ListedFile> files);

// E212 unless the bytes are canonical: sorted, every name once. E205 for a name that is not that of a file in a directory. E1xx, E2xx.
Result<std::vector<ListedFile>> ParseBaseList(std::string_view text);

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_BASE_LIST_H_
