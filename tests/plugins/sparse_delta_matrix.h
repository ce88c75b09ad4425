// A sparse matrix as a list of entries, written out in the forms of the kind; the values are those that its type can hold.
#ifndef VENEER_TESTS_PLUGINS_SPARSE_DELTA_MATRIX_H_
#define VENEER_TESTS_PLUGINS_SPARSE_DELTA_MATRIX_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/plugins/harness.h"

namespace plugin_test {

// A tensor of indices in VNR_I32, U32, I64 or F32.
inline Stored StoreIndices(std::uint32_t dtype, std::vector<std::uint64_t> dims, const std::vector<double>& values) {
  Stored out{dtype, std::move(dims), values, {}};
  const auto put = [&out](auto value) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
    out.bytes.insert(out.bytes.end(), bytes, bytes + sizeof value);
  };
  for (const double value : values) {
    if (dtype == VNR_I32) put(static_cast<std::int32_t>(value));
    if (dtype == VNR_U32) put(static_cast<std::uint32_t>(value));
    if (dtype == VNR_I64) put(static_cast<std::int64_t>(value));
    if (dtype == VNR_F32) put(static_cast<float>(value));
  }
  return out;
}

struct SparseMatrix {
  struct Entry {
    std::uint64_t row, column;
    double value;
  };
  std::uint64_t out, in;
  std::uint32_t dtype;
  std::vector<Entry> entries;

  static SparseMatrix Random(std::mt19937& rng, std::uint64_t out, std::uint64_t in, double density, std::uint32_t dtype) {
    SparseMatrix matrix{out, in, dtype, {}};
    std::bernoulli_distribution is_kept(density);
    for (std::uint64_t row = 0; row < out; ++row)
      for (std::uint64_t column = 0; column < in; ++column)
        if (is_kept(rng)) matrix.entries.push_back({row, column, 0});
    const std::vector<double> values = plugin_test::Random(rng, dtype, {matrix.entries.size()}, 0.5).values;
    for (std::size_t i = 0; i < values.size(); ++i) matrix.entries[i].value = values[i];
    return matrix;
  }
  [[nodiscard]] SparseMatrix Shuffled(std::mt19937& rng) const {
    SparseMatrix matrix = *this;
    std::ranges::shuffle(matrix.entries, rng);
    return matrix;
  }

  [[nodiscard]] Tensors Csr(std::uint32_t col_idx_type = VNR_I32, std::uint32_t row_ptr_type = VNR_I64) const {
    std::vector<double> row_ptr(out + 1, 0.0), columns;
    for (const Entry& entry : entries) {
      columns.push_back(static_cast<double>(entry.column));
      for (std::uint64_t row = entry.row; row < out; ++row) ++row_ptr[row + 1];
    }
    return {{"values", Values()},
            {"col_idx", StoreIndices(col_idx_type, {entries.size()}, columns)},
            {"row_ptr", StoreIndices(row_ptr_type, {out + 1}, row_ptr)}};
  }
  [[nodiscard]] Tensors Coo(std::uint32_t type) const {
    std::vector<double> indices;
    for (const Entry& entry : entries) indices.push_back(static_cast<double>(entry.row));
    for (const Entry& entry : entries) indices.push_back(static_cast<double>(entry.column));
    return {{"values", Values()}, {"indices", StoreIndices(type, {2, entries.size()}, indices)}};
  }

 private:
  [[nodiscard]] Stored Values() const {
    std::vector<double> values;
    for (const Entry& entry : entries) values.push_back(entry.value);
    return Store(dtype, {entries.size()}, values);
  }
};

}  // namespace plugin_test

#endif  // VENEER_TESTS_PLUGINS_SPARSE_DELTA_MATRIX_H_
