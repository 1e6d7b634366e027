// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arrays of user space. They are written in pieces: arrays of any length need one page of kernel
 * memory, and the caller can drop its locks before user memory is written.
 */
#include "internal.h"
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/**
 * cr_get_table() - copy an array from user space
 * @user: its address
 * @n: number of elements
 * @size: bytes of one element
 *
 * It is probed first, so that a large n without such an array allocates nothing.
 *
 * Return: to be freed by kvfree(); or -E2BIG, -EFAULT, -ENOMEM as an error pointer.
 */
void *cr_get_table(u64 user, u64 n, size_t size)
{
	void *table;

	if (n > CR_MAX_RUNS)
		return ERR_PTR(-E2BIG);
	if (fault_in_readable(u64_to_user_ptr(user), n * size))
		return ERR_PTR(-EFAULT);
	table = kvmalloc_array(n + 1, size, GFP_KERNEL_ACCOUNT);
	if (!table)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(table, u64_to_user_ptr(user), n * size)) {
		kvfree(table);
		return ERR_PTR(-EFAULT);
	}
	return table;
}

/**
 * cr_stream_begin() - begin to fill an array
 * @stream: the stream; if successful, end it by cr_stream_end()
 * @array: address and capacity of the array in user space
 * @size: bytes of one element
 *
 * Return: 0 or -ENOMEM.
 */
int cr_stream_begin(struct cr_stream *stream, const struct cr_array *array, size_t size)
{
	stream->to = array->buf;
	stream->room = array->count;
	stream->size = size;
	stream->most = PAGE_SIZE / size;
	stream->held = 0;
	stream->count = 0;
	stream->page = (void *)__get_free_page(GFP_KERNEL_ACCOUNT);
	return stream->page ? 0 : -ENOMEM;
}

/**
 * cr_stream_add() - add one element
 * @stream: the stream, not full, see cr_stream_full()
 * @element: stream->size bytes
 *
 * Does not sleep.
 */
void cr_stream_add(struct cr_stream *stream, const void *element)
{
	if (stream->count++ < stream->room)
		memcpy(stream->page + stream->held++ * stream->size, element, stream->size);
}

/**
 * cr_stream_flush() - copy the added elements to user space
 * @stream: the stream, empty afterwards
 *
 * A page fault in user memory may block for any time, so the caller must not hold locks.
 *
 * Return: 0 or -EFAULT.
 */
int cr_stream_flush(struct cr_stream *stream)
{
	size_t bytes = stream->held * stream->size;

	if (bytes && copy_to_user(u64_to_user_ptr(stream->to), stream->page, bytes))
		return -EFAULT;
	stream->to += bytes;
	stream->held = 0;
	return 0;
}

/**
 * cr_stream_end() - copy the remaining elements and report their total number
 * @stream: the stream, freed
 * @array: out: count
 * @error: an error of the caller; 0: none
 *
 * Return: the result for the ioctl: @error, 0, -ENOBUFS or -EFAULT.
 */
long cr_stream_end(struct cr_stream *stream, struct cr_array *array, int error)
{
	if (!error)
		error = cr_stream_flush(stream);
	free_page((unsigned long)stream->page);
	if (error)
		return error;
	array->count = stream->count;
	return stream->count > stream->room ? -ENOBUFS : 0;
}

/**
 * cr_spans_add() - add [@addr, @end), merged with the previous range if adjacent
 * @spans: the ranges; their stream is not full
 * @addr: start, not below the end of the previous range
 * @end: end; if equal to @addr, nothing is added
 */
void cr_spans_add(struct cr_spans *spans, unsigned long addr, unsigned long end)
{
	if (addr == end)
		return;
	if (spans->end != addr || spans->start == spans->end) {
		cr_spans_close(spans);
		spans->start = addr;
	}
	spans->end = end;
}

/**
 * cr_spans_close() - end the current range: the next one is not merged with it
 * @spans: the ranges; their stream is not full
 */
void cr_spans_close(struct cr_spans *spans)
{
	struct cr_range range = { spans->start, spans->end - spans->start };

	if (range.len)
		cr_stream_add(&spans->stream, &range);
	spans->start = 0;
	spans->end = 0;
}
