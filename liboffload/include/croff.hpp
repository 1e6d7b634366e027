// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * @file croff.hpp
 * Resilient offload of tasks over MPI: typed C++ (17 or newer) over croff.h, which documents the meaning.
 *
 *     void step(const double *a, double *b, int n);
 *     croff::group boosters(MPI_COMM_SELF, 2, 4);
 *     croff::task(croff::onto(boosters, 3), croff::recover, croff::in(a, n), croff::inout(b, n), step, n);
 *     croff::taskwait();
 */
#ifndef CROFF_HPP
#define CROFF_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "croff.h"

namespace croff {

/** What the functions of this header throw: a code of croff_error, and croff_last_error(). */
class error : public std::runtime_error {
 public:
  explicit error(int code) : std::runtime_error(croff_last_error()), code(code) {}
  const int code;
};

namespace detail {
inline void check(int code) {
  if (code != CROFF_OK) throw error(code);
}
}  // namespace detail

/** croff_init(). @throw error */
inline void init() { detail::check(croff_init()); }

/** croff_taskwait(). @throw error */
inline void taskwait() { detail::check(croff_taskwait()); }

/** A group of boosters; it is freed at the end of its life. Errors of tasks are thrown by taskwait() or free() only. */
class group {
 public:
  /** deep_booster_alloc(). @throw error */
  group(MPI_Comm masters, int hosts, int per_host) { detail::check(deep_booster_alloc(masters, hosts, per_host, &inter_)); }
  group(group &&other) noexcept : inter_(std::exchange(other.inter_, MPI_COMM_NULL)) {}
  group(const group &) = delete;
  group &operator=(const group &) = delete;
  ~group() {
    if (inter_ != MPI_COMM_NULL) deep_booster_free(&inter_);
  }
  /** deep_booster_free(). @throw error */
  void free() { detail::check(deep_booster_free(&inter_)); }
  /** @return number of boosters */
  int size() const {
    int size = 0;
    detail::check(croff_group_size(inter_, &size));
    return size;
  }
  MPI_Comm inter() const { return inter_; }

 private:
  MPI_Comm inter_ = MPI_COMM_NULL;
};

/** Clause onto(inter, rank). */
struct onto {
  onto(MPI_Comm inter, int rank) : inter(inter), rank(rank) {}
  onto(const group &boosters, int rank) : inter(boosters.inter()), rank(rank) {}
  MPI_Comm inter;
  int rank;
};

/** Clause recover, or recover(domain) with a number from 0. */
struct recover_clause {
  int value;
  constexpr recover_clause operator()(int domain) const { return {domain}; }
};
inline constexpr recover_clause recover{CROFF_RECOVER};
/** Instead of recover: a loss is an error. */
inline constexpr recover_clause no_recover{CROFF_NO_RECOVER};

/** A region of `count` elements; see in(), out(), inout(). */
template <class T, croff_access Access>
struct region {
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied between processes as bytes");
  using parameter = std::conditional_t<Access == CROFF_IN, const T *, T *>;
  const T *data;
  std::size_t count;
};
template <class T>
region<T, CROFF_IN> in(const T *data, std::size_t count) {
  return {data, count};
}
template <class T>
region<T, CROFF_OUT> out(T *data, std::size_t count) {
  return {data, count};
}
template <class T>
region<T, CROFF_INOUT> inout(T *data, std::size_t count) {
  return {data, count};
}

namespace detail {

template <class T>
struct is_region : std::false_type {};
template <class T, croff_access Access>
struct is_region<region<T, Access>> : std::true_type {};

template <class T, croff_access Access>
croff_region plain(const region<T, Access> &r) {
  return {const_cast<T *>(r.data), r.count * sizeof(T), Access};
}

/** Values of a task: the function, as its distance from run(), and the by-value parameters. */
template <class Tuple>
struct packed {
  std::intptr_t distance;
  Tuple values;
};

template <class Function, class Regions, class Values>
struct caller;
template <class Function, class... R, class... V>
struct caller<Function, std::tuple<R...>, std::tuple<V...>> {
  static std::intptr_t base() { return reinterpret_cast<std::intptr_t>(&run); }
  static void run(void *values, void *const *regions) {
    call(values, regions, std::index_sequence_for<R...>(), std::index_sequence_for<V...>());
  }
  template <std::size_t... I, std::size_t... J>
  static void call(void *values, void *const *regions, std::index_sequence<I...>, std::index_sequence<J...>) {
    (void)regions;
    auto *all = static_cast<packed<std::tuple<V...>> *>(values);
    const auto function = reinterpret_cast<Function>(base() + all->distance);
    function(static_cast<typename R::parameter>(regions[I])..., std::get<J>(all->values)...);
  }
};

template <std::size_t First, class Tuple, std::size_t... I>
auto slice(const Tuple &tuple, std::index_sequence<I...>) {
  return std::make_tuple(std::get<First + I>(tuple)...);
}

template <class... P>
std::tuple<P...> parameters(void (*)(P...));

/** The last parameters of the function are the values: convert them here, where the types are known. */
template <class Params, std::size_t First, class Values, std::size_t... I>
auto convert(const Values &values, std::index_sequence<I...>) {
  return std::tuple<std::decay_t<std::tuple_element_t<First + I, Params>>...>(
      static_cast<std::decay_t<std::tuple_element_t<First + I, Params>>>(std::get<I>(values))...);
}

}  // namespace detail

/**
 * Submit a task: `task(onto, recover, regions…, function, values…)`. The function's parameters are a pointer for each region in
 * this order (const for in()) and then the values, which are copied as bytes. It is a function or a lambda without captures,
 * of the object that submits it.
 * @throw error
 */
template <class... Args>
void task(const onto &where, recover_clause clause, const Args &...args) {
  constexpr std::size_t regions = (std::size_t{detail::is_region<Args>::value} + ... + 0);
  static_assert(sizeof...(Args) > regions, "the function is missing after the regions");
  const std::tuple<std::decay_t<const Args>...> all(args...);
  const auto function = +std::get<regions>(all);
  const auto clauses = detail::slice<0>(all, std::make_index_sequence<regions>());
  const auto given = detail::slice<regions + 1>(all, std::make_index_sequence<sizeof...(Args) - regions - 1>());
  using Params = decltype(detail::parameters(function));
  static_assert(std::tuple_size_v<Params> == sizeof...(Args) - 1,
                "the function has as many parameters as there are regions and values");
  const auto values = detail::convert<Params, regions>(given, std::make_index_sequence<sizeof...(Args) - regions - 1>());
  using Function = std::decay_t<decltype(function)>;
  using Caller = detail::caller<Function, std::decay_t<decltype(clauses)>, std::decay_t<decltype(values)>>;
  using Packed = detail::packed<std::decay_t<decltype(values)>>;
  alignas(Packed) unsigned char bytes[sizeof(Packed)] = {};
  new (bytes) Packed{reinterpret_cast<std::intptr_t>(function) - Caller::base(), values};
  std::apply(
      [&](const auto &...clause_of) {
        const croff_region list[] = {detail::plain(clause_of)..., croff_region{nullptr, 0, CROFF_IN}};
        detail::check(croff_task(where.inter, where.rank, clause.value, &Caller::run, bytes, sizeof bytes, list,
                                 static_cast<int>(regions)));
      },
      clauses);
}

}  // namespace croff

#endif
