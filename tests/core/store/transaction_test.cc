#include "core/store/transaction.h"

#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;

TEST_CASE("transaction: a new store has generation 1 and nothing active; rollback from there has no target") {
  StoreFixture store;
  CHECK(store.Current().generation == 1);
  CHECK(!store.Current().composition);
  CHECK(store.Rollback().error().code == Code::NO_ROLLBACK_TARGET);
  CHECK(store.Open().OpenActive().error().code == Code::NO_ACTIVE);
}

TEST_CASE("transaction: activation, activation of another, rollback twice goes two back") {
  StoreFixture store;
  REQUIRE(Must(store.Activate(store.a)).generation == 2);
  REQUIRE(Must(store.Activate(store.b)).generation == 3);
  REQUIRE(Must(store.Activate(store.none)).generation == 4);
  CHECK(Must(store.Rollback()).composition == store.b);
  CHECK(Must(store.Rollback()).composition == store.a);
  CHECK(Must(store.Rollback()).composition == std::nullopt);
  CHECK(store.Current().generation == 7);
  CHECK(store.Rollback().error().code == Code::NO_ROLLBACK_TARGET);
}
