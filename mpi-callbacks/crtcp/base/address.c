/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The addresses that this node publishes, and the order in which a peer's addresses are tried. */
#include "base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *bytes_of(const struct sockaddr *name, int *bits)
{
  if (name->sa_family == AF_INET) {
    *bits = 32;
    return &((const struct sockaddr_in *) name)->sin_addr;
  }
  *bits = 128;
  return &((const struct sockaddr_in6 *) name)->sin6_addr;
}

static bool same_prefix(const uint8_t *a, const uint8_t *b, int bits)
{
  if (memcmp(a, b, bits / 8)) return false;
  return bits % 8 == 0 || (a[bits / 8] ^ b[bits / 8]) >> (8 - bits % 8) == 0;
}

/** Does a list of interface names and CIDR networks contain this interface or address? */
static bool listed(const char *list, const char *interface, const struct sockaddr *name)
{
  char *copy = strdup(list ? list : ""), *save = NULL;
  bool found = false;

  for (char *word = strtok_r(copy, ", ", &save); word && !found; word = strtok_r(NULL, ", ", &save)) {
    uint8_t network[16];
    int bits, prefix;
    const void *address = bytes_of(name, &bits);
    char *slash = strchr(word, '/');

    if (slash) *slash = 0;
    if (inet_pton(name->sa_family, word, network) == 1) {
      prefix = slash ? atoi(slash + 1) : bits;
      found = prefix >= 0 && prefix <= bits && same_prefix(network, address, prefix);
    } else if (!slash) {
      found = !strcmp(word, interface);
    }
  }
  free(copy);
  return found;
}

/* The interfaces of this node; the same for all peers. Peers are added without crtcp.lock. */
static struct ifaddrs *interfaces;
static pthread_mutex_t interfaces_lock = PTHREAD_MUTEX_INITIALIZER;

static bool read_interfaces(void)
{
  struct ifaddrs *all = NULL;

  if (getifaddrs(&all)) return false;
  freeifaddrs(interfaces);
  interfaces = all;
  return true;
}

static bool usable(const struct ifaddrs *i)
{
  return i->ifa_addr && (i->ifa_flags & IFF_UP) &&
         (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
}

static bool link_local(const struct sockaddr *name)
{
  return name->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *) name)->sin6_addr);
}

static bool loopback(const struct sockaddr *name)
{
  if (name->sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *) name)->sin6_addr);
  return ntohl(((const struct sockaddr_in *) name)->sin_addr.s_addr) >> 24 == 127;
}

static bool wanted(const struct ifaddrs *i)
{
  if (!usable(i)) return false;
  if (crtcp.if_include && *crtcp.if_include) return listed(crtcp.if_include, i->ifa_name, i->ifa_addr);
  return !loopback(i->ifa_addr) && !link_local(i->ifa_addr) && !listed(crtcp.if_exclude, i->ifa_name, i->ifa_addr);
}

static int append(char **text, size_t *bytes, const struct ifaddrs *i, uint16_t port4, uint16_t port6)
{
  char host[INET6_ADDRSTRLEN], line[128];
  int bits, length;
  char *larger;

  if (i->ifa_addr->sa_family == AF_INET ? !port4 : !port6) return 0;
  inet_ntop(i->ifa_addr->sa_family, bytes_of(i->ifa_addr, &bits), host, sizeof host);
  if (bits == 32)
    length = snprintf(line, sizeof line, "%s:%u", host, port4);
  else if (link_local(i->ifa_addr))
    length = snprintf(line, sizeof line, "[%s%%%s]:%u", host, i->ifa_name, port6);
  else
    length = snprintf(line, sizeof line, "[%s]:%u", host, port6);
  larger = realloc(*text, *bytes + length + 1);
  if (!larger) return -1;
  memcpy(larger + *bytes, line, length + 1);
  *text = larger;
  *bytes += length + 1;
  return 1;
}

static int local_addresses(uint16_t port4, uint16_t port6, char **text, size_t *bytes)
{
  int count = 0;

  *text = NULL;
  *bytes = 0;
  /* again at each call: after a restart this is another node */
  if (!read_interfaces()) return -1;
  /* If there is no other address (a machine without a network), the second pass uses the loopback interface. */
  for (int pass = 0; pass < 2 && count == 0; pass++) {
    for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
      int added;

      if (pass == 0 ? !wanted(i) : !usable(i) || !loopback(i->ifa_addr)) continue;
      if (pass == 1 && crtcp.if_include && *crtcp.if_include) continue;
      added = append(text, bytes, i, port4, port6);
      if (added < 0) return -1;
      count += added;
    }
  }
  return count;
}

