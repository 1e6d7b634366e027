#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Use of the installed library by other projects: pkg-config from C and C++, CMake's find_package and, if there is a
# compiler or interpreter, Fortran and Python. $1: build directory, $2: sources
set -eu
build=$1 source=$2
for tool in cmake pkg-config cc c++ readelf; do
  command -v $tool >/dev/null || { echo "no $tool here"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work cmake --install "$build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
pc=$(find "$work" -name libcr.pc)
lib=$(dirname "$(find "$work" -name libcr.so)")
export PKG_CONFIG_PATH="$(dirname "$pc")" PKG_CONFIG_SYSROOT_DIR="$work" LD_LIBRARY_PATH="$lib"

flags=$(pkg-config --cflags --libs libcr)
cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$source/tests/unit/blcr_compat.c" -o "$work/c" $flags
c++ -std=c++98 -Wall -Wextra -Werror -x c++ "$source/tests/unit/blcr_compat.c" -x none -o "$work/cpp" $flags
(cd "$work" && ./c && ./cpp)
if readelf -d "$lib/libcr.so" | grep NEEDED | grep -v -e 'libc\.so' -e ld-linux; then
  echo 'libcr.so needs more than the C library' >&2
  exit 1
fi

man=$(dirname "$(find "$work" -name libcr.3)")
for name in cr_checkpoint cr_last_error cr_poll_restart_msg cr_image_json; do
  of=$(sed -n 's/^\.so man3\///p' "$man/$name.3")
  [ -n "$of" ] && [ -f "$man/$of" ] || { echo "man 3 $name refers to no page" >&2; exit 1; }
done

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(reprise REQUIRED)
add_executable(user main.c)
target_link_libraries(user PRIVATE reprise::cr)
END
cp "$source/tests/unit/blcr_compat.c" "$work/project/main.c"
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$(dirname "$lib");$work/usr;$work/usr/local" \
  -Dreprise_DIR="$(dirname "$(find "$work" -name reprise-config.cmake)")" >"$work/log" 2>&1 &&
  cmake --build "$work/project/build" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/project/build/user"

if command -v gfortran >/dev/null; then
  cat >"$work/f.f90" <<'END'
program main
  use iso_c_binding
  implicit none
  interface
    integer(c_int) function cr_init() bind(c)
      import c_int
    end function
    integer(c_int) function cr_enter_cs(id) bind(c)
      import c_int
      integer(c_int), value :: id
    end function
    integer(c_int) function cr_leave_cs(id) bind(c)
      import c_int
      integer(c_int), value :: id
    end function
  end interface
  integer(c_int) :: id
  id = cr_init()
  if (id >= 0) then
    if (cr_enter_cs(id) /= 0 .or. cr_leave_cs(id) /= 0) stop 1
  end if
end program
END
  gfortran "$work/f.f90" -o "$work/f" -L"$lib" -lcr
  "$work/f"
fi

if command -v python3 >/dev/null; then
  # The module loads the library, and declares what the header declares.
  module=$(find "$work" -path '*/reprise/__init__.py')
  [ -n "$module" ] || { echo 'the Python module is not installed' >&2; exit 1; }
  PYTHONPATH=$(dirname "$(dirname "$module")") python3 -B "$source/tests/unit/api/python_declares.py" >"$work/python.c"
  cc -std=c11 -Wall -Wextra -Werror -fsyntax-only "$work/python.c" $flags
fi
echo 'as installed, the library is found from C, C++, CMake and Python'
