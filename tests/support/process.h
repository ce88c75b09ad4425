// Runs the built program as users do and returns what it printed.
#ifndef VENEER_TESTS_SUPPORT_PROCESS_H_
#define VENEER_TESTS_SUPPORT_PROCESS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct ProcessResult {
  int status = -1;  // exit status; 128 + signal when killed
  std::string out, err;
  // The most memory that was resident at once (getrusage(2), ru_maxrss), never less than OwnPeakBytes(): the kernel counts from the fork.
  std::uint64_t peak_bytes = 0;
};

// The most that this process had resident since it was executed; what it was forked from does not count. A program that takes less
// cannot be measured.
std::uint64_t OwnPeakBytes();

// argv[0] is the program. Standard input is `input`. `environment` holds NAME=VALUE pairs on top of the inherited ones.
ProcessResult RunProcess(const std::vector<std::string>& argv, const std::string& input = "",
                         const std::vector<std::string>& environment = {});

// The veneer program of this build tree.
ProcessResult Veneer(const std::vector<std::string>& arguments, const std::string& input = "");

// The veneer program while it runs: fed and read line by line. Killed when it is destroyed before its end.
class LiveVeneer {
 public:
  explicit LiveVeneer(const std::vector<std::string>& arguments);
  ~LiveVeneer();
  LiveVeneer(const LiveVeneer&) = delete;
  LiveVeneer& operator=(const LiveVeneer&) = delete;

  void Write(const std::string& text);
  // The next line of standard output or of standard error, without its end; throws when it does not come within a minute.
  std::string ReadLine();
  std::string ReadErrorLine();
  // At most `n` bytes of standard output, at least one; nothing at its end.
  std::string Read(std::size_t n);
  void Signal(int signal) const;
  // Closes its standard input, reads what is left into `out` and `err`, and waits.
  ProcessResult Finish();

 private:
  struct Stream {
    int fd = -1;
    std::string held;
  };
  static std::string LineOf(Stream& stream);
  int child_ = -1, in_ = -1;
  Stream out_, err_;
};

#endif  // VENEER_TESTS_SUPPORT_PROCESS_H_
