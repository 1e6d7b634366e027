// SPDX-License-Identifier: GPL-2.0-only
// What it costs to copy an image from another daemon, as a whole and step by step, over the loopback:
//   copy_steps [MEGABYTES [ROUNDS]]
// Prints nanoseconds per kilobyte, of the medians of the rounds. In a guest whose clock counts instructions, these are instructions.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "crd/images/copying.h"
#include "crd/images/secure_stream.h"
#include "crd/images/server.h"
#include "crd/images/sources.h"
#include "image/writer.h"
#include "image_sample.h"
#include "job/files.h"
#include "job/names.h"

using namespace reprise;
using namespace reprise::crd;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPiece = kPieceBytes;

/** An image of wave 1, rank 0, with so many bytes of pages that differ. */
std::string make_image(const std::string& directory, std::uint64_t bytes) {
  const std::string path = job::image_path(directory, 1, 0);
  fs::create_directories(fs::path(path).parent_path());
  test::Sample sample = test::small_sample();
  cr_range& last = sample.runs.back();
  last.len = bytes;
  sample.process.mutable_mappings(sample.process.mappings_size() - 1)->set_end(last.addr + last.len);
  ImageWriter writer(path);
  writer.begin(sample.process, sample.regs, sample.runs);
  std::vector<char> page(image::kPage);
  std::uint64_t state = 1;
  for (const cr_range& run : sample.runs)
    for (std::uint64_t at = 0; at < run.len; at += image::kPage) {
      for (char& byte : page) byte = static_cast<char>((state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 56);
      writer.write_pages(run.addr + at, page.data(), page.size());
    }
  writer.write_blob(0, sample.blob.data(), sample.blob.size());
  writer.finish();
  Manifest manifest;
  manifest.wave = 1;
  describe(Image::open(path), manifest);
  job::write_atomically(job::manifest_path(path), manifest_text(manifest));
  return path;
}

/** Two ends of a connection over the loopback. */
std::pair<UniqueFd, UniqueFd> connection() {
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof own;
  UniqueFd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listening.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) || ::listen(listening.get(), 1) ||
      ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&own), &length) ||
      ::connect(one.get(), reinterpret_cast<sockaddr*>(&own), length))
    job::throw_errno("no connection");
  UniqueFd other(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return {std::move(one), std::move(other)};
}

/** Pieces from one thread to another, with TLS or without. */
void send_pieces(std::uint64_t bytes, bool encrypted) {
  auto [out, in] = connection();
  const Patience patience{std::chrono::seconds(60), nullptr};
  std::thread sender([&, fd = std::move(out)]() mutable {
    std::vector<char> data(kPiece);
    if (!encrypted) {
      for (std::uint64_t done = 0; done < bytes;) done += static_cast<std::uint64_t>(std::max<ssize_t>(::write(fd.get(), data.data(), kPiece), 0));
      return;
    }
    SecureStream stream(std::move(fd), SecureStream::Side::server, "of the job");
    stream.handshake(patience);
    for (std::uint64_t done = 0; done < bytes; done += kPiece) stream.write(data, patience);
  });
  std::vector<char> data(kPiece);
  if (encrypted) {
    SecureStream stream(std::move(in), SecureStream::Side::reader, "of the job");
    stream.handshake(patience);
    for (std::uint64_t done = 0; done < bytes; done += kPiece) stream.read(data, patience);
  } else {
    while (::read(in.get(), data.data(), kPiece) > 0) {
    }
  }
  sender.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64) << 20;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  char name[] = "/tmp/copy-steps-XXXXXX";
  const std::string directory = ::mkdtemp(name), from = directory + "/from", to = job::image_path(directory + "/to", 1, 0);
  fs::create_directories(fs::path(to).parent_path());
  const std::string path = make_image(from, bytes);
  const Image image = Image::open(path);
  const WholeImage whole(image);
  const std::string secret = "of the job";
  ImageServer server(from, secret);
  Readers readers;
  readers.secret = secret;
  job::ImageSource source;
  source.mutable_from()->add_endpoints("tcp://127.0.0.1:" + std::to_string(server.port()));
  job::StoredImage& stored = *source.add_images();
  stored.set_wave(1);
  stored.set_bytes(whole.file_size());
  stored.set_checksum(whole.checksum());
  std::vector<char> buffer(kPiece);
  const UniqueFd file(::open(path.c_str(), O_RDONLY));
  const auto pieces = [&](const std::function<void(std::uint64_t at, std::size_t len)>& use) {
    for (std::uint64_t at = 0; at < whole.file_size(); at += kPiece) use(at, std::min<std::uint64_t>(kPiece, whole.file_size() - at));
  };
  const std::string written = directory + "/written";
  const std::vector<std::pair<const char*, std::function<void()>>> steps = {
      {"copy of the image", [&] {
         fs::remove(to);
         Sources(readers, {source}, 1).copy(0, to, Sources::Form::whole, {});
       }},
      {"read", [&] { pieces([&](std::uint64_t at, std::size_t len) { read_piece(file.get(), at, {buffer.data(), len}, path); }); }},
      {"read and verify", [&] { pieces([&](std::uint64_t at, std::size_t len) { whole.read(at, buffer.data(), len); }); }},
      {"send and receive", [&] { send_pieces(whole.file_size(), false); }},
      {"send and receive, encrypted", [&] { send_pieces(whole.file_size(), true); }},
      {"write", [&] {
         const UniqueFd out(::open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
         pieces([&](std::uint64_t at, std::size_t len) { write_piece(out.get(), at, buffer.data(), len, written); });
         ::fsync(out.get());
       }},
      {"verify", [&] { Image::open(path).verify_all(1); }},
  };
  for (const auto& [what, step] : steps) {
    std::vector<double> took;
    for (int round = 0; round < rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      step();
      took.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(took.begin(), took.end());
    std::printf("%-30s %7.0f ns/KB %7.0f MB/s\n", what, took[took.size() / 2] / (static_cast<double>(whole.file_size()) / 1000),
                static_cast<double>(whole.file_size()) * 1000 / took[took.size() / 2]);
    std::fflush(stdout);
  }
  fs::remove_all(directory);
  return 0;
}
