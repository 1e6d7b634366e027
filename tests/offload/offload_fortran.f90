! SPDX-License-Identifier: GPL-2.0-only
! offload_fortran [DIE]: the interface for Fortran. With DIE a booster dies in its first task.
module tasks
  use, intrinsic :: iso_c_binding
  use croff
  implicit none
  integer, parameter :: n = 1000
contains
  subroutine add(values, regions) bind(c)
    type(c_ptr), value :: values
    type(c_ptr), intent(in) :: regions(*)
    real(c_double), pointer :: factor, a(:), b(:)
    integer :: unit, status
    character(8) :: dies
    call get_command_argument(1, dies)
    call c_f_pointer(values, factor)
    call c_f_pointer(regions(1), a, [n])
    call c_f_pointer(regions(2), b, [n])
    if (dies == 'DIE') then
      open(newunit=unit, file='first-fortran', status='new', iostat=status)
      if (status == 0) then
        close(unit)
        call die()
      end if
    end if
    b = b + factor * a
  end subroutine

  subroutine die()
    interface
      function raise(signal) bind(c) result(status)
        import c_int
        integer(c_int), value :: signal
        integer(c_int) :: status
      end function
    end interface
    integer(c_int) :: status
    status = raise(9_c_int)
  end subroutine

  subroutine check(error)
    integer(c_int), intent(in) :: error
    if (error == CROFF_OK) return
    print '(3a)', 'error: ', croff_last_error()
    error stop 1
  end subroutine
end module

program offload_fortran
  use mpi
  use tasks
  implicit none
  integer :: error, group, i
  integer(c_int) :: boosters
  real(c_double), target :: a(n, 2), b(n, 2), factor
  integer(c_size_t), parameter :: bytes = n * 8

  call MPI_Init(error)
  call check(croff_init())
  call check(deep_booster_alloc(MPI_COMM_SELF, 1, 2, group))
  call check(croff_group_size(group, boosters))
  if (boosters /= 2) error stop 2
  a = reshape([(real(i, c_double), i = 1, 2 * n)], [n, 2])
  b = 1
  factor = 0.5
  do i = 1, 2
    call check(croff_task(group, i - 1, CROFF_RECOVER, c_funloc(add), c_loc(factor), 8_c_size_t, &
                          [croff_in(c_loc(a(1, i)), bytes), croff_inout(c_loc(b(1, i)), bytes)], 2))
  end do
  call check(croff_taskwait())
  if (any(b /= 1 + 0.5 * a)) error stop 3
  if (croff_task(group, 7, CROFF_RECOVER, c_funloc(add), c_null_ptr, 0_c_size_t, [croff_in(c_null_ptr, 0_c_size_t)], 0) &
      /= CROFF_ERR_ARGUMENT) error stop 4
  if (index(croff_last_error(), 'booster 7 of 2') == 0) error stop 5
  call check(deep_booster_free(group))
  call MPI_Finalize(error)
  print '(a)', 'offload_fortran: done in Fortran'
end program