int crtcp_local_addresses(uint16_t port4, uint16_t port6, char **text, size_t *bytes)
{
  int count;

  pthread_mutex_lock(&interfaces_lock);
  count = local_addresses(port4, port6, text, bytes);
  pthread_mutex_unlock(&interfaces_lock);
  return count;
}

static bool private_address(const struct sockaddr *name)
{
  uint32_t a;

  if (name->sa_family == AF_INET6) return (((const struct sockaddr_in6 *) name)->sin6_addr.s6_addr[0] & 0xfe) == 0xfc;
  a = ntohl(((const struct sockaddr_in *) name)->sin_addr.s_addr);
  return a >> 24 == 10 || a >> 20 == 0xac1 || a >> 16 == 0xc0a8;
}

static int prefix_of(const struct sockaddr *mask)
{
  int bits, n = 0;
  const uint8_t *bytes = mask ? bytes_of(mask, &bits) : NULL;

  if (!bytes) return -1;
  while (n < bits && bytes[n / 8] >> (7 - n % 8) & 1) n++;
  return n;
}

/** 4: in a network of this node; 2: as private or public as an address of this node; 1: of the same family as one;
 * 0: not reachable. */
static int score(const struct sockaddr *name)
{
  int best = 0, bits;
  const void *address = bytes_of(name, &bits);

  for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
    int prefix, s = 1;

    if (!usable(i) || i->ifa_addr->sa_family != name->sa_family) continue;
    if (!wanted(i) && !loopback(i->ifa_addr)) continue;
    prefix = prefix_of(i->ifa_netmask);
    if (prefix > 0 && same_prefix(bytes_of(i->ifa_addr, &bits), address, prefix))
      s = 4;
    else if (loopback(i->ifa_addr) || loopback(name))
      s = 0;
    else if (private_address(name) == private_address(i->ifa_addr))
      s = 2;
    if (s > best) best = s;
  }
  return best;
}

static bool parse(const char *text, struct crtcp_address *out)
{
  char host[100];
  const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
  struct sockaddr_in *v4 = (struct sockaddr_in *) &out->name;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) &out->name;
  long port = colon ? strtol(colon + 1, NULL, 10) : 0;
  char *scope;

  memset(out, 0, sizeof *out);
  if (!colon || port <= 0 || port > 65535) return false;
  if (*begin == '[') {
    begin++;
    if (end[-1] != ']') return false;
    end--;
  }
  if (end <= begin || end - begin >= (long) sizeof host) return false;
  memcpy(host, begin, end - begin);
  host[end - begin] = 0;
  if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    out->length = sizeof *v4;
    return true;
  }
  scope = strchr(host, '%');
  if (scope) {
    *scope = 0;
    v6->sin6_scope_id = if_nametoindex(scope + 1);
  }
  if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  out->length = sizeof *v6;
  return true;
}

int crtcp_parse_addresses(const char *text, size_t bytes, unsigned count, struct crtcp_address **out)
{
  struct crtcp_address *list = calloc(count ? count : 1, sizeof *list);
  int n = 0;

  *out = NULL;
  if (!list) return -1;
  pthread_mutex_lock(&interfaces_lock);
  for (unsigned i = 0; i < count && bytes; i++) {
    size_t length = strnlen(text, bytes);

    if (length == bytes) break; /* no 0 at the end: truncated */
    if (parse(text, &list[n])) {
      list[n].score = score((struct sockaddr *) &list[n].name);
      n++;
    }
    text += length + 1;
    bytes -= length + 1;
  }
  pthread_mutex_unlock(&interfaces_lock);
  /* Insertion sort, which is stable, by descending score: the lists are short. */
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && list[k].score > list[k - 1].score; k--) {
      struct crtcp_address swap = list[k];
      list[k] = list[k - 1];
      list[k - 1] = swap;
    }
  *out = list;
  return n;
}

const char *crtcp_address_text(const struct sockaddr *name)
{
  static __thread char text[80];
  char host[INET6_ADDRSTRLEN];
  int bits;

  inet_ntop(name->sa_family, bytes_of(name, &bits), host, sizeof host);
  if (bits == 32)
    snprintf(text, sizeof text, "%s:%u", host, ntohs(((const struct sockaddr_in *) name)->sin_port));
  else
    snprintf(text, sizeof text, "[%s]:%u", host, ntohs(((const struct sockaddr_in6 *) name)->sin6_port));
  return text;
}
