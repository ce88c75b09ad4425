#include "tests/support/vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

Matrix ReadNpy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto fail = [&path](const char* why) { throw std::runtime_error(path.string() + ": " + why); };
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0 || bytes[6] != 1) fail("not an NPY version 1 file");
  const std::size_t header = static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  const std::string text = bytes.substr(10, header);
  std::smatch shape;
  if (text.find("'<f4'") == std::string::npos || text.find("False") == std::string::npos ||
      !std::regex_search(text, shape, std::regex(R"(\((\d+), (\d+)\))")))
    fail("not little-endian float32 of two dimensions in C order");
  Matrix matrix;
  matrix.rows = std::stoull(shape[1]);
  matrix.cols = std::stoull(shape[2]);
  matrix.values.resize(matrix.rows * matrix.cols);
  if (bytes.size() != 10 + header + matrix.values.size() * sizeof(float)) fail("size does not match the shape");
  std::memcpy(matrix.values.data(), bytes.data() + 10 + header, matrix.values.size() * sizeof(float));
  return matrix;
}

std::vector<VectorCase> ReadVectors(const std::filesystem::path& folder) {
  std::ifstream file(folder / "index.json");
  const auto index = nlohmann::json::parse(file);
  std::vector<VectorCase> cases;
  for (const auto& entry : index) {
    if (!std::filesystem::exists(folder / entry.at("logits").get<std::string>())) continue;  // the repository holds a selection
    VectorCase& one = cases.emplace_back();
    one.name = entry.at("name");
    one.prompt = entry.at("prompt").get<std::vector<std::int32_t>>();
    one.greedy = entry.at("greedy").get<std::vector<std::int32_t>>();
    one.margins = entry.at("margins").get<std::vector<double>>();
    one.logit_std = entry.at("logit_std");
    one.logits = ReadNpy(folder / entry.at("logits").get<std::string>());
    for (const auto& adapter : entry.value("adapters", nlohmann::json::array()))
      one.adapters.emplace_back(adapter.at("name").get<std::string>(),
                                adapter.contains("merge_weight") ? adapter["merge_weight"].dump() : "1");
  }
  return cases;
}

std::string JoinTokens(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += (text.empty() ? "" : ",") + std::to_string(token);
  return text;
}

double MaxDifference(const Matrix& a, const Matrix& b) {
  if (a.rows != b.rows || a.cols != b.cols) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a.values[i]) - static_cast<double>(b.values[i]));
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
  }
  return worst;
}

double MeanKl(const Matrix& p, const Matrix& q) {
  double sum = 0;
  for (std::uint64_t row = 0; row < p.rows; ++row) {
    const float* a = &p.values[row * p.cols];
    const float* b = &q.values[row * q.cols];
    const auto log_sum = [&p](const float* v) {
      const double top = *std::max_element(v, v + p.cols);
      double total = 0;
      for (std::uint64_t i = 0; i < p.cols; ++i) total += std::exp(static_cast<double>(v[i]) - top);
      return top + std::log(total);
    };
    const double la = log_sum(a), lb = log_sum(b);
    for (std::uint64_t i = 0; i < p.cols; ++i) {
      const double log_p = static_cast<double>(a[i]) - la;
      sum += std::exp(log_p) * (log_p - (static_cast<double>(b[i]) - lb));
    }
  }
  return sum / static_cast<double>(p.rows);
}
