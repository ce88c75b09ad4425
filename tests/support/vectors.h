// Golden vectors: cases with a prompt, a stack of adapters, logits and greedy tokens made by an independent implementation.
#ifndef VENEER_TESTS_SUPPORT_VECTORS_H_
#define VENEER_TESTS_SUPPORT_VECTORS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

struct Matrix {
  std::uint64_t rows = 0, cols = 0;
  std::vector<float> values;
};

// A little-endian float32 NPY file of two dimensions. Throws on anything else.
Matrix ReadNpy(const std::filesystem::path& path);

struct VectorCase {
  std::string name;
  std::vector<std::int32_t> prompt, greedy;
  std::vector<std::pair<std::string, std::string>> adapters;  // name, strength
  std::vector<double> margins;                                // top-2 logit margin at each greedy step
  double logit_std = 0;
  Matrix logits;  // [prompt, vocab]

  [[nodiscard]] double tolerance() const { return 5e-4 * logit_std + 1e-4; }
};

std::vector<VectorCase> ReadVectors(const std::filesystem::path& folder);

std::string JoinTokens(const std::vector<std::int32_t>& tokens);  // "1,2,3"

double MaxDifference(const Matrix& a, const Matrix& b);
// Mean over rows of KL(softmax(p) || softmax(q)), nats.
double MeanKl(const Matrix& p, const Matrix& q);

#endif  // VENEER_TESTS_SUPPORT_VECTORS_H_
