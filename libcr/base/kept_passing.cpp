// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/kept_passing.h"

#include "base/descriptor_passing.h"

namespace reprise {

bool send_kept(int socket, const KeptFile& file) {
  return send_descriptor(socket, file.memory.get(), file.name.data(), file.name.size());
}

KeptFile receive_kept(int socket) {
  char name[256];  // of a memfd: 249 bytes at most, with the prefix
  std::size_t size = sizeof name;
  UniqueFd memory = receive_descriptor(socket, name, size);
  return memory ? KeptFile{std::string(name, size), std::move(memory)} : KeptFile{};
}

}  // namespace reprise
