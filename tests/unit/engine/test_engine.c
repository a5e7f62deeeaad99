/* The control plane without ranks: what it refuses, and how lanes, copies and
 * decode homes are shared. */
#include "scene.h"
#include "support/check_main.h"

PL_CHECK_MAIN("engine", open_case(), lanes_case(), copies_case(), homes_case(),
              storage_case(), links_case(), draft_case(), port_case(),
              turns_case())
