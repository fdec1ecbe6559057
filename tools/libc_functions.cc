// Functions of static programs in place of glibc's: tools/libc.ld names them,
// or they have glibc's name and are linked first.

#include <clocale>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

const char* ringlet_gettext(const char* message) { return message; }

const char* ringlet_dcgettext(const char*, const char* message, int) {
  return message;
}

void ringlet_do_nothing() {}

// Compares without regard to case, for letters of ASCII. glibc's functions have
// a variant for each instruction set of x86-64, which takes 20 kB.
static int Compare(const char* a, const char* b, size_t count) {
  const auto small = [](char c) {
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A')
                                : static_cast<unsigned char>(c);
  };
  for (; count > 0; --count, ++a, ++b) {
    const int difference = small(*a) - small(*b);
    if (difference != 0 || *a == '\0') return difference;
  }
  return 0;
}

int strcasecmp(const char* a, const char* b) noexcept {
  return Compare(a, b, SIZE_MAX);
}

int __strncasecmp_l(const char* a, const char* b, size_t count, locale_t) {
  return Compare(a, b, count);
}

// sscanf of whole decimal numbers, with glibc's results: %u and %d, %n with h,
// l or ll, %c, spaces, and other characters as they are. glibc reads time zones
// with it, and libjpeg-turbo JPEGMEM. glibc's own takes 36 kB.
int __isoc99_sscanf(const char* text, const char* format, ...) {
  const char* at = text;
  int count = 0;
  va_list to;
  va_start(to, format);
  for (; *format != '\0'; ++format) {
    if (*format == ' ') {
      at += std::strspn(at, " \t\n");
      continue;
    }
    if (*format != '%') {
      if (*at != *format) break;
      ++at;
      continue;
    }
    int size = 0;  // -1 for short, 1 for long, 2 for long long
    for (++format; *format == 'h' || *format == 'l'; ++format) {
      size += *format == 'h' ? -1 : 1;
    }
    auto value = static_cast<unsigned long long>(at - text);
    if (*format == 'c' && *at != '\0') {
      *va_arg(to, char*) = *at++;
      ++count;
      continue;
    }
    if (*format != 'n') {
      char* end = nullptr;
      value = std::strtoull(at, &end, 10);
      if ((*format != 'u' && *format != 'd') || end == at) break;
      at = end;
      ++count;
    }
    void* const result = va_arg(to, void*);
    if (size < 0) {
      *static_cast<unsigned short*>(result) =
          static_cast<unsigned short>(value);
    } else if (size == 0) {
      *static_cast<unsigned*>(result) = static_cast<unsigned>(value);
    } else if (size == 1) {
      *static_cast<unsigned long*>(result) = static_cast<unsigned long>(value);
    } else {
      *static_cast<unsigned long long*>(result) = value;
    }
  }
  va_end(to);
  return count;
}
}
