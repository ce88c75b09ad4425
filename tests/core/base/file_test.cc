#include "core/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "core/base/bytes.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace veneer;

TEST_CASE("file: a sealed copy keeps its bytes when the original is changed and truncated") {
  const TempDir dir;
  std::ofstream(dir.path() / "a") << "adapter";
  auto copy = FileBytes::Copy(dir.path() / "a", 100);
  REQUIRE(copy);
  std::ofstream(dir.path() / "a", std::ios::trunc) << "x";
  CHECK(AsText(copy->bytes()) == "adapter");
  CHECK(pwrite(copy->fd().get(), "y", 1, 0) == -1);
}

TEST_CASE("file: missing, directory, FIFO, empty and oversized inputs have their own codes and never block") {
  const TempDir dir;
  std::ofstream(dir.path() / "empty");
  std::ofstream(dir.path() / "big") << std::string(101, 'x');
  REQUIRE(mkfifo((dir.path() / "fifo").c_str(), 0600) == 0);
  CHECK(FileBytes::Map(dir.path() / "none").error().code == Code::BLOB_MISSING);
  CHECK(FileBytes::Map(dir.path()).error().code == Code::BLOB_NOT_REGULAR);
  CHECK(FileBytes::Map(dir.path() / "fifo").error().code == Code::BLOB_NOT_REGULAR);
  CHECK(FileBytes::Map(dir.path() / "empty").error().code == Code::HEADER_CORRUPT);
  CHECK(FileBytes::Copy(dir.path() / "big", 100).error().code == Code::INPUT_TOO_LARGE);
  CHECK(ReadText(dir.path() / "big", 100).error().code == Code::INPUT_TOO_LARGE);
}
