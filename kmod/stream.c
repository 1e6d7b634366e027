// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arrays for user space that are told piece by piece: one page of kernel memory,
 * however long they get, and no lock held while user memory is written.
 */
#include "internal.h"
#include <linux/slab.h>
#include <linux/uaccess.h>

/**
 * cr_stream_begin() - begin to fill an array
 * @stream: to be ended by cr_stream_end()
 * @array: of user space
 * @size: bytes of one element
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
 * cr_stream_add() - one more element
 * @stream: not full, see cr_stream_full()
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
 * cr_stream_flush() - hand over what was added
 * @stream: has room again then
 *
 * May sleep for as long as user space likes: the caller holds no lock.
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
 * cr_stream_end() - hand the rest over and say how many elements there are
 * @stream: ends
 * @array: gets their number
 * @error: of the caller, 0: none
 *
 * Return: @error, or what the ioctl shall return: 0, -ENOBUFS or -EFAULT.
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
 * cr_spans_add() - one more piece of ranges that are told as long as they can be
 * @spans: whose stream is not full
 * @addr: not before what was added last
 * @end: @addr: nothing
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
 * cr_spans_close() - what comes next is a range of its own
 * @spans: whose stream is not full
 */
void cr_spans_close(struct cr_spans *spans)
{
	struct cr_range range = { spans->start, spans->end - spans->start };

	if (range.len)
		cr_stream_add(&spans->stream, &range);
	spans->start = 0;
	spans->end = 0;
}
