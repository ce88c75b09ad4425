#include "core/manifest/base_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/manifest/canonical.h"

namespace veneer {

std::string PrintBaseList(std::vector<ListedFile> files) {
  std::ranges::sort(files, {}, &ListedFile::name);
  std::vector<std::string> entries;
  for (const ListedFile& file : files)
    entries.push_back(CanonicalObject(
        {{"name", CanonicalString(file.name)}, {"sha256", CanonicalString(file.digest.Text())}, {"size", CanonicalInteger(file.size)}}));
  return CanonicalObject({{"files", CanonicalArray(entries)}});
}

Result<std::vector<ListedFile>> ParseBaseList(std::string_view text) {
  VENEER_ASSIGN(const Json json, ParseJson(text, {.bytes = kMaxBaseListBytes, .depth = 3}));
  VENEER_ASSIGN(const Json* const entries, json.Get("files"));
  if (!entries->is_array() || entries->elements.empty()) return Fail(Code::FIELD_TYPE, entries->at, "must be an array of files");
  std::vector<ListedFile> files;
  for (const Json& entry : entries->elements) {
    ListedFile& file = files.emplace_back();
    VENEER_ASSIGN(const Json* const name, entry.Get("name"));
    VENEER_ASSIGN(file.name, name->String());
    if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos || !IsPrintableAscii(file.name))
      return Fail(Code::NAME_INVALID, name->at, fmt::format("found {}, must be a plain file name", JsonQuote(file.name)));
    VENEER_ASSIGN(const Json* const digest, entry.Get("sha256"));
    VENEER_ASSIGN(const std::string hash, digest->String());
    VENEER_ASSIGN(file.digest, ParseDigest(hash, digest->at));
    VENEER_ASSIGN(const Json* const size, entry.Get("size"));
    VENEER_ASSIGN(file.size, size->U64());
  }
  if (const auto twice = std::ranges::adjacent_find(files, {}, &ListedFile::name); twice != files.end())
    return Fail(Code::NAME_DUPLICATE, entries->at, fmt::format("{} is listed twice", twice->name));
  VENEER_TRY(CheckCanonicalBytes(text, PrintBaseList(files)));
  return files;
}

}  // namespace veneer
