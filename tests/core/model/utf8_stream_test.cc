#include <string>

#include "core/model/tokenizer.h"
#include "tests/support/catch.h"

namespace veneer {
namespace {

TEST_CASE("utf8 stream: a text cut anywhere comes out whole, and never in parts of a character") {
  const std::string text = "a\xC3\xA9\xE2\x96\x81\xF0\x9F\x98\x80z";
  for (std::size_t first = 0; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second) {
      Utf8Stream stream;
      std::string out;
      for (const std::string& piece : {text.substr(0, first), text.substr(first, second - first), text.substr(second)}) {
        out += stream.Push(piece);
        CHECK((out.empty() || text.starts_with(out)));
      }
      CHECK(out + stream.Finish() == text);
    }
}

TEST_CASE("utf8 stream: bytes that can never become valid are replaced at once") {
  Utf8Stream stream;
  CHECK(stream.Push("a\xFF") == "a\xEF\xBF\xBD");
  CHECK(stream.Push("\xE2\x96") == "");
  CHECK(stream.Push("b") ==
        "\xEF\xBF\xBD"
        "b");  // one for the whole cut sequence (Unicode 15, section 3.9)
  CHECK(stream.Push("\xC0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(stream.Push("\xED\xA0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("utf8 stream: what is unfinished at the end is replaced once") {
  Utf8Stream stream;
  CHECK(stream.Push("\xF0\x9F\x98") == "");
  CHECK(stream.Finish() == "\xEF\xBF\xBD");
  CHECK(stream.Finish() == "");
}

}  // namespace
}  // namespace veneer
