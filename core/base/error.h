// One error type for the whole engine: a stable code, the place, and a sentence with the value and the remedy.
#ifndef VENEER_CORE_BASE_ERROR_H_
#define VENEER_CORE_BASE_ERROR_H_

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace veneer {

// Stable codes; the hundreds are the class: 1 input, 2 schema, 3 integrity, 4 compatibility, 5 resources, 6 store,
// 7 trust, 8 carriers, 9 command line and our own bugs. Numbers and names never change meaning.
#define VENEER_CODES(X)                                                                                     \
  X(101, INPUT_TOO_LARGE) X(102, NOT_UTF8) X(103, SYNTAX) X(104, DEPTH) X(105, DUPLICATE_KEY)               \
  X(106, TOO_MANY_ITEMS) X(107, NUMBER_FORM)                                                                \
  X(201, SCHEMA_UNKNOWN) X(202, FIELD_UNKNOWN) X(203, FIELD_MISSING) X(204, FIELD_TYPE)                     \
  X(205, NAME_INVALID) X(206, NAME_DUPLICATE) X(207, LOAD_ORDER) X(208, WEIGHT_INVALID)                     \
  X(209, DIGEST_FORM) X(210, DIGEST_ALGORITHM) X(211, TIMESTAMP_INVALID) X(212, NOT_CANONICAL)              \
  X(213, VALUE_UNKNOWN) X(214, LIMIT) X(215, ADAPTER_DUPLICATE) X(216, REPLACE_CONFLICT)                    \
  X(301, BLOB_MISSING) X(302, SIZE_MISMATCH) X(303, HASH_MISMATCH) X(304, BLOB_NOT_REGULAR)                 \
  X(305, BLOB_CHANGED) X(306, IDENTITY_MISMATCH)                                                            \
  X(401, FORMAT_UNSUPPORTED) X(402, HEADER_CORRUPT) X(403, TENSOR_BOUNDS) X(404, SHAPE_MISMATCH)            \
  X(405, TARGET_UNKNOWN) X(406, RANK_MISMATCH) X(407, TOKENIZER_MISMATCH) X(408, QUANT_MISMATCH)            \
  X(409, TIED_WEIGHTS) X(410, ENDIANNESS) X(411, NOT_FINITE) X(412, SPARSITY_MISMATCH)                      \
  X(413, RUNTIME_UNSUPPORTED) X(414, BASE_MISMATCH) X(415, KIND_UNKNOWN) X(416, PLUGIN_REFUSED)             \
  X(417, PLUGIN_FAULT) X(418, BASE_CHANGED_BY_INIT) X(419, TENSOR_UNMATCHED) X(420, NOTHING_MATCHED)        \
  X(501, MEMORY_BUDGET) X(502, DISK_FULL) X(503, FD_LIMIT) X(504, OUT_OF_MEMORY) X(505, CONTEXT_FULL)       \
  X(601, LOCKED) X(602, STATE_CORRUPT) X(603, IO) X(604, DURABILITY_UNKNOWN) X(605, NO_ACTIVE)              \
  X(606, NO_ROLLBACK_TARGET) X(607, STORE_FORMAT) X(608, FS_UNSUPPORTED) X(609, STORE_PERMISSIONS)          \
  X(610, AUDIT_UNAVAILABLE) X(611, AUDIT_CHAIN) X(612, GENERATION_REGRESSED) X(613, EXPECTED_CURRENT)       \
  X(614, HANDLE_CLOSED) X(615, BUSY) X(616, COMPOSITION_CHANGED)                                            \
  X(701, SIGNATURE_MISSING) X(702, SIGNATURE_INVALID) X(703, KEY_UNKNOWN) X(704, KEY_REVOKED)               \
  X(705, THRESHOLD) X(706, EXPIRED) X(707, SEQUENCE) X(708, POLICY_DENIED) X(709, ENVELOPE)                 \
  X(710, TRUST_STORE)                                                                                       \
  X(901, USAGE) X(902, INTERNAL)

enum class Code : std::uint16_t {
#define VENEER_CODE_ENUM(number, name) name = number,
  VENEER_CODES(VENEER_CODE_ENUM)
#undef VENEER_CODE_ENUM
};

// "HASH_MISMATCH" for Code::HASH_MISMATCH.
std::string_view CodeName(Code code);

struct Error {
  Code code;
  std::string at;      // JSON pointer, file, tensor or site; stable
  std::string detail;  // the value found, what is allowed, and what to do; not stable

  // The same error seen from one level up: `outer` goes in front of `at`. JSON pointers are joined as they are,
  // anything else with ": ".
  [[nodiscard]] Error Within(std::string_view outer) &&;

  // "E303 HASH_MISMATCH at=/adapters/1/file_hash file is sha256:…, manifest says sha256:…"
  [[nodiscard]] std::string Text() const;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

[[nodiscard]] inline std::unexpected<Error> Fail(Code code, std::string at, std::string detail) {
  return std::unexpected(Error{code, std::move(at), std::move(detail)});
}
[[nodiscard]] inline std::unexpected<Error> Fail(Error error) { return std::unexpected(std::move(error)); }

// VENEER_TRY(expression);                returns the error of a Status to the caller.
// VENEER_ASSIGN(auto x, expression);     the same for a Result<T>, else moves its value into x.
#define VENEER_TRY(expression)                                                       \
  do {                                                                               \
    if (auto veneer_status = (expression); !veneer_status)                           \
      return ::std::unexpected(::std::move(veneer_status).error());                  \
  } while (false)
#define VENEER_CONCAT_(a, b) a##b
#define VENEER_CONCAT(a, b) VENEER_CONCAT_(a, b)
#define VENEER_ASSIGN_(temporary, declaration, expression)                           \
  auto temporary = (expression);                                                     \
  if (!temporary) return ::std::unexpected(::std::move(temporary).error());          \
  declaration = *::std::move(temporary)
#define VENEER_ASSIGN(declaration, ...) \
  VENEER_ASSIGN_(VENEER_CONCAT(veneer_result_, __LINE__), declaration, (__VA_ARGS__))

}  // namespace veneer

#endif  // VENEER_CORE_BASE_ERROR_H_
