! SPDX-License-Identifier: Apache-2.0
!
! Calls from Fortran, on two ranks, each counted once. INTERFACE is 1 for mpif.h, 2 for mpi, 3 for mpi_f08.
program calls
#if INTERFACE == 2
  use mpi
#elif INTERFACE == 3
  use mpi_f08
#endif
  implicit none
#if INTERFACE == 1
  include 'mpif.h'
#endif
#if INTERFACE == 3
  type(MPI_Request) :: requests(2), always
  type(MPI_Comm) :: pair
  type(MPI_Datatype) :: kind
  type(MPI_Win) :: window
  type(MPI_Status) :: status
#define SOURCE_OF(status) status%MPI_SOURCE
#else
  integer :: requests(2), always, pair, kind, window, status(MPI_STATUS_SIZE)
#define SOURCE_OF(status) status(MPI_SOURCE)
#endif
  integer :: rank, ranks, other, error, numbers(10), got(10), step, lengths(1)
  integer(kind=MPI_ADDRESS_KIND) :: places(1), zero, bytes
  logical :: flag
  character(len=1000) :: folder, path

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  other = 1 - rank
  numbers = 3
  call get_command_argument(1, folder)
  write (path, '(a,"/",i0,".expected")') trim(folder), rank
  open (unit=11, file=path, action='write')
  write (11, '(a)') '['

  call MPI_Irecv(got, 10, MPI_INTEGER, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, requests(1), error)
  call expect('Irecv', 40, -1, 1)
  call MPI_Isend(numbers, 8, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(2), error)
  call expect('Isend', 32, other, 1)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
  call expect('Waitall', 72, -2, 1)
  call MPI_Sendrecv(numbers, 2, MPI_INTEGER, other, 2, got, 3, MPI_INTEGER, other, 2, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE, error)
  call expect('Sendrecv', 8, other, 1)
  call expect('Sendrecv_recv', 12, other, 1)
  call MPI_Send(numbers, 4, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, error)
  call expect('Send', 16, -2, 1)
  call MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, flag, status, error)
  call expect('Iprobe', 0, -1, 1)
  if (flag) error stop 4
  if (rank == 0) then
    call MPI_Send(numbers, 5, MPI_INTEGER, 1, 3, MPI_COMM_WORLD, error)
    call expect('Send', 20, 1, 1)
  else
    call MPI_Recv(got, 6, MPI_INTEGER, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, status, error)
    call expect('Recv', 24, -1, 1)
    if (SOURCE_OF(status) /= 0) error stop 4
  end if

  ! What a Fortran program names in its own way: MPI_IN_PLACE, MPI_BOTTOM.
  got = rank
  call MPI_Allreduce(MPI_IN_PLACE, got, 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  call expect('Allreduce', 40, -2, 1)
  if (got(3) /= 1) error stop 4
  lengths = 2
  call MPI_Get_address(numbers, places(1), error)
  call MPI_Type_create_hindexed(1, lengths, places, MPI_INTEGER, kind, error)
  call MPI_Type_commit(kind, error)
  call MPI_Bcast(MPI_BOTTOM, 1, kind, 0, MPI_COMM_WORLD, error)
  call expect('Bcast', 8, 0, 1)
  call MPI_Type_free(kind, error)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call expect('Barrier', 0, -2, 1)
  call MPI_Gather(numbers, 3, MPI_INTEGER, got, 3, MPI_INTEGER, 1, MPI_COMM_WORLD, error)
  call expect('Gather', 12, 1, 1)

  ! Ranks change places.
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, pair, error)
  call expect('Comm_split', 0, -2, 1)
  call MPI_Send_init(numbers, 7, MPI_INTEGER, rank, 4, pair, always, error)
  call expect('Send_init', 28, other, 1)
  do step = 1, 3
    call MPI_Start(always, error)
    call expect('Start_send', 28, other, 1)
    call MPI_Recv(got, 7, MPI_INTEGER, rank, 4, pair, MPI_STATUS_IGNORE, error)
    call expect('Recv', 28, other, 1)
    if (step < 3) then
      call MPI_Wait(always, MPI_STATUS_IGNORE, error)
      call expect('Wait', 28, other, 1)
    else
      flag = .false.
      do while (.not. flag)
        call MPI_Test(always, flag, MPI_STATUS_IGNORE, error)
        call expect('Test', merge(28, 0, flag), -2, 1)
      end do
    end if
  end do
  call MPI_Request_free(always, error)
  call MPI_Comm_free(pair, error)

  bytes = 40
  zero = 0
  call MPI_Win_create(got, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, error)
  call expect('Win_create', 0, -2, 1)
  call MPI_Win_fence(0, window, error)
  call MPI_Put(numbers, 2, MPI_INTEGER, other, zero, 2, MPI_INTEGER, window, error)
  call expect('Put', 8, other, 1)
  call MPI_Win_fence(0, window, error)
  call expect('Win_fence', 0, -2, 2)
  call MPI_Win_free(window, error)
  call expect('Win_free', 0, -2, 1)

  call MPI_Pcontrol(0)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Pcontrol(1)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call expect('Barrier', 0, -2, 1)
  write (11, '(a)') '["Send", 16, -2, 0]]'
  close (11)
  if (command_argument_count() > 1) call MPI_Abort(MPI_COMM_WORLD, 7, error)
  call MPI_Finalize(error)

contains

  subroutine expect(call_name, size, peer, times)
    character(len=*), intent(in) :: call_name
    integer, intent(in) :: size, peer, times
    write (11, '("[""",a,""", ",i0,", ",i0,", ",i0,"],")') call_name, size, peer, times
  end subroutine expect

end program calls
