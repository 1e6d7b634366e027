// SPDX-License-Identifier: GPL-2.0-only
// make_seeds DIR [IMAGE…]: makes seeds for the fuzz targets, in a directory of DIR for each target: synthetic images, the
// given real images reduced to a few pages, rollback cases, lives of jobs.
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

#include "image/reader.h"
#include "image_sample.h"
#include "rollback_case.pb.h"
#include "seeds.h"

using namespace reprise;
using namespace reprise::test;

namespace {

constexpr std::size_t kPages = 8;

void save_rollbacks(const Sample& sample, const std::string& dir, const std::string& name);

void save(const Sample& sample, const std::string& dir, const std::string& name) {
  sample.write(dir + "/image/" + name);
  write_file(dir + "/state/" + name, sample.process.SerializeAsString());
  save_rollbacks(sample, dir, name);
}

// A pause that finds everything unchanged, one that finds everything changed, and restarts.
void save_rollbacks(const Sample& sample, const std::string& dir, const std::string& name) {
  fuzz::RollbackCase one;
  *one.mutable_state() = sample.process;
  one.set_blob(sample.blob.substr(0, 20'000));
  for (const cr_range& run : sample.runs) {
    auto& saved = *one.add_runs();
    saved.set_addr(run.addr);
    saved.set_pages(static_cast<std::uint32_t>(run.len / image::kPage - 1) % 16);
  }
  for (const ThreadRegs& regs : sample.regs) {
    auto& saved = *one.add_registers();
    saved.set_orig_rax(static_cast<std::int64_t>(regs.regs.orig_rax));
    saved.set_rax(static_cast<std::int64_t>(regs.regs.rax));
    saved.set_rip(regs.regs.rip);
    saved.set_rsp(regs.regs.rsp);
  }
  const auto put = [&](const char* how) { write_file(dir + "/rollback/" + name + "-" + how, one.SerializeAsString()); };
  put("same");
  one.set_tracked(true);
  put("tracked");
  one.set_tracked(false);
  for (std::uint32_t i = 0; i < 16; ++i) one.add_mappings(i), one.add_threads(i), one.add_descriptors(i);
  one.add_extra_threads(1);
  one.add_extra_descriptors(9);
  auto& extra = *one.add_extra();
  extra.set_start(0x5000'0000);
  extra.set_flags(CR_VMA_READ | CR_VMA_PAGES);
  one.set_capabilities(~0ULL);
  put("changed");
  one.clear_mappings();
  one.set_restart(true);
  one.set_dead_sockets(true);
  put("restart");
  one.set_no_files(true);
  put("restart-without-files");
  one.set_no_files(false);
  for (int i = 0; i < 16; ++i) one.add_mappings(64);  // moves the vdso
  put("restart-vdso");
  one.set_new_pid(true);
  one.set_other_boot(true);
  put("restart-elsewhere");
  auto& fault = *one.add_faults();
  fault.set_call(20);
  put("fault");
}

// The same process with a few of its pages and without its shared content.
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
  for (const char* name : {"image", "state", "rollback", "coordinator", "daemon", "files"})
    std::filesystem::create_directories(dir + "/" + name);
#ifdef REPRISE_FUZZ_JOB
  save_jobs(dir);
#endif
  Sample sample = small_sample();
  save(sample, dir, "small");
  for (const char* const method : {"lz4", "zstd"}) {
    ImageWriter writer(dir + "/image/" + method, {.clobber = true, .sync = false, .compression = Compression::parse(method)});
    sample.write(writer);
  }
  Sample delta = sample;
  Base& base = *delta.process.add_bases();
  base.set_name("base.img");
  base.set_checksum(1);
  for (const std::uint64_t number : {0x20000, 4, 0, 7}) delta.process.add_base_runs(number);
  save(delta, dir, "delta");
  sample.runs.clear();
  save(sample, dir, "no-pages");
  sample.blob.clear();
  sample.process.mutable_shared_objects(0)->clear_extents();
  auto* memfd = sample.process.add_shared_objects();
  memfd->set_kind(SharedObject::MEMFD);
  memfd->mutable_file()->set_path("/memfd:name");
  memfd->mutable_file()->set_ino(Description::MEMFD);
  memfd->mutable_file()->set_mode(S_IFREG | 0600);
  for (int kind = Description::REGULAR; kind <= Description::OTHER; ++kind) {
    auto* one = sample.process.add_descriptions();
    one->set_kind(static_cast<Description::Kind>(kind));
    one->mutable_epoll()->add_entries()->set_fd(kind);
    one->mutable_inotify()->add_watches()->set_wd(1);
    one->mutable_socket()->add_options()->set_value("option");
    one->mutable_terminal()->set_termios("termios");
    if (kind == Description::MEMFD) one->set_shared_object(static_cast<std::uint32_t>(sample.process.shared_objects_size()));
    one->set_serial(static_cast<std::uint64_t>(kind));
    one->mutable_file()->set_path("/tmp/" + std::to_string(kind));
    one->mutable_file()->set_ino(static_cast<std::uint64_t>(kind));
    one->mutable_file()->set_mode((kind == Description::SOCKET ? S_IFSOCK : kind == Description::PIPE ? S_IFIFO : S_IFREG) | 0600);
    one->set_owner_pid(sample.process.pid());
    one->mutable_socket()->set_family(1);  // AF_UNIX
    one->mutable_socket()->set_type(1);
    one->mutable_socket()->set_listening(true);
    one->mutable_inotify()->mutable_watches(0)->set_path("/tmp/" + std::to_string(kind));
    if (kind == Description::OTHER) continue;  // refused
    auto* descriptor = sample.process.add_descriptors();
    descriptor->set_fd(20 + kind);
    descriptor->set_description(static_cast<std::uint32_t>(sample.process.descriptions_size()) - 1);
  }
  auto* timer = sample.process.mutable_timers()->add_posix();
  timer->set_notify(4);
  timer->set_tid(4712);
  sample.process.mutable_timers()->add_itimers()->set_value_ns(5);
  sample.process.mutable_env()->add_limits()->set_resource(7);
  sample.process.add_pending()->set_siginfo(std::string(1, '\2') + std::string(127, '\0'));
  auto& env = *sample.process.mutable_env();
  for (int i = 0; i < 4; ++i) env.add_uids(1000), env.add_gids(1000);
  env.add_groups(1000);
  save(sample, dir, "everything");

  // A file that must be made again, with mode bits beyond its permissions; a vdso at another address.
  Sample files = small_sample();
  auto* object = files.process.add_shared_objects();
  object->set_kind(SharedObject::FILE);
  object->set_size(100);
  object->mutable_file()->set_path("/tmp/shared");
  object->mutable_file()->set_ino(5);
  auto* extent = object->add_extents();
  extent->set_length(100);
  auto* stack = files.process.mutable_mappings(files.process.mappings_size() - 1);
  const Mapping last = *stack;
  stack->Clear();
  stack->set_start(0x40000000);
  stack->set_end(0x40001000);
  stack->set_flags(CR_VMA_READ | CR_VMA_WRITE | CR_VMA_MAYWRITE | CR_VMA_SHARED | CR_VMA_FILE);
  stack->set_shared_object(2);
  *stack->mutable_file() = object->file();
  stack->mutable_file()->set_mode(S_IFREG | 06755);
  auto* vdso = files.process.add_mappings();
  vdso->set_start(0x7ffc00000000);
  vdso->set_end(0x7ffc00002000);
  vdso->set_flags(CR_VMA_READ | CR_VMA_EXEC | CR_VMA_SPECIAL);
  *files.process.add_mappings() = last;
  for (Mapping& mapping : *files.process.mutable_mappings())
    if (mapping.has_file() && !mapping.shared_object()) mapping.clear_file(), mapping.set_flags(mapping.flags() & ~std::uint64_t{CR_VMA_FILE});
  save(files, dir, "files");
  for (int i = 2; i < argc; ++i) save(cut_down(Image::open(argv[i])), dir, "real-" + std::to_string(i - 1));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_seeds: %s\n", error.what());
  return 1;
}
