// The tests of fibers once more, with those that need no assembly: fiber.c and schedule.c, the two
// files that know what a fiber is made of, are compiled in here and take the library's place. With
// the checks of _FORTIFY_SOURCE on, as some distributions have them, which fiber.c must escape.
#define SIMT_PORTABLE_FIBERS
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2

// NOLINTBEGIN(bugprone-suspicious-include)
#include "common/simt/fiber.c"
#include "common/simt/schedule.c"

#include "tests/unit/test_simt_fibers.c"
// NOLINTEND(bugprone-suspicious-include)
