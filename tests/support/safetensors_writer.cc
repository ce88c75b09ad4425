#include "tests/support/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

void SafetensorsWriter::Set(const std::string& name, const std::string& dtype, const std::vector<std::uint64_t>& shape, std::string bytes) {
  Remove(name);
  tensors_.push_back({name, dtype, shape, std::move(bytes)});
}

void SafetensorsWriter::SetF32(const std::string& name, const std::vector<std::uint64_t>& shape, std::span<const float> values) {
  std::string bytes(values.size_bytes(), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  Set(name, "F32", shape, std::move(bytes));
}

void SafetensorsWriter::Fill(const std::string& name, const std::vector<std::uint64_t>& shape, float value) {
  std::uint64_t n = 1;
  for (const std::uint64_t dim : shape) n *= dim;
  SetF32(name, shape, std::vector<float>(n, value));
}

void SafetensorsWriter::Remove(const std::string& name) {
  std::erase_if(tensors_, [&name](const Tensor& tensor) { return tensor.name == name; });
}

void SafetensorsWriter::Rename(const std::string& from, const std::string& to) {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&from](const Tensor& tensor) { return tensor.name == from; });
  if (found == tensors_.end()) throw std::runtime_error("no tensor " + from);
  found->name = to;
}

std::vector<std::string> SafetensorsWriter::Names() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors_) names.push_back(tensor.name);
  return names;
}

std::string SafetensorsWriter::Bytes() const {
  std::string header = "{\"__metadata__\":{", data;
  for (const auto& [key, value] : metadata_) header += (header.back() == '{' ? "" : ",") + Quoted(key) + ":" + Quoted(value);
  header += metadata_.empty() ? R"("format":"pt"})" : "}";
  for (const Tensor& tensor : tensors_) {
    header += ",\"" + tensor.name + R"(":{"dtype":")" + tensor.dtype + R"(","shape":[)";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) header += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data += tensor.bytes;
    header += std::to_string(data.size()) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(length.data(), &size, 8);  // little-endian, as the machine is
  return length + header + data;
}
