#include "tests/core/cli/captured.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>

#include "core/cli/command.h"

namespace {

// Puts a temporary file in the place of a stream's descriptor.
class Redirected {
 public:
  explicit Redirected(std::FILE* stream) : stream_(stream), file_(std::tmpfile()) {
    if (file_ == nullptr) throw std::runtime_error("no temporary file");
    std::fflush(stream_);
    saved_ = dup(fileno(stream_));
    dup2(fileno(file_), fileno(stream_));
  }
  ~Redirected() {
    Restore();
    std::fclose(file_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

  std::string Text() {
    Restore();
    std::string text;
    std::rewind(file_);
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), file_)) > 0;) text.append(buffer.data(), n);
    return text;
  }

 private:
  void Restore() {
    if (saved_ < 0) return;
    std::fflush(stream_);
    dup2(saved_, fileno(stream_));
    close(saved_);
    saved_ = -1;
  }
  std::FILE* stream_;
  std::FILE* file_;
  int saved_ = -1;
};

}  // namespace

Captured Capture(const std::function<int()>& body) {
  Redirected out(stdout), err(stderr);
  Captured captured;
  captured.status = body();
  captured.out = out.Text();
  captured.err = err.Text();
  return captured;
}

Captured RunCommand(const std::vector<std::string>& arguments) {
  return Capture([&arguments] { return veneer::cli::RunCommandLine(arguments); });
}
