// SPDX-License-Identifier: GPL-2.0-only
// The command cr_info: what it prints, and with which status it exits.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "image_sample.h"

namespace reprise::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Result {
  int status;
  std::string out;
};

Result cr_info(const std::string& arguments, const std::string& redirect = "2>&1") {
  Result result{};
  FILE* pipe = ::popen((CR_INFO " " + arguments + " " + redirect).c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.out.append(buffer.data(), got);
  result.status = WEXITSTATUS(::pclose(pipe));
  return result;
}

class CrInfo : public testing::Test {
 protected:
  const TempDir dir_;
  const std::string path_ = dir_.path("image");
  Sample sample_ = small_sample();

  void write() { sample_.write(path_); }
  void damage() {
    std::string bytes = read_file(path_);
    bytes[seal_of(bytes).pages_offset] ^= 1;
    write_file(path_, bytes);
  }
};

TEST_F(CrInfo, ShowsEverything) {
  write();
  const Result result = cr_info(path_);
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("4711 (sample)"), HasSubstr("--caf\\xe9"), HasSubstr("node\\xff"),
                                HasSubstr("all of it is as it was written")));
  EXPECT_THAT(result.out, HasSubstr("    4712 worker          futex"));
  EXPECT_THAT(result.out, HasSubstr("20000000-20008000          rw-p 00000000 00:00          0      16 kB  [heap]"));
  EXPECT_THAT(result.out, HasSubstr("    0 file      r            /tmp/log at 99 of 0"));
  EXPECT_THAT(result.out, HasSubstr("    1 file      r            the same as 0"));
  EXPECT_THAT(result.out, HasSubstr("11 bytes inside"));
  EXPECT_THAT(result.out, HasSubstr("handled: TERM"));
}

TEST_F(CrInfo, ShowsWhatIsAskedFor) {
  write();
  EXPECT_THAT(cr_info("--threads " + path_).out,
              AllOf(HasSubstr("futex"), Not(HasSubstr("[heap]")), Not(HasSubstr("Command"))));
  EXPECT_THAT(cr_info("--summary --descriptors " + path_).out,
              AllOf(HasSubstr("/tmp/log"), HasSubstr("Command"), Not(HasSubstr("[heap]"))));
}

TEST_F(CrInfo, DescribesDescriptors) {
  const auto add = [&](Description::Kind kind) {
    auto* descriptor = sample_.process.add_descriptors();
    descriptor->set_fd(100 + sample_.process.descriptions_size());
    descriptor->set_description(static_cast<unsigned>(sample_.process.descriptions_size()));
    auto* out = sample_.process.add_descriptions();
    out->set_kind(kind);
    return out;
  };
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(6379);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* socket = add(Description::SOCKET)->mutable_socket();
  socket->set_family(AF_INET);
  socket->set_type(SOCK_STREAM);
  socket->set_local(&address, sizeof address);
  socket->set_listening(true);
  socket->set_backlog(511);
  auto* unix_socket = add(Description::SOCKET)->mutable_socket();
  unix_socket->set_family(AF_UNIX);
  unix_socket->set_type(SOCK_DGRAM);
  unix_socket->set_local(std::string("\1\0\0abstract", 11));
  add(Description::EPOLL)->mutable_epoll()->add_entries()->set_fd(7);
  add(Description::EVENTFD)->mutable_eventfd()->set_count(42);
  add(Description::TIMERFD)->mutable_timerfd()->set_value_ns(2'500'000);
  add(Description::SIGNALFD)->mutable_signalfd()->set_mask(1 << 14);
  add(Description::INOTIFY)->mutable_inotify()->add_watches()->set_wd(1);
  auto* memfd = add(Description::MEMFD);
  memfd->set_shared_object(2);
  auto* object = sample_.process.add_shared_objects();
  object->set_kind(SharedObject::MEMFD);
  object->set_size(131072);
  memfd->mutable_file()->set_path("/memfd:buffer");
  auto* terminal = add(Description::TERMINAL);
  terminal->mutable_file()->set_path("/dev/pts/3\x1b[31m");  // must not reach the terminal
  terminal->mutable_terminal()->set_rows(24);
  terminal->mutable_terminal()->set_columns(80);
  write();
  const Result result = cr_info("--descriptors " + path_);
  EXPECT_EQ(result.status, 0);
  for (const char* text : {"ip stream 127.0.0.1:6379, listening (backlog 511)", "unix datagram @abstract", "watches 7",
                           "count 42", "due in 2.5 ms", "TERM", "/memfd:buffer, 131 kB", "/dev/pts/3\\x1b[31m, 80x24"})
    EXPECT_THAT(result.out, HasSubstr(text));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

TEST_F(CrInfo, Json) {
  write();
  const Result result = cr_info("--json " + path_);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\"page_bytes\": 45056"), HasSubstr("\"content\": true"), HasSubstr("\"pid\": 4711"),
                    HasSubstr("\"system_call\": \"futex\""), HasSubstr("\"saved_bytes\": 16384"),
                    HasSubstr("\"kind\": \"PIPE\""), HasSubstr("\"content\": \"696e207468652070697065\"")));
  if (std::system("python3 -c '' 2>/dev/null") == 0) {
    EXPECT_EQ(std::system((CR_INFO " --json " + path_ + " | python3 -m json.tool >/dev/null").c_str()), 0);
  }
  EXPECT_THAT(cr_info("--json --no-verify " + path_).out, HasSubstr("\"content\": null"));
}

TEST_F(CrInfo, Damage) {
  write();
  damage();
  Result result = cr_info(path_);
  EXPECT_EQ(result.status, 5);
  EXPECT_THAT(result.out, AllOf(HasSubstr("DAMAGED"), HasSubstr("page 10001000"), HasSubstr("4711 (sample)")));
  result = cr_info("--json " + path_);
  EXPECT_EQ(result.status, 5);
  EXPECT_THAT(result.out, HasSubstr("\"content\": false"));
  EXPECT_EQ(cr_info("--no-verify " + path_).status, 0);
  write_file(path_, read_file(path_).substr(0, 9000));
  result = cr_info(path_);
  EXPECT_EQ(result.status, 5);
  EXPECT_THAT(result.out, HasSubstr("cut short"));
  result = cr_info("--json " + path_, "2>/dev/null");
  EXPECT_EQ(result.status, 5);
  EXPECT_THAT(result.out, HasSubstr("\"kind\":\"permanent\""));
}

TEST_F(CrInfo, Usage) {
  EXPECT_EQ(cr_info("").status, 2);
  EXPECT_EQ(cr_info("--nonsense x").status, 2);
  EXPECT_EQ(cr_info(dir_.path("nothing")).status, 2);
  EXPECT_EQ(cr_info(dir_.path()).status, 2);
  const Result help = cr_info("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--json"), HasSubstr("Exit status"), Not(HasSubstr("{")), HasSubstr("gdb PROGRAM IMAGE")));
}

}  // namespace
}  // namespace reprise::test
