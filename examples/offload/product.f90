! SPDX-License-Identifier: LGPL-2.1-or-later
! Boosters compute the columns of a product of matrices in blocks. A block is a task. At the end the master computes the
! product itself, and compares.
module blocks
  use, intrinsic :: iso_c_binding
  use croff
  implicit none
  integer, parameter :: n = 160, width = 20
contains
  ! A task, executed by a booster: regions(1) is matrix a, regions(2) columns of b, regions(3) the same columns of the product.
  ! `bind(c)` is needed: the library calls it as a function of C.
  subroutine multiply(values, regions) bind(c)
    type(c_ptr), value :: values
    type(c_ptr), intent(in) :: regions(*)
    integer(c_int), pointer :: columns
    real(c_double), pointer :: a(:, :), b(:, :), c(:, :)
    integer :: i, j, k
    call c_f_pointer(values, columns)
    call c_f_pointer(regions(1), a, [n, n])
    call c_f_pointer(regions(2), b, [n, int(columns)])
    call c_f_pointer(regions(3), c, [n, int(columns)])
    do j = 1, columns
      do k = 1, n
        do i = 1, n
          c(i, j) = c(i, j) + a(i, k) * b(k, j)   ! an OUT region begins with zeros
        end do
      end do
    end do
  end subroutine

  subroutine check(error)
    integer(c_int), intent(in) :: error
    if (error == CROFF_OK) return
    print '(3a)', 'error: ', croff_last_error()
    error stop 1
  end subroutine
end module

program product_of_matrices
  use mpi
  use blocks
  implicit none
  real(c_double), target :: a(n, n), b(n, n), c(n, n)
  integer(c_int), target :: columns = width
  integer(c_size_t), parameter :: whole = n * n * 8, part = n * width * 8
  integer :: boosters, error, i, first

  call MPI_Init(error)
  call check(croff_init())                                         ! boosters do not return from here
  a = reshape([(sin(real(i, c_double)), i = 1, n * n)], [n, n])
  b = reshape([(cos(real(i, c_double)), i = 1, n * n)], [n, n])
  call check(deep_booster_alloc(MPI_COMM_SELF, 1, 2, boosters))    ! 1 host with 2 boosters
  do i = 0, n / width - 1
    first = i * width + 1
    call check(croff_task(boosters, mod(i, 2), CROFF_RECOVER, c_funloc(multiply), c_loc(columns), 4_c_size_t, &
                          [croff_in(c_loc(a), whole), croff_in(c_loc(b(1, first)), part), croff_out(c_loc(c(1, first)), part)], 3))
  end do
  call check(croff_taskwait())                                     ! before this the product must not be read
  call check(deep_booster_free(boosters))
  call MPI_Finalize(error)
  print '(a, es10.3)', 'sum of the product ', sum(c)
  if (maxval(abs(c - matmul(a, b))) > 1e-10) error stop 'the product is wrong'
  print '(a)', 'the product is that of matmul'
end program
