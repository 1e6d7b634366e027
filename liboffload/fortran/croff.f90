! SPDX-License-Identifier: LGPL-2.1-or-later
!> Resilient offload of tasks over MPI: Fortran over croff.h, which documents the meaning of each function.
!!
!! Compile this file with the program; link with -lcroff. Communicators are the integers of `use mpi`; with mpi_f08 pass
!! comm%MPI_VAL. A task is a subroutine with bind(c):
!!
!!     subroutine f(values, regions) bind(c)
!!       type(c_ptr), value :: values      ! the booster's copy of the values
!!       type(c_ptr), intent(in) :: regions(*) ! the booster's memory of each region
module croff
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer(c_int), parameter, public :: CROFF_OK = 0, CROFF_ERR_INIT = 1, CROFF_ERR_ARGUMENT = 2, CROFF_ERR_GROUP = 3, &
    CROFF_ERR_FUNCTION = 4, CROFF_ERR_SPAWN = 5, CROFF_ERR_LOST = 6, CROFF_ERR_TASK = 7, CROFF_ERR_ATTEMPTS = 8, &
    CROFF_ERR_MASTERS = 9, CROFF_ERR_ENGINE = 10, CROFF_ERR_MEMORY = 11
  integer(c_int), parameter :: READ_ONLY = 1, WRITE_ONLY = 2, READ_WRITE = 3
  integer(c_int), parameter, public :: CROFF_NO_RECOVER = -2, CROFF_RECOVER = -1

  !> As croff_region of croff.h; croff_in(), croff_out() and croff_inout() make them.
  type, bind(c), public :: croff_region
    type(c_ptr) :: data = c_null_ptr
    integer(c_size_t) :: bytes = 0
    integer(c_int) :: access = READ_ONLY
  end type

  public :: croff_init, croff_taskwait, deep_booster_alloc, deep_booster_free, croff_group_size, croff_task, croff_last_error
  public :: croff_in, croff_out, croff_inout, croff_fail

  interface
    !> croff_init() of croff.h
    function croff_init() bind(c, name='croff_init') result(error)
      import c_int
      integer(c_int) :: error
    end function

    !> croff_taskwait() of croff.h
    function croff_taskwait() bind(c, name='croff_taskwait') result(error)
      import c_int
      integer(c_int) :: error
    end function

    !> deep_booster_alloc() of croff.h
    function deep_booster_alloc(comm, hosts, per_host, inter) bind(c, name='croff_f_alloc') result(error)
      import c_int
      integer(c_int), value :: comm  ! an MPI_Fint
      integer(c_int), value :: hosts, per_host
      integer(c_int), intent(out) :: inter
      integer(c_int) :: error
    end function

    !> deep_booster_free() of croff.h
    function deep_booster_free(inter) bind(c, name='croff_f_free') result(error)
      import c_int
      integer(c_int), intent(inout) :: inter
      integer(c_int) :: error
    end function

    !> croff_group_size() of croff.h
    function croff_group_size(inter, boosters) bind(c, name='croff_f_group_size') result(error)
      import c_int
      integer(c_int), value :: inter
      integer(c_int), intent(out) :: boosters
      integer(c_int) :: error
    end function

    !> croff_task() of croff.h. `function` is c_funloc() of the subroutine, `values` is c_loc() of what is copied, or c_null_ptr
    function croff_task(inter, rank, recover, function, values, bytes, regions, count) bind(c, name='croff_f_task') result(error)
      import c_int, c_funptr, c_ptr, c_size_t, croff_region
      integer(c_int), value :: inter
      integer(c_int), value :: rank, recover
      type(c_funptr), value :: function
      type(c_ptr), value :: values
      integer(c_size_t), value :: bytes
      type(croff_region), intent(in) :: regions(*)
      integer(c_int), value :: count
      integer(c_int) :: error
    end function

    function c_last_error() bind(c, name='croff_last_error') result(text)
      import c_ptr
      type(c_ptr) :: text
    end function

    function c_strlen(text) bind(c, name='strlen') result(length)
      import c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function

    subroutine c_fail(text) bind(c, name='croff_fail')
      import c_char
      character(kind=c_char), intent(in) :: text(*)
    end subroutine
  end interface

contains

  !> A region that is read. @param first its first element, by c_loc(); @param bytes its size
  function croff_in(first, bytes) result(region)
    type(c_ptr), intent(in) :: first
    integer(c_size_t), intent(in) :: bytes
    type(croff_region) :: region
    region = croff_region(first, bytes, READ_ONLY)
  end function

  !> A region that is written, as a whole.
  function croff_out(first, bytes) result(region)
    type(c_ptr), intent(in) :: first
    integer(c_size_t), intent(in) :: bytes
    type(croff_region) :: region
    region = croff_region(first, bytes, WRITE_ONLY)
  end function

  !> A region that is read and written.
  function croff_inout(first, bytes) result(region)
    type(c_ptr), intent(in) :: first
    integer(c_size_t), intent(in) :: bytes
    type(croff_region) :: region
    region = croff_region(first, bytes, READ_WRITE)
  end function

  !> Text of the last error in this process.
  function croff_last_error() result(text)
    character(:), allocatable :: text
    type(c_ptr) :: c_text
    character(kind=c_char), pointer :: characters(:)
    integer :: i
    c_text = c_last_error()
    call c_f_pointer(c_text, characters, [c_strlen(c_text)])
    allocate(character(size(characters)) :: text)
    do i = 1, size(characters)
      text(i:i) = characters(i)
    end do
  end function

  !> In a task: it has failed, and is not to be executed again.
  subroutine croff_fail(text)
    character(*), intent(in) :: text
    call c_fail(text // c_null_char)
  end subroutine
end module
