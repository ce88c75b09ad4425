#include "core/format/npy.h"

#include <fstream>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/temp_dir.h"

namespace veneer {
namespace {

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::size_t FilesIn(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST_CASE("npy: the bytes are those numpy.save writes") {
  const TempDir dir;
  const float values[] = {1, 2, 3, 4, 5, 6};
  REQUIRE(WriteNpy(dir.path() / "m.npy", 2, 3, values));
  // numpy.save of float32 [[1,2,3],[4,5,6]]: header padded with blanks to 128 bytes.
  std::string expected("\x93NUMPY\x01\x00\x76\x00", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected.resize(127, ' ');
  expected += '\n';
  expected.append(reinterpret_cast<const char*>(values), sizeof values);
  CHECK(Contents(dir.path() / "m.npy") == expected);
}

TEST_CASE("npy: what is written row by row reads back, and the name appears only when it is whole") {
  const TempDir dir;
  const auto path = dir.path() / "m.npy";
  auto writer = NpyWriter::Create(path, 3, 2);
  REQUIRE(writer);
  for (const float row : {0.f, 1.f, 2.f}) {
    CHECK_FALSE(std::filesystem::exists(path));
    const float values[] = {row, -row};
    REQUIRE(writer->Append(values));
  }
  REQUIRE(writer->Finish());
  const auto matrix = ReadNpy(path);
  REQUIRE(matrix);
  CHECK(matrix->rows == 3);
  CHECK(matrix->cols == 2);
  CHECK(matrix->values == std::vector<float>{0, -0.f, 1, -1, 2, -2});
}

TEST_CASE("npy: an unfinished matrix leaves nothing behind, and a count that is wrong is refused") {
  const TempDir dir;
  const auto path = dir.path() / "m.npy";
  {
    auto writer = NpyWriter::Create(path, 1, 2);
    REQUIRE(writer);
    const float three[] = {1, 2, 3};
    CHECK(writer->Append(three).error().code == Code::INTERNAL);
    REQUIRE(writer->Append(std::span(three, 1)));
    CHECK(writer->Finish().error().code == Code::INTERNAL);
  }
  CHECK(FilesIn(dir.path()) == 0);
  CHECK(NpyWriter::Create(path, UINT64_MAX, 2).error().code == Code::SHAPE_MISMATCH);
  CHECK(NpyWriter::Create(dir.path() / "missing" / "m.npy", 1, 1).error().code == Code::IO);
}

TEST_CASE("npy: other arrays and damaged files are refused") {
  const TempDir dir;
  const auto path = dir.path() / "m.npy";
  const float values[] = {1, 2};
  REQUIRE(WriteNpy(path, 1, 2, values));
  const std::string good = Contents(path);
  const auto code_of = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const auto matrix = ReadNpy(path);
    return matrix ? Code{} : matrix.error().code;
  };
  CHECK(code_of(good) == Code{});
  for (std::size_t size = 1; size < good.size(); ++size) CHECK(code_of(good.substr(0, size)) != Code{});
  CHECK(code_of(good + "x") == Code::HEADER_CORRUPT);
  std::string other = good;
  other.replace(other.find("<f4"), 3, "<f8");
  CHECK(code_of(other) == Code::FORMAT_UNSUPPORTED);
  std::string fortran = good;
  fortran.replace(fortran.find("False"), 5, "True ");
  CHECK(code_of(fortran) == Code::FORMAT_UNSUPPORTED);
}

TEST_CASE("npy: matrices written by numpy are read") {
  const auto data = ExternalData();
  if (!data) return;
  const auto matrix = ReadNpy(*data / "stories260k/vectors-q4_0/base.npy");
  if (!matrix) FAIL(matrix.error().Text());
  CHECK(matrix->cols == 512);
  CHECK(matrix->rows > 0);
}

}  // namespace
}  // namespace veneer
