/* A Cortex-M4 of QEMU's board mps2-an386: its start, and what a run takes. Printing is newlib's, by semihosting. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"

extern uint32_t stack_top[], data_start[], data_end[], bss_start[], bss_end[], end[];
extern const uint32_t data_load[];
extern void initialise_monitor_handles(void);
extern int main(void);

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define PAINT 0xa5a5a5a5u
#define DEPTH 16384 /* words below the stack pointer that are looked at */

static uint32_t *painted;
static uint32_t turns;

void every_tick(void) { turns++; }

static void stop(void) { abort(); }

void _init(void) {}

void _fini(void) {}

void reset(void) {
  REGISTER(0xe000ed88) |= 0xfu << 20; /* the floating-point unit */
  __asm__ volatile("dsb\nisb");
  memcpy(data_start, data_load, (size_t)((char *)data_end - (char *)data_start));
  memset(bss_start, 0, (size_t)((char *)bss_end - (char *)bss_start));
  initialise_monitor_handles();
  exit(main());
}

void board_begin(void) {
  uint32_t *here = __builtin_frame_address(0);
  painted = here - DEPTH > end ? here - DEPTH : end;
  for (uint32_t *p = painted; p < here - 16; p++) *p = PAINT;
  turns = 0;
  REGISTER(0xe000e014) = 0xffffff; /* SysTick: 24 bits of the processor's clock */
  REGISTER(0xe000e018) = 0;
  REGISTER(0xe000e010) = 7;
}

Taken board_end(void) {
  const uint32_t left = REGISTER(0xe000e018);
  REGISTER(0xe000e010) = 0;
  const uint32_t *p = painted;
  while (*p == PAINT) p++;
  const uint32_t *here = __builtin_frame_address(0);
  const Taken taken = {(unsigned long)((const char *)here - (const char *)p), (uint64_t)turns * 0x1000000 + (0xffffff - left)};
  return taken;
}

__attribute__((section(".vectors"), used)) const void *const vectors[16] = {
  stack_top, reset, stop, stop, stop, stop, stop, 0, 0, 0, 0, stop, stop, 0, stop, every_tick,
};
