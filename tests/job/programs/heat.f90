! SPDX-License-Identifier: GPL-2.0-only
!
! heat: conduction of heat in a square plate, explicit in time, over a grid of ranks.
!
!   heat [--iterations N] [--while FILE]
!
! Runs N steps, and on as long as FILE exists. The output depends only on the number of steps and of ranks. At the end rank 0
! collects the whole field and checks it against the sum of the ranks' parts.
program heat
  use, intrinsic :: iso_fortran_env, only: int64, real64, output_unit, error_unit
  use mpi_f08
  implicit none

  integer, parameter :: side = 360, every = 10
  real(real64), parameter :: flow = 0.2_real64
  integer, parameter :: west = 1, east = 2, south = 3, north = 4

  type(MPI_Comm) :: grid, node, leaders
  type(MPI_Datatype) :: column, row
  integer :: rank, ranks, node_rank, dims(2) = 0, place(2), neighbour(4)
  integer :: low(2), extent(2)                                ! of this rank's part in the plate
  real(real64), allocatable, target :: now(:, :), next(:, :)  ! with a border for the neighbours' values
  integer :: iterations = 0, step = 0
  character(len=4096) :: hold = ''
  real(real64) :: mine(2), all(2), change
  integer(int64) :: checksum

  call read_options()
  call MPI_Init()
  call lay_out()
  call heat_up()
  do while (more())
    call exchange()
    call advance(change)
    step = step + 1
    if (mod(step, every) /= 0) cycle
    mine = [sum(now(1:extent(1), 1:extent(2))), change]
    call MPI_Allreduce(mine(1), all(1), 1, MPI_DOUBLE_PRECISION, MPI_SUM, grid)
    call MPI_Reduce(mine(2), all(2), 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, grid)
    if (rank == 0) then
      write (output_unit, '(a, i0, 2(a, es24.16))') 'step ', step, ': heat ', all(1), ', largest change ', all(2)
      flush (output_unit)
    end if
  end do
  checksum = reduced(part_checksum(now(1:extent(1), 1:extent(2)), low))
  call verify_whole()
  if (rank == 0) then
    write (output_unit, '(a, i0, a, i0, a, z16.16)') 'heat: ', ranks, ' ranks, ', step, ' iterations, checksum ', checksum
    flush (output_unit)
  end if
  call MPI_Finalize()

