#pragma once
/* cmocka wants these before it. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

/* A test without a state of its own: TEST(test_name) { ... } */
#define TEST(name) static void name(void **state __attribute__((unused)))
