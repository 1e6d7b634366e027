// SPDX-License-Identifier: LGPL-2.1-or-later
#include "code.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <functional>
#include <sstream>

#include "error.h"

namespace croff {
namespace {

struct Object {
  std::string name;
  std::uint64_t base = 0, build = 0;
  bool contains = false;
};

std::string file_name(const char *path) {
  const std::string whole = path ? path : "";
  return whole.substr(whole.rfind('/') + 1);
}

void mix(std::uint64_t &hash, const void *data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3;
}

/** The build id if there is one, and the sizes of the segments. */
Object examine(const dl_phdr_info &info, std::uintptr_t address) {
  Object object{file_name(info.dlpi_name), info.dlpi_addr, 0xcbf29ce484222325, false};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info.dlpi_phdr[i];
    const std::uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      object.contains |= address >= begin && address < begin + segment.p_memsz;
      mix(object.build, &segment.p_filesz, sizeof segment.p_filesz);
    }
    if (segment.p_type == PT_NOTE && segment.p_align == 4) mix(object.build, reinterpret_cast<void *>(begin), segment.p_filesz);
  }
  return object;
}

/** The first object for which `wanted` holds. */
bool find(std::uintptr_t address, Object &found, const std::function<bool(const Object &)> &wanted) {
  struct Search {
    std::uintptr_t address;
    Object *found;
    const std::function<bool(const Object &)> *wanted;
  } search{address, &found, &wanted};
  return dl_iterate_phdr(
             [](dl_phdr_info *info, size_t, void *data) {
               auto &s = *static_cast<Search *>(data);
               *s.found = examine(*info, s.address);
               return static_cast<int>((*s.wanted)(*s.found));
             },
             &search) != 0;
}

}  // namespace

CodeReference refer(const void *function) {
  Object object;
  const auto address = reinterpret_cast<std::uintptr_t>(function);
  if (!function || !find(address, object, [](const Object &o) { return o.contains; }))
    throw Error(Code::function,
                "the task's function is in no loaded object: tasks are functions of the executable or of its libraries");
  if (object.name.size() > CodeReference::kMostObject)
    throw Error(Code::function, object.name + ": the name of the library is too long, give it one of at most " +
                                    std::to_string(CodeReference::kMostObject) + " bytes");
  return {object.name, address - object.base, object.build};
}

void *resolve(const CodeReference &reference) {
  Object object;
  if (!find(0, object, [&](const Object &o) { return o.name == reference.object; }))
    throw Error(Code::function, "the booster has not loaded " + reference.object + ": load it before croff_init()");
  if (object.build != reference.build)
    throw Error(Code::function, (reference.object.empty() ? std::string("the executable") : reference.object) +
                                    " is another build on the booster: start all processes from the same files");
  return reinterpret_cast<void *>(object.base + reference.offset);
}

std::string describe(const CodeReference &reference) {
  std::ostringstream text;
  try {
    Dl_info info;
    const void *address = resolve(reference);
    if (dladdr(address, &info) && info.dli_sname && info.dli_saddr == address) return info.dli_sname;
  } catch (const Error &) {
    // Another process may have it.
  }
  text << (reference.object.empty() ? "the executable" : reference.object) << "+0x" << std::hex << reference.offset;
  return text.str();
}

}  // namespace croff