contains

  subroutine read_options()
    character(len=4096) :: name, value
    integer :: i, status

    do i = 1, command_argument_count(), 2
      call get_command_argument(i, name)
      call get_command_argument(i + 1, value)
      status = 0
      select case (name)
      case ('--iterations')
        read (value, *, iostat=status) iterations
      case ('--while')
        hold = value
      case default
        status = 1
      end select
      if (status /= 0 .or. value == '') then
        write (error_unit, '(a)') 'usage: heat [--iterations N] [--while FILE]'
        stop 2
      end if
    end do
    if (iterations == 0 .and. hold == '') iterations = 1000
  end subroutine

  ! The ranks form a grid; each has a block of the plate, which they share as evenly as possible.
  subroutine lay_out()
    integer :: d

    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call MPI_Dims_create(ranks, 2, dims)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .false., grid)
    call MPI_Comm_rank(grid, rank)
    call MPI_Cart_coords(grid, rank, 2, place)
    call MPI_Cart_shift(grid, 0, 1, neighbour(west), neighbour(east))
    call MPI_Cart_shift(grid, 1, 1, neighbour(south), neighbour(north))
    do d = 1, 2
      low(d) = begin_of(place(d), dims(d))
      extent(d) = begin_of(place(d) + 1, dims(d)) - low(d)
    end do
    allocate (now(0:extent(1) + 1, 0:extent(2) + 1), next(0:extent(1) + 1, 0:extent(2) + 1))
    ! Of a Fortran array, a line in the first direction is contiguous, one in the second is not.
    call MPI_Type_vector(extent(2), 1, extent(1) + 2, MPI_DOUBLE_PRECISION, column)
    call MPI_Type_commit(column)
    call MPI_Type_contiguous(extent(1), MPI_DOUBLE_PRECISION, row)
    call MPI_Type_commit(row)
    ! For sums in two stages: first of a node's ranks, then of one rank of each node.
    call MPI_Comm_split_type(grid, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
    call MPI_Comm_rank(node, node_rank)
    call MPI_Comm_split(grid, merge(0, 1, node_rank == 0), rank, leaders)
    if (node_rank /= 0) call MPI_Comm_free(leaders)
  end subroutine

  pure integer function begin_of(part, parts)
    integer, intent(in) :: part, parts

    begin_of = int(int(side, int64) * part / parts)
  end function

  ! A hot edge, and a warm disc in a cold plate.
  subroutine heat_up()
    integer :: i, j
    real(real64) :: x, y

    now = 0
    do j = 0, extent(2) + 1
      do i = 0, extent(1) + 1
        x = real(low(1) + i, real64) / side
        y = real(low(2) + j, real64) / side
        if ((x - 0.6_real64) * (x - 0.6_real64) + (y - 0.4_real64) * (y - 0.4_real64) < 0.04_real64) now(i, j) = 50 + 25 * x
        if (low(1) + i == 0) now(i, j) = 100
      end do
    end do
    next = now
  end subroutine

  logical function more()
    logical :: there

    there = .false.
    if (rank == 0) then
      if (hold /= '') inquire (file=trim(hold), exist=there)
      there = there .or. step < iterations
    end if
    call MPI_Bcast(there, 1, MPI_LOGICAL, 0, grid)
    more = there
  end function

  subroutine exchange()
    type(MPI_Request) :: request(8)

    call MPI_Irecv(now(0, 1), 1, column, neighbour(west), east, grid, request(1))
    call MPI_Irecv(now(extent(1) + 1, 1), 1, column, neighbour(east), west, grid, request(2))
    call MPI_Irecv(now(1, 0), 1, row, neighbour(south), north, grid, request(3))
    call MPI_Irecv(now(1, extent(2) + 1), 1, row, neighbour(north), south, grid, request(4))
    call MPI_Isend(now(1, 1), 1, column, neighbour(west), west, grid, request(5))
    call MPI_Isend(now(extent(1), 1), 1, column, neighbour(east), east, grid, request(6))
    call MPI_Isend(now(1, 1), 1, row, neighbour(south), south, grid, request(7))
    call MPI_Isend(now(1, extent(2)), 1, row, neighbour(north), north, grid, request(8))
    call MPI_Waitall(8, request, MPI_STATUSES_IGNORE)
  end subroutine

  subroutine advance(change)
    real(real64), intent(out) :: change
    integer :: i, j

    do j = 1, extent(2)
      do i = 1, extent(1)
        next(i, j) = now(i, j) + flow * (now(i - 1, j) + now(i + 1, j) + now(i, j - 1) + now(i, j + 1) - 4 * now(i, j))
      end do
    end do
    change = maxval(abs(next(1:extent(1), 1:extent(2)) - now(1:extent(1), 1:extent(2))))
    now(1:extent(1), 1:extent(2)) = next(1:extent(1), 1:extent(2))
  end subroutine

  ! Every bit of every value, at its place.
  pure integer(int64) function part_checksum(part, from)
    real(real64), intent(in) :: part(:, :)
    integer, intent(in) :: from(2)
    integer :: i, j

    part_checksum = 0
    do j = 1, size(part, 2)
      do i = 1, size(part, 1)
        part_checksum = ieor(part_checksum, ishftc(transfer(part(i, j), 0_int64), mod(from(1) + i + 7 * (from(2) + j), 64)))
      end do
    end do
  end function

  integer(int64) function reduced(value)
    integer(int64), intent(in) :: value
    integer(int64) :: of_node

    reduced = 0
    call MPI_Reduce(value, of_node, 1, MPI_INTEGER8, MPI_BXOR, 0, node)
    if (node_rank == 0) call MPI_Allreduce(of_node, reduced, 1, MPI_INTEGER8, MPI_BXOR, leaders)
  end function

  ! Rank 0 puts the field together.
  subroutine verify_whole()
    real(real64), allocatable :: whole(:, :)
    type(MPI_Datatype) :: block
    type(MPI_Request) :: request
    integer :: from, of(2), first(2), size_of(2), d

    call MPI_Type_create_subarray(2, shape(now), extent, [1, 1], MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, block)
    call MPI_Type_commit(block)
    call MPI_Isend(now, 1, block, 0, 0, grid, request)
    if (rank == 0) then
      allocate (whole(side, side))
      do from = 0, ranks - 1
        call MPI_Cart_coords(grid, from, 2, of)
        do d = 1, 2
          first(d) = begin_of(of(d), dims(d))
          size_of(d) = begin_of(of(d) + 1, dims(d)) - first(d)
        end do
        call receive(whole, from, first, size_of)
      end do
    end if
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Type_free(block)
    if (rank /= 0) return
    if (part_checksum(whole, [0, 0]) == checksum) return
    write (error_unit, '(a)') 'heat: the collected field is not that of the ranks'
    call MPI_Abort(MPI_COMM_WORLD, 3)
  end subroutine

  subroutine receive(whole, from, first, size_of)
    real(real64), intent(inout) :: whole(:, :)
    integer, intent(in) :: from, first(2), size_of(2)
    type(MPI_Datatype) :: block

    call MPI_Type_create_subarray(2, shape(whole), size_of, first, MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, block)
    call MPI_Type_commit(block)
    call MPI_Recv(whole, 1, block, from, 0, grid, MPI_STATUS_IGNORE)
    call MPI_Type_free(block)
  end subroutine

end program
