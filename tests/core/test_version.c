/* test_version.c: the version the library tells is the one its header states, and the build's. */
#include "check.h"

#include "ltrain.h"

int main(void) {
  char header[32];
  snprintf(header, sizeof header, "%d.%d.%d", LT_VERSION_MAJOR, LT_VERSION_MINOR, LT_VERSION_PATCH);
  CHECK_STR(lt_version(), header);
  CHECK_STR(lt_version(), LT_TEST_VERSION);
  return check_done();
}
