#include "core/base/output_file.h"

#include <filesystem>
#include <iterator>
#include <span>
#include <string_view>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temp_dir.h"

using namespace veneer;

TEST_CASE("output file: an old file stays as it was until the new one is whole, and without its end nothing changes") {
  const TempDir dir;
  const auto path = dir.path() / "file";
  WriteAll(path, "old");
  for (const bool is_finished : {false, true}) {
    {
      auto file = OutputFile::Create(path);
      REQUIRE(file);
      REQUIRE(file->Write(std::as_bytes(std::span(std::string_view("new")))));
      CHECK(ReadAll(path) == "old");
      if (is_finished) REQUIRE(file->Finish());
    }
    CHECK(ReadAll(path) == (is_finished ? "new" : "old"));
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
  }
}

TEST_CASE("output file: a folder that is missing, and a folder in the file's place, are refused when it is opened") {
  const TempDir dir;
  CHECK(OutputFile::Create(dir.path() / "missing" / "file").error().code == Code::IO);
  CHECK(OutputFile::Create(dir.path()).error().at == dir.path().string());
  CHECK(std::filesystem::is_empty(dir.path()));
}
