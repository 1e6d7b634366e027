// SPDX-License-Identifier: GPL-2.0-only
#include "image_sample.h"

#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>

#include "base/error.h"
#include "image/notes.h"
#include "image/tail.h"

namespace reprise::test {

namespace fs = std::filesystem;

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "reprise-unit-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary directory");
  dir_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(dir_, ignored);
}

std::vector<std::string> TempDir::entries() const {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(dir_)) out.push_back(entry.path().filename());
  return out;
}

std::string Sample::page(std::uint64_t addr) {
  std::string out(image::kPage, '\0');
  if (addr / image::kPage % 4 == 3) return out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>((addr >> 12) * 31 + i * 7 + (i >> 8));
  return out;
}

void Sample::write(ImageWriter& writer) const {
  writer.begin(process, regs, runs);
  for (const auto& run : runs)
    for (std::uint64_t at = 0; at < run.len; at += image::kPage)
      writer.write_pages(run.addr + at, page(run.addr + at).data(), image::kPage);
  writer.write_blob(0, blob.data(), blob.size());
  writer.finish();
}

void Sample::write(const std::string& path) const {
  ImageWriter writer(path, {.clobber = true, .sync = false});
  write(writer);
}

namespace {

Mapping* add_mapping(Process& process, std::uint64_t start, std::uint64_t pages, std::uint64_t flags) {
  auto* out = process.add_mappings();
  out->set_start(start);
  out->set_end(start + pages * image::kPage);
  out->set_flags(flags);
  return out;
}

void add_thread(Sample& sample, int tid, const char* name) {
  auto* thread = sample.process.add_threads();
  thread->set_tid(tid);
  thread->set_comm(name);
  thread->set_blocked(0x10000);
  thread->set_rseq_addr(0x20000100);
  thread->set_rseq_len(32);
  thread->set_syscall(202);
  ThreadRegs regs;
  regs.tid = tid;
  regs.regs.rip = 0x10000040 + static_cast<unsigned>(tid);
  regs.regs.rsp = 0x7ffd00001000;
  regs.regs.orig_rax = 202;
  regs.regs.rax = static_cast<unsigned long long>(-512);
  regs.regs.cs = 0x33;
  regs.regs.ss = 0x2b;
  regs.fpregs.assign(image::kFpregsSize, static_cast<char>(tid));
  regs.xstate.assign(832, static_cast<char>(tid + 1));
  sample.regs.push_back(regs);
}

}  // namespace

Sample small_sample() {
  Sample out;
  auto& process = out.process;
  process.set_format(image::kStateFormat);
  process.set_id("0123456789abcdef");
  process.set_taken_unix_ns(1700000000000000000);
  process.mutable_host()->set_nodename("node\xff");  // names need not be UTF-8
  process.set_pid(4711);
  process.set_ppid(1);
  process.set_comm("sample");
  process.mutable_exe()->set_path("/usr/bin/sample");
  process.add_cmdline("sample");
  process.add_cmdline("--caf\xe9");
  add_thread(out, 4711, "sample");
  add_thread(out, 4712, "worker");

  const std::uint64_t rw = CR_VMA_READ | CR_VMA_WRITE;
  auto* text = add_mapping(process, 0x10000000, 4, CR_VMA_READ | CR_VMA_EXEC | CR_VMA_FILE | CR_VMA_PAGES);
  text->mutable_file()->set_path("/usr/bin/sample");
  add_mapping(process, 0x20000000, 8, rw | CR_VMA_PAGES)->set_name("[heap]");
  add_mapping(process, 0x20008000, 2, CR_VMA_READ | CR_VMA_PAGES);  // adjacent, other protection
  auto* shared = add_mapping(process, 0x30000000, 32, rw | CR_VMA_SHARED | CR_VMA_FILE | CR_VMA_SHMEM);
  shared->set_shared_object(1);
  shared->mutable_file()->set_path("/dev/zero");
  add_mapping(process, 0x7ffd00000000, 4, rw | CR_VMA_GROWSDOWN | CR_VMA_PAGES)->set_name("[stack]");
  process.mutable_layout()->set_start_brk(0x20000000);
  process.mutable_layout()->set_brk(0x20008000);
  for (int i = 0; i < 6; ++i) process.mutable_layout()->add_auxv(static_cast<std::uint64_t>(i));

  auto* file = process.add_descriptions();
  file->set_kind(Description::REGULAR);
  file->mutable_file()->set_path("/tmp/log");
  file->set_offset(99);
  auto* pipe = process.add_descriptions();
  pipe->set_kind(Description::PIPE);
  pipe->mutable_pipe()->set_capacity(65536);
  pipe->mutable_pipe()->set_content("in the pipe");
  for (int fd : {0, 1, 7}) {
    auto* descriptor = process.add_descriptors();
    descriptor->set_fd(fd);
    descriptor->set_description(fd == 7);
  }
  auto* action = process.add_sigactions();
  action->set_signal(15);
  action->set_handler(0x10000100);
  process.mutable_env()->mutable_cwd()->set_path("/tmp");

  auto* object = process.add_shared_objects();
  object->set_kind(SharedObject::SHARED_ANONYMOUS);
  object->set_size(32 * image::kPage);
  auto* extent = object->add_extents();
  extent->set_offset(4096);
  extent->set_length(100000);
  for (int i = 0; i < 100000; ++i) out.blob.push_back(static_cast<char>(i * 13 + (i >> 8)));

  // The second run crosses from one mapping into the next.
  out.runs = {{0x10001000, 0x1000}, {0x20004000, 0x6000}, {0x7ffd00000000, 0x4000}};
  return out;
}

Sample sample_with(std::uint64_t addr, std::uint64_t pages) {
  Sample out = small_sample();
  const Mapping stack = out.process.mappings(out.process.mappings_size() - 1);
  Mapping& many = *out.process.mutable_mappings(out.process.mappings_size() - 1);
  many = out.process.mappings(1);
  many.set_start(addr);
  many.set_end(addr + pages * image::kPage);
  *out.process.add_mappings() = stack;
  out.runs.insert(out.runs.end() - 1, {addr, pages * image::kPage});
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_file(const std::string& path, std::string_view content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

image::Seal seal_of(const std::string& image) {
  image::Seal seal;
  std::memcpy(&seal, image.data() + image.size() - sizeof seal, sizeof seal);
  return seal;
}

void reseal(std::string& image) {
  const image::Seal seal = seal_of(image);
  const std::uint64_t tail = seal.blob_offset + seal.blob_size;
  image::seal_tail(std::string_view(image).substr(0, seal.pages_offset), std::span(image).subspan(tail));
}

std::string in_format(std::string image, std::uint32_t format) {
  image::Seal seal = seal_of(image);
  const image::TailLayout now(seal.format, seal.pages_size / image::kPage, seal.blob_size);
  if (now.tree_size) {  // take the note away
    const std::size_t note = image.size() - now.size + now.tree - image::kNoteHeaderSize;
    image.erase(note, image::kNoteHeaderSize + now.tree_size);
  }
  const image::TailLayout then(format, seal.pages_size / image::kPage, seal.blob_size);
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof header);
  Elf64_Phdr notes;
  char* const last = image.data() + sizeof header + (header.e_phnum - 1U) * sizeof notes;
  std::memcpy(&notes, last, sizeof notes);
  notes.p_filesz = then.size - then.padding;
  std::memcpy(last, &notes, sizeof notes);
  seal.format = format;
  seal.file_size = image.size();
  std::memcpy(image.data() + image.size() - sizeof seal, &seal, sizeof seal);
  reseal(image);
  return image;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace reprise::test
