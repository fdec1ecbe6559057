/* Starts main() on a Cortex-M of qemu. The start file of a board's SDK takes
   its place. */
#include <stdint.h>
#include <stdlib.h>

extern char stack_top[];                      /* board.ld */
extern void initialise_monitor_handles(void); /* newlib: printf, fopen */
extern int main(void);

void _init(void) {}
void _fini(void) {}

static void reset(void) {
  volatile uint32_t* const cpacr = (volatile uint32_t*)0xE000ED88u;
  *cpacr |= 0xFu << 20; /* the floating-point unit, if there is one */
  initialise_monitor_handles();
  exit(main());
}

static void fault(void) { _Exit(99); }

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault};
