// NoticeNow: a line on stderr without allocating.

#ifndef RINGLET_CORE_BASE_NOTICE_NOW_H_
#define RINGLET_CORE_BASE_NOTICE_NOW_H_

namespace ringlet {

// As Notice, without allocating, for a text that ends in a newline. For signal
// handlers, and for use when memory has failed.
void NoticeNow(const char* text);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_NOTICE_NOW_H_
