// NumPy's NPY 1.0 for one thing: a little-endian f32 matrix [rows, cols] in C order (logits for outside checks).
#ifndef VENEER_CORE_FORMAT_NPY_H_
#define VENEER_CORE_FORMAT_NPY_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/output_file.h"

namespace veneer {

// Writes a matrix row by row, so that it never has to be in memory whole. A regular file appears under its name only when Finish
// has succeeded: until then the bytes are in a file beside it, which the destructor removes.
class NpyWriter {
 public:
  // `path` may also name something that is no regular file (a pipe, /dev/stdout): that is written directly. E603 and kin.
  static Result<NpyWriter> Create(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t cols);

  // Any number of values, in order.
  Status Append(std::span<const float> values);
  // E902 unless exactly rows * cols values were appended.
  Status Finish();

 private:
  NpyWriter(OutputFile file, std::uint64_t values_left) : file_(std::move(file)), values_left_(values_left) {}

  OutputFile file_;
  std::uint64_t values_left_;
};

Status WriteNpy(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t cols, std::span<const float> values);

struct NpyMatrix {
  std::uint64_t rows = 0, cols = 0;
  std::vector<float> values;  // row-major
};

// Reads what NpyWriter and numpy.save write for a 2-D little-endian f32 array in C order; E401 for another array, E402 damaged,
// E101 above `limit` bytes.
Result<NpyMatrix> ReadNpy(const std::filesystem::path& path, std::uint64_t limit = 1ull << 30);

}  // namespace veneer

#endif  // VENEER_CORE_FORMAT_NPY_H_
