// SPDX-License-Identifier: LGPL-2.1-or-later
#include <linux/limits.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/kept_name.h"
#include "base/text.h"
#include "cr.h"
#include "image/validate.h"
#include "image/validate_parts.h"

namespace reprise {
namespace image {
namespace {

constexpr std::uint64_t kKnownFlags = (CR_VMA_POLICY << 1) - 1;
constexpr std::size_t kNodes = 1024;  // most NUMA nodes
constexpr std::uint64_t kMaxFile = INT64_MAX;
constexpr int kMaxAttributes = 4096;

void validate_layout(const Checker& check, const MemoryLayout& layout) {
  const auto range = [&](std::uint64_t from, std::uint64_t to, const char* what) {
    check.address(from, what);
    check.address(to, what);
    check.need(from <= to, [&] { return std::string(what) + " ends before it begins"; });
  };
  range(layout.start_code(), layout.end_code(), "code");
  range(layout.start_data(), layout.end_data(), "data");
  range(layout.start_brk(), layout.brk(), "heap");
  range(layout.arg_start(), layout.arg_end(), "argument area");
  range(layout.env_start(), layout.env_end(), "environment area");
  check.address(layout.start_stack(), "stack");
  check.address(layout.vdso(), "vdso");
  check.need(layout.auxv_size() <= 64, "its auxiliary vector is too long");
  check.need(layout.dumpable() <= 2, "its dumpable setting is impossible");
  check.need((layout.future() & ~(CR_VMA_LOCKED | CR_VMA_LOCKONFAULT | CR_VMA_MERGEABLE)) == 0 &&
                 ((layout.future() & CR_VMA_LOCKED) || !(layout.future() & CR_VMA_LOCKONFAULT)),
             "what its later mappings get is impossible");
}

void validate_mapping(const Checker& check, const Process& process, const Mapping& mapping, std::uint64_t after) {
  const std::string what = "mapping " + hex(mapping.start()) + "-" + hex(mapping.end());
  check.need(mapping.start() % kPage == 0 && mapping.end() % kPage == 0 && mapping.start() < mapping.end() &&
                 mapping.end() <= kTaskSize,
             [&] { return what + " is impossible"; });
  check.need(mapping.start() >= after, [&] { return what + " overlaps the one before it or is out of order"; });
  check.need((mapping.flags() & ~kKnownFlags) == 0, [&] { return what + " has unknown flags"; });
  check.need(!(mapping.flags() & CR_VMA_ARENA), [&] { return what + " is a session's arena"; });
  check.need(
      !((mapping.flags() & CR_VMA_PAGES) && (mapping.flags() & (CR_VMA_SHARED | CR_VMA_SPECIAL | CR_VMA_DEVICE))),
      [&] { return what + " is not private memory though its pages are said to be saved"; });
  // The kernel makes droppable mappings of no other kind. Refuse here: a restore would fail only after its commit.
  constexpr std::uint64_t kNotDroppable =
      CR_VMA_SHARED | CR_VMA_FILE | CR_VMA_SHMEM | CR_VMA_GROWSDOWN | CR_VMA_PAGES | CR_VMA_SPECIAL | CR_VMA_DEVICE;
  check.need(!(mapping.flags() & CR_VMA_DROPPABLE) || !((mapping.flags() & kNotDroppable) || mapping.has_file()),
             [&] { return what + " is droppable and of a kind that cannot be"; });
  const std::uint64_t length = mapping.end() - mapping.start();
  check.need(!mapping.has_file() || (mapping.offset() % kPage == 0 && mapping.offset() <= kMaxFile - length),
             [&] { return what + " has an impossible offset"; });
  check.file(mapping.file(), what);
  check.need(mapping.name().size() < 4096, [&] { return what + " has an impossible name"; });
  check.need(mapping.shared_object() <= static_cast<std::uint32_t>(process.shared_objects_size()),
             [&] { return what + " refers to a shared object that is not there"; });
  check.need(mapping.numa_nodes().size() <= kNodes / 8 && mapping.numa_nodes().size() % 8 == 0 && mapping.numa_mode() <= 0xffff,
             [&] { return what + " has an impossible NUMA policy"; });
  check.need(mapping.pkey() < 16, [&] { return what + " has an impossible protection key"; });
}

/** Guard pages must lie inside mappings and be sorted: their addresses are passed to madvise(2). */
void validate_guards(const Checker& check, const Process& process) {
  auto mapping = process.mappings().begin();
  std::uint64_t after = 0;
  for (const auto& guard : process.guards()) {
    const std::string what = "guard pages at " + hex(guard.start());
    check.need(guard.start() % kPage == 0 && guard.length() % kPage == 0 && guard.length() > 0,
               [&] { return what + " are impossible"; });
    check.need(guard.start() >= after, [&] { return what + " overlap those before them or are out of order"; });
    while (mapping != process.mappings().end() && mapping->end() <= guard.start()) ++mapping;
    check.need(mapping != process.mappings().end() && mapping->start() <= guard.start() &&
                   guard.length() <= mapping->end() - guard.start(),
               [&] { return what + " lie in no mapping"; });
    after = guard.start() + guard.length();
  }
}

/** Check strictly: the file is created with rights that the image's owner may not have. */
void validate_deleted(const Checker& check, const SharedObject& object, const std::string& what) {
  check.need(object.file().deleted() && S_ISREG(object.file().mode()) && object.kind() != SharedObject::MEMFD &&
                 object.kind() != SharedObject::KEPT,
             [&] { return what + " is no deleted file though it is said to be one"; });
  check.need(object.deleted().attributes_size() <= kMaxAttributes, [&] { return what + " has too many attributes"; });
  for (const auto& attribute : object.deleted().attributes()) {
    const std::string& name = attribute.name();
    check.need(name.size() <= XATTR_NAME_MAX && name.find('\0') == std::string::npos &&
                   (name.rfind("user.", 0) == 0 || name == "system.posix_acl_access") &&
                   attribute.value().size() <= XATTR_SIZE_MAX,
               [&] { return what + " has an impossible attribute"; });
  }
}

/** A restore writes to this page: it must be a private anonymous page with MADV_WIPEONFORK, and nothing else. */
void validate_generation(const Checker& check, const Process& process) {
  if (!process.generation_address()) return;
  constexpr std::uint64_t kIs = CR_VMA_READ | CR_VMA_WRITE | CR_VMA_WIPEONFORK;
  constexpr std::uint64_t kIsNot = CR_VMA_SHARED | CR_VMA_FILE | CR_VMA_SHMEM | CR_VMA_SPECIAL | CR_VMA_DEVICE |
                                   CR_VMA_HUGETLB | CR_VMA_UFFD | CR_VMA_SHADOW_STACK | CR_VMA_DROPPABLE | CR_VMA_PAGES |
                                   CR_VMA_GROWSDOWN | CR_VMA_SEALED;
  const std::uint64_t at = process.generation_address();
  const auto mapping = std::find_if(process.mappings().begin(), process.mappings().end(),
                                    [at](const Mapping& one) { return one.start() == at; });
  check.need(mapping != process.mappings().end() && mapping->end() - mapping->start() == kPage && !mapping->has_file() &&
                 (mapping->flags() & (kIs | kIsNot)) == kIs,
             [at] { return "its generation number is said to lie at " + hex(at) + ", which is no page for it"; });
  for (const auto& guard : process.guards())
    check.need(guard.start() != at, [at] { return "its generation number at " + hex(at) + " lies in a guard page"; });
  check.need(process.generation() <= kMaxFile, "its generation number is impossible");
}

void validate_shared(const Checker& check, const Process& process, std::uint64_t blob_size) {
  check.need(blob_size <= kMaxBlob, "its shared content is too large");
  for (int i = 0; i < process.shared_objects_size(); ++i) {
    const auto& object = process.shared_objects(i);
    const std::string what = "shared object " + std::to_string(i + 1);
    check.need(object.kind() == SharedObject::SHARED_ANONYMOUS || object.kind() == SharedObject::MEMFD ||
                   object.kind() == SharedObject::FILE || object.kind() == SharedObject::KEPT,
               [&] { return what + " is of an unknown kind"; });
    check.file(object.file(), what);
    if (object.has_deleted()) validate_deleted(check, object, what);
    // Its name is all by which it is found again.
    const std::string& path = object.file().path();
    check.need(object.kind() != SharedObject::KEPT ||
                   (!kept_name(path).empty() && (kept_is_copied(path) || object.extents_size() == 0)),
               [&] { return what + " is said to be kept memory, and has another name or content"; });
    // Shared anonymous memory is created by mmap(2), which refuses length 0.
    check.need(object.size() <= kMaxFile - kPage && (object.size() > 0 || object.kind() != SharedObject::SHARED_ANONYMOUS),
               [&] { return what + " has an impossible size"; });
    const std::uint64_t size = (object.size() + kPage - 1) / kPage * kPage;
    std::uint64_t end = 0;
    for (const auto& extent : object.extents()) {
      check.need(extent.length() > 0 && extent.offset() >= end && extent.offset() <= size &&
                     extent.length() <= size - extent.offset(),
                 [&] {
                   return what + ": content at offset " + std::to_string(extent.offset()) + " is out of order or place";
                 });
      check.need(extent.blob_offset() <= blob_size && extent.length() <= blob_size - extent.blob_offset(), [&] {
        return what + ": content at offset " + std::to_string(extent.offset()) + " is not in the image";
      });
      end = extent.offset() + extent.length();
    }
  }
}

}  // namespace

void validate_memory(const Checker& check, const Process& process, std::uint64_t blob_size) {
  validate_layout(check, process.layout());
  check.need(static_cast<std::uint64_t>(process.mappings_size()) <= kMaxMappings, "it holds too many mappings");
  check.need(process.mappings_size() > 0, "it holds no mapping");
  std::uint64_t after = 0;
  for (const auto& mapping : process.mappings()) {
    validate_mapping(check, process, mapping, after);
    after = mapping.end();
  }
  validate_guards(check, process);
  validate_generation(check, process);
  check.need(process.membarrier() < 1 << 16, "its membarrier registrations are impossible");
  validate_shared(check, process, blob_size);
}

}  // namespace image

void validate_runs(const std::string& name, const Process& process, std::span<const cr_page_run> runs) {
  const image::Checker check(name);
  auto mapping = process.mappings().begin();
  const auto end = process.mappings().end();
  for (const auto& run : runs) {
    while (mapping != end && mapping->end() <= run.addr) ++mapping;
    check.need(mapping != end && mapping->start() <= run.addr && run.len <= mapping->end() - run.addr,
               [&] { return "pages at " + hex(run.addr) + " lie in no mapping"; });
    check.need(mapping->flags() & (CR_VMA_PAGES | CR_VMA_SPECIAL), [&] {
      return "pages at " + hex(run.addr) + " belong to mapping " + hex(mapping->start()) +
             ", whose pages are not saved";
    });
  }
}

}  // namespace reprise
