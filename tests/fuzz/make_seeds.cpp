// SPDX-License-Identifier: GPL-2.0-only
// make_seeds DIR [IMAGE…]: seeds for the fuzz targets in DIR/image and DIR/state:
// made-up images, and the given real ones cut down to a few pages.
#include <cstdio>
#include <filesystem>

#include "image/reader.h"
#include "image_sample.h"

using namespace reprise;
using namespace reprise::test;

namespace {

constexpr std::size_t kPages = 8;

void save(const Sample& sample, const std::string& dir, const std::string& name) {
  sample.write(dir + "/image/" + name);
  write_file(dir + "/state/" + name, sample.process.SerializeAsString());
}

// The same process with a few of its pages and none of its shared content.
Sample cut_down(const Image& image) {
  Sample out;
  out.process = image.process();
  out.regs = image.threads();
  for (auto& object : *out.process.mutable_shared_objects()) object.clear_extents();
  for (const auto& run : image.runs())
    if (out.runs.size() < kPages) out.runs.push_back({run.addr, image::kPage});
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: make_seeds DIR [IMAGE...]\n");
    return 2;
  }
  const std::string dir = argv[1];
  std::filesystem::create_directories(dir + "/image");
  std::filesystem::create_directories(dir + "/state");
  Sample sample = small_sample();
  save(sample, dir, "small");
  sample.runs.clear();
  save(sample, dir, "no-pages");
  sample.blob.clear();
  sample.process.mutable_shared_objects(0)->clear_extents();
  for (int kind = Description::REGULAR; kind <= Description::OTHER; ++kind) {
    auto* one = sample.process.add_descriptions();
    one->set_kind(static_cast<Description::Kind>(kind));
    one->mutable_epoll()->add_entries()->set_fd(kind);
    one->mutable_inotify()->add_watches()->set_wd(1);
    one->mutable_socket()->add_options()->set_value("option");
    one->mutable_terminal()->set_termios("termios");
    one->set_shared_object(1);
  }
  auto* timer = sample.process.mutable_timers()->add_posix();
  timer->set_notify(4);
  timer->set_tid(4712);
  sample.process.mutable_timers()->add_itimers()->set_value_ns(5);
  sample.process.mutable_env()->add_limits()->set_resource(7);
  sample.process.add_pending()->set_siginfo(std::string(1, '\2') + std::string(127, '\0'));
  save(sample, dir, "everything");
  for (int i = 2; i < argc; ++i) save(cut_down(Image::open(argv[i])), dir, "real-" + std::to_string(i - 1));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_seeds: %s\n", error.what());
  return 1;
}
