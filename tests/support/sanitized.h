// True in a build with a sanitizer, which takes more memory than a test's
// limit.

#ifndef RINGLET_TESTS_SUPPORT_SANITIZED_H_
#define RINGLET_TESTS_SUPPORT_SANITIZED_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RINGLET_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RINGLET_SANITIZED 1
#endif
#endif

#endif  // RINGLET_TESTS_SUPPORT_SANITIZED_H_
