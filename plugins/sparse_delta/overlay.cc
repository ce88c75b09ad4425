#include "plugins/sparse_delta/overlay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "plugins/sparse_delta/indices.h"
#include "plugins/sparse_delta/text.h"

namespace veneer_sparse_delta {
namespace {

constexpr uint64_t kPollEvery = 65536;  // entries
constexpr const char* kRowsOfSite = "the rows of the site";
constexpr const char* kColumnsOfSite = "the columns of the site";

[[noreturn]] void Refuse(std::string text) { throw veneer::error{VNR_E_INVALID, std::move(text)}; }

[[noreturn]] void RefuseTwins(uint64_t a, uint64_t b, uint64_t row, uint64_t column) {
  Refuse("entries " + std::to_string(a) + " and " + std::to_string(b) + " of indices are both (" + std::to_string(row) + ", " +
         std::to_string(column) + "), each position may stand once");
}

}  // namespace

// ---- bind ----

void SparseDeltaOverlay::bind(const vnr_site& site, const veneer::source& source) {
  const vnr_tensor& values = source.get("values");
  dtype_ = values.dtype;
  n_ = values.dims[0];
  if (n_ > UINT32_MAX || site.in > UINT32_MAX)
    throw veneer::error{VNR_E_UNSUPPORTED,
                        std::to_string(n_) + " entries in " + std::to_string(site.in) + " columns, this plugin counts both to 4294967295"};
  const double scale = source.strength() * source.number("/scale", 1.0);
  scale_ = static_cast<float>(scale);
  if (!std::isfinite(scale_)) throw veneer::error{VNR_E_NUMERIC, "strength times scale is not finite in f32"};
  CheckForm(source);
  if (form_ == Form::kCsr) {
    CheckCsr(site, source);
  } else {
    CheckCoo(site, source);
  }
  CheckValues(values);
}

void SparseDeltaOverlay::CheckForm(const veneer::source& source) {
  const bool has_row_ptr = source.find("row_ptr") != nullptr, has_col_idx = source.find("col_idx") != nullptr,
             has_indices = source.find("indices") != nullptr;
  if (!has_row_ptr && !has_col_idx && !has_indices)
    Refuse(
        "values come without positions, give row_ptr and col_idx, or indices; a SHiRA file without shira_indices does not say what it "
        "edits (PEFT would draw a new random mask), so save it again with them");
  if (has_indices ? has_row_ptr || has_col_idx : !has_row_ptr || !has_col_idx)
    Refuse(std::string("has") + (has_row_ptr ? " row_ptr" : "") + (has_col_idx ? " col_idx" : "") + (has_indices ? " indices" : "") +
           ", needs exactly one form: row_ptr [out+1] and col_idx [n], or indices [2, n]");
  form_ = has_indices ? Form::kSortedCoo : Form::kCsr;
  const std::string found = has_indices ? "coo" : "csr", said = source.text("/encoding", found.c_str());
  if (said != found) Refuse("encoding says " + said + ", the tensors are " + found);
}

void SparseDeltaOverlay::CheckCsr(const vnr_site& site, const veneer::source& source) const {
  const Indices row_ptr(source.get("row_ptr"), "row_ptr"), col_idx(source.get("col_idx"), "col_idx");
  constexpr const char* what = "the number of values";
  if (const uint64_t first = row_ptr.at(0, n_ + 1, what); first != 0)
    Refuse(row_ptr.Name(0) + " is " + std::to_string(first) + ", must be 0");
  uint64_t e = 0;
  for (uint64_t row = 0; row < site.out; row++) {
    const uint64_t last = row_ptr.at(row + 1, n_ + 1, what);
    if (last < e)
      Refuse(row_ptr.Name(row + 1) + " is " + std::to_string(last) + ", must be at least " + row_ptr.Name(row) + " = " + std::to_string(e));
    uint64_t before = 0;
    for (const uint64_t first = e; e < last; e++) {
      const uint64_t column = col_idx.at(e, site.in, kColumnsOfSite);
      if (e > first && column <= before)
        Refuse(col_idx.Name(e) + " is " + std::to_string(column) + ", must be above " + col_idx.Name(e - 1) + " = " +
               std::to_string(before) + " in row " + std::to_string(row));
      before = column;
    }
  }
  if (e != n_) Refuse(row_ptr.Name(site.out) + " is " + std::to_string(e) + ", must be the number of values, " + std::to_string(n_));
}

// Duplicates between neighbours are seen here, those of an unsorted list when it is sorted.
void SparseDeltaOverlay::CheckCoo(const vnr_site& site, const veneer::source& source) {
  const vnr_tensor& indices = source.get("indices");
  const Indices rows(indices, "indices", 0), columns(indices, "indices", 1);
  uint64_t row_before = 0, column_before = 0;
  for (uint64_t e = 0; e < n_; e++) {
    const uint64_t row = rows.at(e, site.out, kRowsOfSite), column = columns.at(e, site.in, kColumnsOfSite);
    if (e > 0 && row == row_before && column == column_before) RefuseTwins(e - 1, e, row, column);
    if (e > 0 && (row < row_before || (row == row_before && column < column_before))) form_ = Form::kUnsortedCoo;
    row_before = row;
    column_before = column;
  }
}

// The host has checked that the values are finite; their products with c need not be.
void SparseDeltaOverlay::CheckValues(const vnr_tensor& values) {
  bool has_value = false;
  for (uint64_t e = 0; e < n_; e++) {
    const float value = veneer::element(values, e);
    has_value = has_value || value != 0;
    if (!std::isfinite(scale_ * value))
      throw veneer::error{VNR_E_NUMERIC, "values[" + std::to_string(e) + "] is " + NumberText(static_cast<double>(value)) +
                                             ", times strength and scale (" + NumberText(static_cast<double>(scale_)) +
                                             ") it is not finite in f32"};
  }
  edits_ = scale_ != 0 && has_value;
}

// ---- stage ----

uint64_t SparseDeltaOverlay::resident_bytes(const vnr_site& site) const {
  return edits_ ? (site.out + 1) * sizeof(uint32_t) + (n_ + kPad) * (value_width() + column_width(site)) : 0;
}
uint64_t SparseDeltaOverlay::transient_bytes(const vnr_site&) const {
  return edits_ && form_ == Form::kUnsortedCoo ? n_ * sizeof(uint32_t) : 0;
}

// row_ptr_[r] = entries before row r.
void SparseDeltaOverlay::StageRows(const veneer::stager& stager) {
  const uint64_t out = stager.site->out;
  row_ptr_ = stager.alloc<uint32_t>(out + 1);
  if (form_ == Form::kCsr) {
    const Indices row_ptr(stager.get("row_ptr"), "row_ptr");
    for (uint64_t r = 0; r <= out; r++) row_ptr_[r] = static_cast<uint32_t>(row_ptr.at(r, n_ + 1, "the number of values"));
    return;
  }
  const Indices rows(stager.get("indices"), "indices", 0);
  std::memset(row_ptr_.data(), 0, (out + 1) * sizeof(uint32_t));
  for (uint64_t e = 0; e < n_; e++) {
    if (e % kPollEvery == 0) stager.poll();
    row_ptr_[rows.at(e, out, kRowsOfSite) + 1]++;
  }
  for (uint64_t r = 0; r < out; r++) row_ptr_[r + 1] += row_ptr_[r];
}

// The entries of an unsorted COO list by row and column: a counting sort by row, in which the starts of the rows move to their ends and
// back, then each row by column.
veneer::buf<uint32_t> SparseDeltaOverlay::Order(const veneer::stager& stager) {
  const vnr_site& site = *stager.site;
  const Indices rows(stager.get("indices"), "indices", 0), columns(stager.get("indices"), "indices", 1);
  veneer::buf<uint32_t> order = stager.alloc<uint32_t>(n_);
  for (uint64_t e = 0; e < n_; e++) {
    if (e % kPollEvery == 0) stager.poll();
    order[row_ptr_[rows.at(e, site.out, kRowsOfSite)]++] = static_cast<uint32_t>(e);
  }
  for (uint64_t r = site.out; r > 0; r--) row_ptr_[r] = row_ptr_[r - 1];
  row_ptr_[0] = 0;
  const auto column_of = [&](uint32_t e) { return columns.at(e, site.in, kColumnsOfSite); };
  for (uint64_t r = 0; r < site.out; r++) {
    uint32_t* const first = order.data() + row_ptr_[r];
    uint32_t* const last = order.data() + row_ptr_[r + 1];
    if (static_cast<uint64_t>(last - first) > site.in)  // and a bound for the time of one sort
      Refuse("row " + std::to_string(r) + " of indices has " + std::to_string(last - first) + " entries, the site has " +
             std::to_string(site.in) + " columns");
    stager.poll();
    std::sort(first, last, [&](uint32_t a, uint32_t b) { return std::pair(column_of(a), a) < std::pair(column_of(b), b); });
    const uint32_t* const twin = std::adjacent_find(first, last, [&](uint32_t a, uint32_t b) { return column_of(a) == column_of(b); });
    if (twin != last) RefuseTwins(twin[0], twin[1], r, column_of(twin[0]));
  }
  return order;
}

// Entry e of the rows is entry order[e] of the tensors; as it stands where the tensors are in order.
void SparseDeltaOverlay::StageEntries(const veneer::stager& stager) {
  const vnr_site& site = *stager.site;
  const uint64_t width = value_width();
  columns_ = stager.alloc<unsigned char>((n_ + kPad) * column_width(site));
  values_ = stager.alloc<unsigned char>((n_ + kPad) * width);
  std::memset(columns_.data(), 0, columns_.size());
  std::memset(values_.data(), 0, values_.size());
  veneer::buf<uint32_t> order;
  if (form_ == Form::kUnsortedCoo) order = Order(stager);
  const Indices columns = form_ == Form::kCsr ? Indices(stager.get("col_idx"), "col_idx") : Indices(stager.get("indices"), "indices", 1);
  const auto* from = static_cast<const unsigned char*>(stager.get("values").data);
  for (uint64_t e = 0; e < n_; e++) {
    if (e % kPollEvery == 0) stager.poll();
    const uint64_t source = order.size() == 0 ? e : order[e], column = columns.at(source, site.in, kColumnsOfSite);
    const auto narrow = static_cast<uint16_t>(column);
    const auto wide = static_cast<uint32_t>(column);
    if (has_wide_columns(site)) {
      std::memcpy(&columns_[e * sizeof wide], &wide, sizeof wide);
    } else {
      std::memcpy(&columns_[e * sizeof narrow], &narrow, sizeof narrow);
    }
    std::memcpy(&values_[e * width], from + source * width, width);
  }
}

veneer::program SparseDeltaOverlay::stage(const veneer::stager& stager) {
  veneer::program program;
  program.amplification = 1;
  program.flags = edits_ ? uint32_t{VNR_ADDS_Y} : 0U;
  if (!edits_) return program;
  StageRows(stager);
  StageEntries(stager);
  kernels_ = SelectKernels(dtype_, has_wide_columns(*stager.site), stager.host->cpu_features);
  program.lane_quantum = kGroup;
  if (kernels_.transpose == nullptr) return program;
  program.prepare_units = 1;
  program.prepared_bytes_per_token = PreparedBytes(stager.site->in);
  program.prepare_share_key = 1;  // it depends on x alone
  return program;
}

// ---- hot ----

void SparseDeltaOverlay::prepare(const vnr_site& site, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept {
  if (kernels_.transpose == nullptr || unit0 >= unit1) return;
  kernels_.transpose({io.x(0), io.raw->x_stride, site.in, io.T(), io.prepared<unsigned char>(0), io.raw->prepared_stride});
}

void SparseDeltaOverlay::apply(const vnr_site&, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  if (!edits_) return;
  kernels_.product({row_ptr_.data(), columns_.data(), values_.data(), scale_, io.x(0), io.raw->x_stride, io.prepared<unsigned char>(0),
                    io.raw->prepared_stride, io.y(0), io.raw->y_stride, io.T(), lane0, lane1});
}

// ---- weight space ----

uint64_t SparseDeltaOverlay::ColumnAt(const vnr_site& site, uint64_t entry) const {
  if (has_wide_columns(site)) return reinterpret_cast<const uint32_t*>(columns_.data())[entry];
  return reinterpret_cast<const uint16_t*>(columns_.data())[entry];
}

// In f64 and without the kernels, so that the two ways check each other.
void SparseDeltaOverlay::weight_row(const vnr_site& site, uint64_t row, float* w) const {
  if (!edits_) return;
  vnr_tensor values{};
  values.dtype = dtype_;
  values.data = values_.data();
  for (uint64_t e = row_ptr_[row]; e < row_ptr_[row + 1]; e++) {
    float& out = w[ColumnAt(site, e)];
    out = static_cast<float>(static_cast<double>(out) + static_cast<double>(scale_) * static_cast<double>(veneer::element(values, e)));
  }
}

std::string SparseDeltaOverlay::describe(const vnr_site& site) const {
  const double density = static_cast<double>(n_) / (static_cast<double>(site.out) * static_cast<double>(site.in));
  return "\"nnz\":" + std::to_string(n_) + ",\"density\":" + NumberText(density) + ",\"scale\":" + NumberText(static_cast<double>(scale_));
}

}  // namespace veneer_sparse_delta
