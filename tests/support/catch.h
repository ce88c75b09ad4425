// Catch2 2.13 and 3.x through one include.
#ifndef VENEER_TESTS_SUPPORT_CATCH_H_
#define VENEER_TESTS_SUPPORT_CATCH_H_

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#endif  // VENEER_TESTS_SUPPORT_CATCH_H_
