// Functions of static programs in place of glibc's: tools/libc.ld names them.

extern "C" {

const char* ringlet_gettext(const char* message) { return message; }

const char* ringlet_dcgettext(const char*, const char* message, int) {
  return message;
}

void ringlet_do_nothing() {}
}
